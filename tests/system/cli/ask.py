#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a server, asks it about a text, prints the answer, and stops it.

    ask.py TEXT COMMAND...              the labels of the answer
    ask.py --tokens TEXT COMMAND...     how many tokens of the text were read
    ask.py --status JSON COMMAND...     the status, error and hint of a request with these inputs
    ask.py --info FIELD COMMAND...      a field of /info
"""
import json, re, subprocess, sys, urllib.error, urllib.request

mode = sys.argv.pop(1) if sys.argv[1].startswith("--") else ""
server = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE, text=True)
try:
    for line in server.stderr:
        found = re.search(r"listening address=(\S+)", line)
        if found:
            break
    else:
        sys.exit("the server did not listen")
    if mode == "--info":
        print(json.load(urllib.request.urlopen(f"http://{found[1]}/info", timeout=60))[sys.argv[1]])
        sys.exit()
    inputs = json.loads(sys.argv[1]) if mode == "--status" else sys.argv[1]
    body = {"inputs": inputs, **({"exit": {"details": True}} if mode == "--tokens" else {})}
    request = urllib.request.Request(f"http://{found[1]}/predict", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=60))
        print(answer[0]["exit"]["tokens"] if mode == "--tokens" else sorted(label["label"] for label in answer))
    except urllib.error.HTTPError as error:
        said = json.load(error)
        print(error.code, said["error"], "hint:", said["hint"])
finally:
    server.terminate()
    server.communicate()
