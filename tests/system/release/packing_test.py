#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What packs a release, with a command that does nothing: install.sh, scripts/image, scripts/sbom. (release_test.py: real ones.)

    packing_test.py REPOSITORY
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop()).resolve()


def paths(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob('*'))


class Packing(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.folder / 'tree'
        for name, text in {'bin/exeunt': '#!/bin/sh\necho exeunt 1.2.3\n', 'include/exeunt.h': '', 'lib/libexeunt.so.0': '',
                           'lib/systemd/system/exeunt.service': (ROOT / 'deploy/exeunt.service').read_text(),
                           'share/man/man1/exeunt.1': ''}.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)
            (self.tree / name).chmod(0o755)
        (self.tree / 'lib/libexeunt.so').symlink_to('libexeunt.so.0')

    def run_script(self, script, *words, **more):
        return subprocess.run([script, *words], capture_output=True, check=False, env=os.environ | {'SOURCE_DATE_EPOCH': '1700000000'} | more)

    def install(self, *words):
        shutil.copy(ROOT / 'deploy/install.sh', self.tree)
        return self.run_script(self.tree / 'install.sh', *words)

    def test_uninstalling_after_an_upgrade_leaves_the_files_of_others(self):
        prefix = self.folder / 'a prefix'
        (prefix / 'share/man').mkdir(parents=True)
        (prefix / 'share/man/other.1').write_text('')
        before = paths(prefix)
        (self.tree / 'share/old').write_text('')
        self.assertEqual(self.install('--prefix', prefix).returncode, 0)
        (self.tree / 'share/old').unlink()
        self.assertEqual(self.install('--prefix', prefix).returncode, 0)
        self.assertIn(f'ExecStart={prefix}/bin/exeunt serve', (prefix / 'lib/systemd/system/exeunt.service').read_text())
        self.assertEqual(set(paths(prefix)) - set(before),
                         set(paths(self.tree)) - set(before) - {'install.sh'} | {'share/exeunt', 'share/exeunt/installed'})
        self.assertEqual(self.install('--prefix', prefix, '--uninstall').returncode, 0)
        self.assertEqual(paths(prefix), before)

    def test_install_refuses_what_it_cannot_do_and_leaves_nothing(self):
        prefix = self.folder / 'prefix'
        for words, status in ((('--prefix',), 2), (('--prefix', 'relative'), 2), (('--force',), 2),
                              (('--prefix', prefix, '--uninstall'), 1)):
            done = self.install(*words)
            self.assertEqual((done.returncode, done.stderr.count(b'\n')), (status, 1), words)
        (self.tree / 'bin/exeunt').write_text('#!/bin/sh\nexit 1\n')
        self.assertIn(b'does not run here', self.install('--prefix', prefix).stderr)
        self.assertFalse(prefix.exists())

    def test_an_image_has_the_settings_of_the_dockerfile_and_the_same_bytes_twice(self):
        one, two = (self.run_script(ROOT / 'scripts/image', self.tree, 'exeunt:1.2.3', 'aarch64').stdout for _ in range(2))
        self.assertEqual(one, two)
        (self.folder / 'image.tar').write_bytes(one)
        with tarfile.open(self.folder / 'image.tar') as tar:
            def read(name):
                return json.load(tar.extractfile(name))

            def described(what):
                return what['digest'].replace('sha256:', 'blobs/sha256/')

            manifest = read(described(read('index.json')['manifests'][0]))
            config = read(described(manifest['config']))
            self.assertEqual(read('manifest.json')[0]['Layers'], [described(manifest['layers'][0])])
            with tarfile.open(fileobj=tar.extractfile(described(manifest['layers'][0])), mode='r:gz') as layer:
                self.assertEqual(sorted(layer.getnames()), paths(self.tree))
                self.assertEqual({(entry.uid, entry.mtime) for entry in layer}, {(0, 1700000000)})
        dockerfile = (ROOT / 'deploy/Dockerfile').read_text()
        self.assertEqual(config['architecture'], 'arm64')
        self.assertEqual(config['config']['User'], re.search(r'^USER (.*)', dockerfile, re.M).group(1))
        self.assertEqual(config['config']['Entrypoint'], ['/usr/bin/exeunt', 'serve'])
        self.assertEqual(config['config']['Healthcheck']['Test'][:3], ['CMD', 'bash', '-c'])

    def test_a_development_build_has_its_own_version_in_each_package(self):
        for name in ('pyproject.toml', 'python/build_backend.py', 'CMakeLists.txt'):
            (self.folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)

        def version(**said):
            return self.run_script(sys.executable, '-c', 'import sys; sys.path.insert(0, sys.argv[1]); import build_backend; '
                                   'print(build_backend.version())', self.folder / 'python', **said).stdout.decode().strip()

        self.assertRegex(version(), r'^[\d.]+$')
        self.assertEqual(version(EXEUNT_VERSION='1.2.3-dev.45'), '1.2.3.dev45')
        (self.folder / 'PKG-INFO').write_text('Name: exeunt\nVersion: 1.2.3.dev45\n')
        self.assertEqual(version(), '1.2.3.dev45')

    def test_the_sbom_names_each_linked_library_and_each_file(self):
        image = self.folder / 'exeunt-1.2.3-image-x86_64.tar'
        image.write_bytes(b'')
        done = self.run_script(ROOT / 'scripts/sbom', '1.2.3', ROOT / 'LICENSE', image)
        if b'dpkg-query' in done.stderr:
            self.skipTest('not on Debian, or without LibTorch')
        bill = json.loads(done.stdout)
        third_party = (ROOT / 'THIRD_PARTY.md').read_text()
        linked = third_party[third_party.index('## Linked into'):third_party.index('## Tests')]
        self.assertEqual(len(bill['packages']) - 3, len(re.findall(r'^\| (?!library|software|---)', linked, re.M)) - 1)  # Boost has two rows
        for package in bill['packages']:  # one version, also of a library that is there for two architectures
            version = package['versionInfo']
            self.assertTrue(version and version != version[:len(version) // 2] * 2, package)
        self.assertEqual([file['fileName'] for file in bill['files']], ['./LICENSE', f'./{image.name}'])
        related = {(one['spdxElementId'], one['relatedSpdxElement']) for one in bill['relationships']}
        self.assertLessEqual({('SPDXRef-File-1', 'SPDXRef-exeunt-image'), ('SPDXRef-exeunt-image', 'SPDXRef-bash')}, related)
        names = {'SPDXRef-DOCUMENT', *(one['SPDXID'] for one in bill['packages'] + bill['files'])}
        for relation in bill['relationships']:
            self.assertLessEqual({relation['spdxElementId'], relation['relatedSpdxElement']}, names)


if __name__ == '__main__':
    unittest.main()
