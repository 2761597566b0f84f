# SPDX-License-Identifier: Apache-2.0
"""Packs a wheel, installs it with pip into bare environments without a network, and runs the package's tests there.

    wheel_test.py --build FOLDER        packs the build in FOLDER, for this machine
    wheel_test.py --wheel FILE          takes a finished wheel, and checks its platform tag
    wheel_test.py --sdist FILE          builds a wheel from a source distribution with pip first (minutes)
"""
import argparse
import hashlib
import base64
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f'{" ".join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}{done.stderr}')
    return done.stdout


def check_wheel(path):
    """RECORD has every file with its hash; the tag in the name is the one inside."""
    with zipfile.ZipFile(path) as wheel:
        info = next(name.split('/')[0] for name in wheel.namelist() if '.dist-info/' in name)
        record = dict(line.split(',', 1) for line in wheel.read(f'{info}/RECORD').decode().splitlines())
        assert set(record) == set(wheel.namelist()), set(record) ^ set(wheel.namelist())
        for name in wheel.namelist():
            if not name.endswith('/RECORD'):
                digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b'=').decode()
                assert record[name] == f'sha256={digest},{wheel.getinfo(name).file_size}', name
        tag = path.name.split('-', 2)[2].removesuffix('.whl')
        assert f'Tag: {tag}\n' in wheel.read(f'{info}/WHEEL').decode(), tag
        linked = [name for name in run(ROOT / 'scripts/sbom', '--packages').split() if Path(f'/usr/share/doc/{name}/copyright').exists()]
        assert {f'{info}/licenses/{name}' for name in linked} <= set(wheel.namelist()), linked
        assert 'exeunt/py.typed' in wheel.namelist()
        assert not any('/cpython-' in name or name.endswith('.pyc') for name in wheel.namelist())
        return tag, wheel.read('exeunt/bin/exeunt'), wheel.read('exeunt/lib/libexeunt.so.0')


def check_portable(tag, binaries):
    """No symbol of a glibc newer than the tag says, one of the very one, and no library but glibc: read from the strings of
    the files, independent of the tool that made the tag."""
    major, minor = map(int, re.search(r'manylinux_(\d+)_(\d+)_', tag).groups())
    used = {(int(a), int(b)) for data in binaries for a, b in re.findall(rb'(?<=\0)GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)', data)}
    assert max(used) == (major, minor) or (major, minor) == (2, 17) >= max(used), (tag, max(used))
    with tempfile.TemporaryDirectory() as folder:
        for data in binaries:
            file = Path(folder) / 'binary'
            file.write_bytes(data)
            needed = re.findall(r'\(NEEDED\).*\[(.+)\]', run('readelf', '--wide', '--dynamic', file))
            assert all(name.startswith(('libc.', 'libm.', 'ld-linux', 'libpthread.', 'libdl.', 'librt.')) for name in needed), needed


def environment(folder, wheel, *options):
    """A new virtual environment with the wheel and nothing else."""
    run(sys.executable, '-m', 'venv', *options, folder)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(('PIP_', 'PYTHON', 'EXEUNT_'))}
    clean['PIP_CONFIG_FILE'] = '/dev/null'
    python = Path(folder) / 'bin/python'
    run(python, '-m', 'pip', 'install', '--no-index', '--no-deps', '--quiet', wheel, env=clean)
    return python, clean


def built(sdist, scratch):
    """The wheel that pip makes of a source distribution in a bare environment."""
    run(sys.executable, '-m', 'venv', scratch / 'builder')
    run(scratch / 'builder/bin/python', '-m', 'pip', 'wheel', '--no-index', '--no-deps', '--wheel-dir', scratch / 'built', sdist)
    return next((scratch / 'built').glob('*.whl'))


def check_sdist(scratch):
    """The same files give the same bytes, and CMake finds every file it names in them."""
    if not (ROOT / '.git').exists():
        return print('no git here: the source distribution is not tested')
    for name in ('one', 'two'):
        (scratch / name).mkdir()
    backend = [sys.executable, ROOT / 'python/build_backend.py']
    sdist = Path(run(*backend, scratch / 'one').strip())
    assert sdist.read_bytes() == Path(run(*backend, scratch / 'two').strip()).read_bytes(), 'the same files give another sdist'
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / 'source')
    folder = scratch / 'source' / sdist.name.removesuffix('.tar.gz')
    assert not [name for name in ('tests', 'benchmarks') if (folder / name).exists()]
    run('cmake', '--preset', 'runtime', '--log-level=WARNING', cwd=folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', type=Path)
    parser.add_argument('--wheel', type=Path)
    parser.add_argument('--sdist', type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.wheel:
            wheel = options.wheel.resolve()
        elif options.sdist:
            wheel = built(options.sdist.resolve(), Path(scratch))
        else:
            check_sdist(Path(scratch))
            pack = [sys.executable, ROOT / 'scripts/wheel', options.build]
            wheel = Path(run(*pack, Path(scratch) / 'dist', '--local').strip())
            first = wheel.read_bytes()
            again = Path(run(*pack, Path(scratch) / 'again', '--local').strip())
            assert first == again.read_bytes(), 'the same inputs give another wheel'
        tag, *binaries = check_wheel(wheel)
        if 'manylinux' in tag:
            check_portable(tag, binaries)
        bare, clean = environment(Path(scratch) / 'bare', wheel)
        assert run(bare, '-m', 'exeunt', '--version', env=clean).startswith('exeunt ')
        assert run(bare.parent / 'exeunt', '--version', env=clean).startswith('exeunt ')
        # With lists, and, where the system has numpy, with arrays.
        pythons = [bare]
        if subprocess.run([sys.executable, '-c', 'import numpy'], capture_output=True, check=False).returncode == 0:
            pythons.append(environment(Path(scratch) / 'numpy', wheel, '--system-site-packages')[0])
        else:
            print('numpy is not installed: tested with lists alone')
        for python in pythons:
            print(run(python, '-I', ROOT / 'tests/system/python/package_test.py', cwd=scratch, env=clean), end='')


if __name__ == '__main__':
    main()
