#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a server, asks it about a text, prints the answer, and stops it.

    ask.py TEXT COMMAND...              the labels of the answer
    ask.py --tokens TEXT COMMAND...     how many tokens of the text were read
    ask.py --first TEXT COMMAND...      where it leaves that may run no layer: header, details, metric
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
    wanted = {"--tokens": {"details": True}, "--first": {"details": True, "max_layers": 0}}.get(mode)
    body = {"inputs": inputs, **({"exit": wanted} if wanted else {})}
    request = urllib.request.Request(f"http://{found[1]}/predict", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        response = urllib.request.urlopen(request, timeout=60)
        answer = json.load(response)
        if mode == "--first":
            details, metrics = answer[0]["exit"], urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=60).read().decode()
            print(response.headers["x-exit-layer"], details["layer"], details["layers_run"], [one["layer"] for one in details["exits"]])
            print(*re.findall(r'exeunt_exits_total\{.*layer="0".*', metrics))
            sys.exit()
        print(answer[0]["exit"]["tokens"] if mode == "--tokens" else sorted(label["label"] for label in answer))
    except urllib.error.HTTPError as error:
        said = json.load(error)
        print(error.code, said["error"], "hint:", said["hint"])
finally:
    server.terminate()
    server.communicate()
