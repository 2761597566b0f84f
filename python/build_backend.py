# SPDX-License-Identifier: Apache-2.0
"""How pip builds this package from sources (PEP 517): CMake's preset `runtime`, packed by scripts/wheel for this machine. It takes
the compiler and the libraries that are installed (docs/install.md), and no Python package."""
import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What the build reads, of the files that git tracks.
PARTS = ('CMakeLists.txt', 'CMakePresets.json', 'LICENSE', 'README.md', 'THIRD_PARTY.md', 'pyproject.toml', 'apps', 'cmake',
         'deploy/exeunt.service', 'docs/python.md', 'exeunt', 'lab', 'python', 'recipes', 'scripts/sbom', 'scripts/wheel', 'web')
LEFT_OUT = re.compile(r'lab/(notebooks|docs|studies)/|exeunt/c/abi/')


def version():
    """Of the release that scripts/release makes, of unpacked sources, or of the tree; between releases as Python writes it."""
    said, facts = os.environ.get('EXEUNT_VERSION'), ROOT / 'PKG-INFO'
    if not said and facts.exists():
        said = re.search('^Version: (.*)', facts.read_text(), re.M).group(1)
    return (said or re.search(r'project\(exeunt VERSION ([\d.]+)', (ROOT / 'CMakeLists.txt').read_text()).group(1)).replace('-dev.', '.dev')


def _run(*words):
    subprocess.run([str(word) for word in words], cwd=ROOT, check=True, stdout=sys.stderr)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _run('cmake', '--preset', 'runtime', '--log-level=WARNING')
    _run('cmake', '--build', '--preset', 'runtime', '-j', os.cpu_count() or 1, '--target', 'exeunt', 'exeunt_shared')
    _run(sys.executable, 'scripts/wheel', 'build/runtime', Path(wheel_directory).resolve(), '--local')
    return max(Path(wheel_directory).glob('exeunt-*.whl'), key=os.path.getmtime).name


def build_sdist(sdist_directory, config_settings=None):
    """The same files give the same bytes."""
    listed = subprocess.run(['git', 'ls-files', '-z', '--', *PARTS], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [name for name in sorted(listed.split('\0')) if name and not LEFT_OUT.match(name)]
    facts = f'Metadata-Version: 2.1\nName: exeunt\nVersion: {version()}\n'.encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w', format=tarfile.PAX_FORMAT) as archive:
        for name, data in [('PKG-INFO', facts), *((name, (ROOT / name).read_bytes()) for name in names)]:
            entry = tarfile.TarInfo(f'exeunt-{version()}/{name}')
            entry.size = len(data)
            entry.mode = 0o755 if data.startswith(b'#!') else 0o644
            archive.addfile(entry, io.BytesIO(data))
    out = Path(sdist_directory) / f'exeunt-{version()}.tar.gz'
    out.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return out.name


if __name__ == '__main__':
    print(Path(sys.argv[1]) / build_sdist(sys.argv[1]))
