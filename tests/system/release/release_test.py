#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each package of dist/ in a system that has nothing: installed, README's commands for a finished model, removed without a trace.

    release_test.py DIST REPOSITORY ROOTS     as root; Debian systems are kept in ROOTS as SUITE.tar

The tarball is tried on Debian 11, 12 and 13, the wheel on 11 and 13, the Debian packages and that of npm on 12, the image in its own
root. Exit status 1 with what went wrong.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(sys.argv[2]) / 'tests/system/first_day'))
import readme_test as readme  # noqa: E402

DIST, ROOT, ROOTS = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
MB = 1_000_000
MOST_SECONDS = 60  # from nothing to the first answer
# What apt, dpkg and the kernel keep, installed or not, and what is mounted or brought by this test.
NOT_OURS = re.compile(r'(proc|sys|dev|run|work|tmp|root|var/cache|var/log|var/lib/apt|var/lib/dpkg/(status|diversions)-old|'
                      r'etc/(passwd|shadow|group|gshadow|subuid|subgid)-|var/lib/systemd/deb-systemd.*)(/|$)')
NPMS_OWN = re.compile(r'(proc|sys|dev|run|tmp)(/|$)|work/(\.npm(/|$)|package(-lock)?\.json$)')
ENVIRONMENT = {'PATH': '/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/work', 'LC_ALL': 'C.UTF-8',
               'NO_COLOR': '1', 'DEBIAN_FRONTEND': 'noninteractive', 'PORT': '0', 'PYTHONDONTWRITEBYTECODE': '1'}


def one(pattern):
    found = list(DIST.glob(pattern))
    if len(found) != 1:
        sys.exit(f'{DIST}: want one {pattern}, got {[path.name for path in found]}')
    return found[0]


@contextlib.contextmanager
def bare(suite, *packages):
    """A Debian system with the packages that are always there, those named, and nothing else."""
    kept = ROOTS / f'{"-".join([suite, *packages])}.tar'
    if not kept.exists():
        ROOTS.mkdir(parents=True, exist_ok=True)
        subprocess.run(['mmdebstrap', '--quiet', '--variant=minbase', '--include=' + ','.join(['ca-certificates', *packages]),
                        suite, f'{kept}.new'], check=True)
        os.rename(f'{kept}.new', kept)
    with tempfile.TemporaryDirectory(dir=ROOTS) as folder:
        subprocess.run(['tar', '-C', folder, '-xf', kept], check=True)
        shutil.copyfile('/etc/resolv.conf', f'{folder}/etc/resolv.conf')
        with mounted(pathlib.Path(folder)) as root:
            yield root


@contextlib.contextmanager
def mounted(root):
    for name in ('proc', 'work'):
        (root / name).mkdir(exist_ok=True)
    subprocess.run(['mount', '-t', 'proc', 'proc', root / 'proc'], check=True)
    try:
        yield root
    finally:
        subprocess.run(['umount', root / 'proc'], check=True)


def inside(root, command, user='0'):
    """The command line that runs it in /work of that system."""
    return f'chroot --userspec={user}:{user} {root} sh -c {shlex.quote(f"cd /work && exec {command}")}'


def run(root, command, user='0'):
    return readme.run(inside(root, command, user), root, ENVIRONMENT)


def files(root, not_ours=NOT_OURS):
    found = set()
    for folder, folders, names in os.walk(root):
        place = os.path.relpath(folder, root)
        folders[:] = [name for name in folders if not not_ours.match(os.path.normpath(f'{place}/{name}'))]
        found.update(os.path.normpath(f'{place}/{name}') for name in folders + names)
    return {path for path in found if not not_ours.match(path)}


def expect_as_before(before, root, what, not_ours=NOT_OURS):
    after = files(root, not_ours)
    if after != before:
        sys.exit(f'{what}: left {sorted(after - before)}, took {sorted(before - after)}')


def use(root, what, start, user='0'):
    """The commands of README.md that follow its installation; from its start to the first answers takes a minute at most."""
    readme.give_finished_model(root / 'work')
    for path in (root / 'work', root / 'work/my-finetuned-bert'):
        os.chown(path, int(user), int(user))
    _, (_, attach), (_, serve) = readme.block_with('attach')
    printed = run(root, attach, user)
    if not re.search('^promise: at most 2 % of answers to distinct texts differ from the fp32 model at full depth', printed, re.M):
        sys.exit(f'{what}: {attach}: no promise\n{printed}')
    readme.check_served(inside(root, serve, user), root / 'work', ENVIRONMENT)
    first_answer(what, start)


def first_answer(what, start):
    seconds = time.monotonic() - start
    print(f'{what}: answered after {seconds:.0f} s')
    if seconds > MOST_SECONDS:
        sys.exit(f'{what}: want at most {MOST_SECONDS} s')


def try_tarball(suite):
    archive = one('exeunt-*-linux-*.tar.xz')
    with bare(suite) as root:
        subprocess.run(['tar', '-C', root / 'work', '-xf', archive], check=True)
        before, start = files(root), time.monotonic()
        install = f'/work/{archive.name.removesuffix(".tar.xz")}/install.sh'
        for _ in range(2):  # the second time as an upgrade
            run(root, install)
        use(root, f'{archive.name} on {suite}', start)
        run(root, f'{install} --uninstall')
        expect_as_before(before, root, archive.name)


def try_debian():
    with bare('bookworm') as root:
        for path in DIST.glob('*.deb'):
            shutil.copy(path, root / 'work')
        run(root, 'apt-get -qq update')
        before = files(root)
        run(root, "sh -c 'apt-get -qq install --yes --no-install-recommends --download-only ./exeunt_*.deb ./libexeunt*.deb'")
        start = time.monotonic()  # the network apart
        run(root, "sh -c 'apt-get -qq install --yes --no-install-recommends ./exeunt_*.deb ./libexeunt*.deb'")
        for name in ('etc/exeunt', 'lib/systemd/system/exeunt.service', 'usr/share/man/man1/exeunt.1.gz', 'usr/include/exeunt.h',
                     'usr/share/bash-completion/completions/exeunt', 'usr/lib/*/libexeunt.so', 'usr/lib/*/pkgconfig/exeunt.pc'):
            if not list(root.glob(name)):
                sys.exit(f'the packages lack /{name}')
        use(root, 'Debian packages', start)
        run(root, "sh -c 'apt-get -qq install --yes --no-install-recommends ./exeunt-train_*.deb'")
        if '--recipe' not in run(root, 'exeunt train --help') or 'not found' in run(root, 'ldd /usr/libexec/exeunt/exeunt-train'):
            sys.exit('exeunt-train does not start')
        (root / 'var/lib/exeunt').mkdir()  # as the service's start does
        run(root, "apt-get -qq purge --yes --autoremove exeunt exeunt-train libexeunt0 libexeunt-dev")
        expect_as_before(before, root, 'Debian packages')
        if 'exeunt' in (root / 'etc/passwd').read_text():
            sys.exit('Debian packages: left the user exeunt')


def try_wheel(suite):
    """In a virtual environment, which is first on the PATH: the command inside, and the lines of docs/python.md."""
    wheel = one('exeunt-*.whl')
    with bare(suite, 'python3-venv') as root:
        shutil.copy(wheel, root / 'work')
        run(root, 'python3 -m venv /opt/venv')
        before, start = files(root), time.monotonic()
        run(root, f'pip install --no-index --quiet ./{wheel.name}')
        use(root, f'{wheel.name} on {suite}', start)
        lines = 'from exeunt import Classifier; model = Classifier("fast"); print(model("a film of the plot").labels, model.promise)'
        printed = run(root, f"python -c '{lines}'")
        if 'at most 2 %' not in printed:
            sys.exit(f'{wheel.name}: {printed}')
        run(root, 'pip uninstall --quiet --yes exeunt')
        expect_as_before(before, root, wheel.name)


def try_npm():
    """With Debian's Node: the lines of js/README.md. npm itself keeps a list of what it removed."""
    package = one('exeunt-*.tgz')
    with bare('bookworm', 'npm') as root:
        shutil.copy(package, root / 'work')
        shutil.copytree(readme.FIXTURES / 'checkpoints/bert-deebert', root / 'work/models/sst2')
        page = (ROOT / 'js/README.md').read_text(encoding='utf-8')
        (root / 'work/three.mjs').write_text(re.search(r'```js\n(.*?)```', page, re.S).group(1), encoding='utf-8')
        before, start = files(root, NPMS_OWN), time.monotonic()
        run(root, f'npm install --offline --no-audit --no-fund ./{package.name}')
        if 'exitLayer' not in run(root, 'node three.mjs'):
            sys.exit(f'{package.name}: no answer')
        first_answer(package.name, start)
        run(root, 'npm uninstall exeunt')
        (root / 'work/node_modules/.package-lock.json').unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not there, or not empty
            (root / 'work/node_modules').rmdir()
        expect_as_before(before, root, package.name, NPMS_OWN)


def try_image():
    """In a root of its own, as the user that it names; its health check is asked while it serves, and afterwards."""
    path = one('exeunt-*-image-*.tar')
    with tempfile.TemporaryDirectory(dir=ROOTS) as folder:
        with tarfile.open(path) as tar:
            tar.extractall(folder)
        blob = pathlib.Path(folder)

        def content(described):
            data = (blob / described['digest'].replace('sha256:', 'blobs/sha256/')).read_bytes()
            if hashlib.sha256(data).hexdigest() != described['digest'].removeprefix('sha256:') or len(data) != described['size']:
                sys.exit(f'{path.name}: {described}')
            return data

        manifest = json.loads(content(json.loads((blob / 'index.json').read_text())['manifests'][0]))
        config = json.loads(content(manifest['config']))['config']
        root = blob / 'root'
        root.mkdir()
        subprocess.run(['tar', '-C', root, '-xzf', '-'], input=content(manifest['layers'][0]), check=True)
        user = config['User']
        if int(user) == 0:
            sys.exit(f'{path.name} runs as root')
        with mounted(root), socket.socket() as free:
            use(root, path.name, time.monotonic(), user)
            shutil.copytree(root / 'work/fast', root / 'mnt/models', dirs_exist_ok=True)
            (root / 'run/secrets/exeunt-keys').write_text('a-key-of-this-test\n')
            free.bind(('127.0.0.1', 0))
            port = str(free.getsockname()[1])
            free.close()
            command, health = ([word.replace('8080', port) for word in words]
                               for words in ([*config['Entrypoint'], *config['Cmd']], config['Healthcheck']['Test'][1:]))
            with open(root / 'log', 'w', encoding='utf-8') as log:
                server = subprocess.Popen(['chroot', f'--userspec={user}:{user}', root, *command], env=ENVIRONMENT, stderr=log)
            asked = ['chroot', f'--userspec={user}:{user}', root, *health]
            try:
                end = time.monotonic() + readme.LIMIT_S
                while subprocess.run(asked, env=ENVIRONMENT, capture_output=True, check=False).returncode != 0:
                    if server.poll() is not None or time.monotonic() > end:
                        sys.exit(f'{path.name}: never healthy\n{(root / "log").read_text()}')
                    time.sleep(0.1)
            finally:
                server.terminate()
                server.wait()
            if subprocess.run(asked, env=ENVIRONMENT, capture_output=True, check=False).returncode == 0:
                sys.exit(f'{path.name}: healthy without a server')
    if shutil.which('podman'):
        subprocess.run(['podman', 'load', '--quiet', '--input', path], check=True)


def check_lists():
    """SHA256SUMS and the SBOM name each file, and with the bytes that it has."""
    sums = {}
    for path in DIST.iterdir():
        sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    del sums['SHA256SUMS']
    if dict(reversed(line.split()) for line in (DIST / 'SHA256SUMS').read_text().splitlines()) != sums:
        sys.exit('SHA256SUMS is not of these files')
    bill = one('*.spdx.json')
    listed = {file['fileName'].removeprefix('./'): file['checksums'][1]['checksumValue']
              for file in json.loads(bill.read_text())['files']}
    if listed | {bill.name: sums[bill.name]} != sums:
        sys.exit(f'{bill.name} is not of these files')


def main():
    check_lists()
    for path in sorted(DIST.iterdir()):
        most = 60 if '-image-' in path.name else 40
        if path.stat().st_size > most * MB and not path.name.startswith('exeunt-train_'):
            sys.exit(f'{path.name}: {path.stat().st_size / MB:.1f} MB, want at most {most}')
    for suite in ('bullseye', 'bookworm', 'trixie'):
        try_tarball(suite)
    for suite in ('bullseye', 'trixie'):
        try_wheel(suite)
    try_debian()
    try_npm()
    try_image()
    return 0


if __name__ == '__main__':
    sys.exit(main())
