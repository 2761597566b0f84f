#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs command-line tests written as text.

    $ exeunt info no-such-folder        a command, run by sh in a scratch folder that one file's commands share
    < a line of standard input          (as many as needed)
    a line of standard output           exactly, in order; a line "..." stands for any lines
    ! a line of standard error          the same for messages
    ? 4                                 exit status, 0 if left out

In expected lines, «…» stands for anything within the line. $TESTS is the folder tests/fixtures of the repository, $CLI that of the test. Lines of progress,
which come every ten seconds, are left out: whether there are any depends on the machine's speed.
"""
import os, pathlib, re, subprocess, sys, tempfile

PROGRESS = re.compile(r".* \[[\d:]+(<[\d:?]+)?, [\d.]+/s\].*")  # "train  75% 6/8 [00:10<00:03, 0.6/s] loss 2.0834"


class Case:
    def __init__(self, line, command):
        self.line, self.command = line, command
        self.stdin, self.out, self.err, self.status = [], [], [], 0


def read_cases(path):
    cases = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("$ "):
            cases.append(Case(number, line[2:]))
        elif line.startswith("#") or (not line.strip() and not cases):
            continue
        elif not line.strip():
            continue
        elif line.startswith("< "):
            cases[-1].stdin.append(line[2:])
        elif line.startswith("! "):
            cases[-1].err.append(line[2:])
        elif line.startswith("? "):
            cases[-1].status = int(line[2:])
        else:
            cases[-1].out.append(line)
    return cases


def matches(expected, got):
    """Whether the lines `got` fit the pattern lines `expected`."""
    if not expected:
        return not got
    if expected[0] == "...":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    pattern = ".*".join(re.escape(part) for part in expected[0].split("«…»"))
    return bool(got) and re.fullmatch(pattern, got[0]) is not None and matches(expected[1:], got[1:])


def run_file(path, environment):
    failures = 0
    cases = read_cases(path)
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as state:
        for case in cases:
            # Tries are counted for each command anew, and not in the user's folder.
            own = dict(environment, XDG_STATE_HOME=f"{state}/{case.line}")
            text = "".join(line + "\n" for line in case.stdin)
            done = subprocess.run(["sh", "-c", case.command], input=text.encode(), capture_output=True, cwd=scratch,
                                  env=own, timeout=600)
            out = [l.rstrip() for l in done.stdout.decode(errors="replace").splitlines() if l.strip()]
            err = [l.rstrip() for l in done.stderr.decode(errors="replace").splitlines()
                   if l.strip() and not PROGRESS.fullmatch(l)]
            wanted = [l.rstrip() for l in case.out], [l.rstrip() for l in case.err]
            if done.returncode == case.status and matches(wanted[0], out) and matches(wanted[1], err):
                continue
            failures += 1
            print(f"{path}:{case.line}: $ {case.command}\n  status {done.returncode}, want {case.status}")
            for name, got, want in (("stdout", out, wanted[0]), ("stderr", err, wanted[1])):
                if not matches(want, got):
                    print(f"  {name}:", *got, sep="\n    ")
                    print("  wanted:", *want, sep="\n    ")
    return len(cases), failures


def main():
    binary, models, files = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    environment = dict(os.environ, PATH=f"{binary.parent}:{os.environ['PATH']}", TESTS=models, CLI=str(pathlib.Path(__file__).resolve().parent),
                       NO_COLOR="1", LC_ALL="C.UTF-8")
    total = failed = 0
    for name in files:
        count, failures = run_file(pathlib.Path(name), environment)
        total, failed = total + count, failed + failures
    print(f"{total - failed} passed, {failed} failed")
    sys.exit(failed != 0 or total == 0)


if __name__ == "__main__":
    main()
