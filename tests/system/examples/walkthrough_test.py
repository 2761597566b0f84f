#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs docs/your-data.md as a reader would: every line "$ command", in order, in an empty folder with a my.csv.

    walkthrough_test.py EXEUNT PAGE

Each command must succeed, and each line that the page shows under it must occur in what it printed, in that order;
"…" stands for anything within a line, or for lines.
"""
import csv
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def commands_of(page):
    """(command, lines shown under it) of all fenced blocks."""
    found, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside and line.startswith("$ "):
            found.append((line[2:], []))
        elif inside and found:
            found[-1][1].append(line)
    return found


def missing_line(shown, printed):
    """The first of the shown lines that does not occur, in order; None if all do."""
    lines = iter(re.sub(r"\s+", " ", line).strip() for line in printed.splitlines())
    for line in shown:
        if line.strip() in ("", "…"):
            continue
        parts = re.sub(r"\s+", " ", line).strip().split("…")
        pattern = ".*".join(re.escape(part) for part in parts)
        if not any(re.fullmatch(pattern, got) for got in lines):
            return line
    return None


def write_table(path):
    with open(ROOT / "examples/feedback/train.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[:600]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "body", "topic"])
        writer.writerows((number, row["text"], row["label"]) for number, row in enumerate(rows, 1))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port, server):
    for _ in range(6000):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.05)
    sys.exit("the server did not start")


def run_all(page, folder, environment):
    servers, port = [], free_port()
    try:
        for command, shown in commands_of(page):
            command = command.replace("3000", str(port))
            begun = time.monotonic()
            if command.endswith("&"):
                servers.append(subprocess.Popen(["sh", "-c", "exec " + command[:-1]], cwd=folder, env=environment,
                                                stderr=subprocess.DEVNULL))
                wait_for(port, servers[-1])
                continue
            done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            print(f"$ {command}   [{time.monotonic() - begun:.1f} s]\n{done.stdout}", flush=True)
            lost = missing_line(shown, done.stdout)
            if done.returncode != 0 or lost is not None:
                sys.exit(f"status {done.returncode}" if done.returncode else f"{page}: this was not printed: {lost}")
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=300)
    return [server.returncode for server in servers]


def main():
    program, page = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    if not commands_of(page):
        sys.exit(f"{page} has no commands")
    folder = tempfile.mkdtemp()
    try:
        write_table(pathlib.Path(folder) / "my.csv")
        environment = dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}", NO_COLOR="1", LC_ALL="C.UTF-8",
                           HOME=folder, OMP_NUM_THREADS="1",
                           EXEUNT_MODEL=str(ROOT / "examples/tiny-en"))
        if any(status != 0 for status in run_all(page, folder, environment)):
            sys.exit("a server ended badly")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
