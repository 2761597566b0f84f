#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ask.py TEXT COMMAND...: starts a server, asks it about a text, prints the answer, and stops it."""
import json, re, subprocess, sys, urllib.request

server = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE, text=True)
try:
    for line in server.stderr:
        found = re.search(r"listening address=(\S+)", line)
        if found:
            break
    else:
        sys.exit("the server did not listen")
    request = urllib.request.Request(f"http://{found[1]}/predict", json.dumps({"inputs": sys.argv[1]}).encode(),
                                     {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(request, timeout=60))
    print(sorted(label["label"] for label in answer))
finally:
    server.terminate()
    server.communicate()
