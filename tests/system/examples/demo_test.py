#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo where the npm registry is out of reach: it says so in one line and goes on with our own encoder to its end.

    demo_test.py EXEUNT
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


class WithoutNpm(unittest.TestCase):
    def test_it_falls_back_and_shows_every_step(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "npm").write_text("#!/bin/sh\necho 'npm ERR! network request failed' >&2; exit 1\n")
            (folder / "npm").chmod(0o755)
            # A copy of the programs, so that an encoder brought before is not found.
            (folder / "bin").mkdir()
            for program in ("exeunt", "exeunt-train", "exeunt-lab"):
                shutil.copy2(PROGRAM.parent / program, folder / "bin" / program)
            out = folder / "demo"
            done = subprocess.run(
                [sys.executable, ROOT / "scripts" / "demo", folder / "bin" / "exeunt", "--out", out, "--epochs", "0.5",
                 "--threads", "1"], capture_output=True, text=True, timeout=900,
                env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", OMP_NUM_THREADS="1", NO_COLOR="1",
                         XDG_STATE_HOME=f"{folder}/state"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            fallback = [line for line in done.stdout.splitlines() if "our own small encoder" in line]
            self.assertEqual(len(fallback), 1)
            self.assertIn("npm ERR! network request failed", fallback[0])
            for part in ("1. ", "2. ", "3. ", "4. ", "5. ", "6. ", "7. ", "8. ", "What happened", "What to try next"):
                self.assertIn(f"\n{part}", done.stdout)
            self.assertIn("exit after  accuracy", done.stdout)
            self.assertIn('"label"', done.stdout)
            self.assertIn("ended with status 0", done.stdout)
            self.assertGreater((out / "report.html").stat().st_size, 20_000)
            summary = json.loads((out / "summary.json").read_text())
            self.assertEqual((summary["backbone"], summary["layers"]), ("tiny-en", 6))
            self.assertIn(f"\n{summary['samples_from_words']} of 10 never enter the encoder", done.stdout)
            self.assertGreaterEqual(summary["gain"], 1)
            self.assertGreater(summary["speed_up"], 0)
            self.assertGreaterEqual(summary["attach_gain"], 1)
            self.assertTrue((out / "attached" / "policy.json").exists())
            self.assertIn("at most 2 % of answers to requests differ from the fp32 model at full depth", summary["promise"])
            self.assertIn(summary["promise"], done.stdout.split("What happened")[1])
            policies = json.loads((out / "model" / "policy.json").read_text())
            self.assertEqual(policies["default_precision"], summary["precision"])

    def test_a_command_that_fails_ends_it_with_the_reason(self):
        with tempfile.TemporaryDirectory() as name:
            broken = pathlib.Path(name) / "exeunt"
            broken.write_text("#!/bin/sh\necho 'error: no such thing' >&2; exit 4\n")
            broken.chmod(0o755)
            done = subprocess.run([sys.executable, ROOT / "scripts" / "demo", broken, "--out", pathlib.Path(name) / "demo",
                                   "--backbone", "tiny-en"], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 1)
            self.assertIn("the demo stops: 'exeunt train", done.stderr)
            self.assertIn("status 4", done.stderr)


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
