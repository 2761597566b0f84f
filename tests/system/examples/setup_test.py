#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/setup with an apt of our own: it says what it does and how far it is, and nothing where nothing is missing."""
import os
import pathlib
import pty
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Reports its status as apt does; declines when asked for the size. Where STAGES names a folder, each stage lasts until the
# test puts a file of its name there.
APT = """
last() { while [ -n "$STAGES" ] && [ ! -e "$STAGES/$1" ]; do sleep 0.05; done; }
case "$*" in
  *update*) last lists ;;
  *--assume-no*) echo 'Need to get 480 MB of archives.'; echo 'Abort.'; exit 1 ;;
  *install*)
    echo "$@" > "$ASKED"
    account=$(expr "$*" : '.*Status-Fd=\\([0-9]*\\)')
    eval "echo 'dlstatus:1:43.2:Retrieving file 3 of 20' >&$account"
    last fetch
    echo 'Unpacking cmake ...'
    eval "echo 'pmstatus:cmake:61.5:Unpacking cmake' >&$account"
    last unpack
    # What a package's script prints: it runs without the descriptor that the status goes to.
    (eval "exec $account>&-"; echo 'Updating caches ...') || exit 100
    exit $STATUS ;;
esac
"""


class Setup(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.tool('apt-get', APT)
        self.tool('sudo', 'exec "$@"')
        self.tool('dpkg-query', 'for last; do :; done; [ "$last" = cmake ] || echo installed')
        self.environment = dict(os.environ, PATH=f'{self.folder}:{os.environ["PATH"]}', ASKED=str(self.folder / 'asked'), STATUS='0', STAGES='')

    def tool(self, name, text):
        (self.folder / name).write_text('#!/bin/sh\n' + text)
        (self.folder / name).chmod(0o755)

    def test_into_a_pipe_go_whole_lines(self):
        done = subprocess.run([ROOT / 'scripts/setup'], capture_output=True, text=True, env=self.environment, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:3], ['scripts/setup: missing: cmake', 'scripts/setup: 1 of 2, reading the lists of packages ...',
                                     'scripts/setup: 2 of 2, installing, 480 MB to fetch ...'])
        self.assertRegex(lines[3], r'^scripts/setup: done in \d+ s$')
        self.assertEqual((self.folder / 'asked').read_text().split()[-1], 'cmake')

    def test_a_terminal_shows_how_far_it_is(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([ROOT / 'scripts/setup'], stdout=theirs, stderr=theirs,
                                   env=dict(self.environment, STAGES=str(self.folder)))
        os.close(theirs)
        expected = [('lists', rb'reading the lists of packages, \d+ s'), ('fetch', rb'480 MB to fetch: fetched 43 %, \d+ s'),
                    ('unpack', rb'installed 61 % \(cmake\), \d+ s')]
        seen = b''
        try:
            while data := os.read(ours, 4096):
                seen += data
                while expected and re.search(expected[0][1], seen):
                    (self.folder / expected.pop(0)[0]).touch()
        except OSError:  # the other end is closed
            pass
        self.assertEqual((process.wait(timeout=300), expected), (0, []))

    def test_an_apt_that_fails_is_not_covered_up(self):
        done = subprocess.run([ROOT / 'scripts/setup'], capture_output=True, text=True, timeout=300,
                              env=dict(self.environment, STATUS='100'))
        self.assertEqual(done.returncode, 100)
        self.assertNotIn('done in', done.stdout)

    def test_only_what_trains_wants_libtorch(self):
        def listed(*groups):
            done = subprocess.run([ROOT / 'scripts/setup', *groups, '--list'], capture_output=True, text=True, check=True)
            return set(done.stdout.split())

        self.assertLess({'cmake', 'libtorch-dev'}, listed())
        self.assertEqual(listed() - listed('runtime'), {'libtorch-dev', 'libgloo-dev', 'libopenblas0-pthread'})

    def test_nothing_is_said_where_nothing_is_missing(self):
        # libssl-dev is there for two architectures.
        self.tool('dpkg-query', r'''end=; [ "${2%\\n}" = "$2" ] || end='\n'
[ "$3" != libssl-dev ] || printf "installed$end"
printf "installed$end"''')
        done = subprocess.run([ROOT / 'scripts/setup'], capture_output=True, text=True, env=self.environment, timeout=300)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''))


if __name__ == '__main__':
    unittest.main()
