#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the hardening flags cost: builds of the command, measured in turns.

    hardening.py --load build/bench/bin/exeunt-load [--rounds 9] --out FILE.json NAME=PROGRAM NAME=PROGRAM…

The first is what the others are compared with. `render.py --add hardening FILE.json` takes the record in. Builds:

    cmake --preset runtime -B build/plain -DCMAKE_BUILD_TYPE=Plain -DCMAKE_CXX_FLAGS_PLAIN='-O3 -DNDEBUG'     without the flags
    cmake --preset runtime                                                                                    what is shipped
    cmake --preset runtime -B build/asserted -DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS                          with assertions, too
"""
import argparse
import http.client
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

MODEL = 'tests/fixtures/checkpoints/bert-deebert'
OBJECTS = 260_000


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*command, check=True, **more):
    """Output, and processor seconds."""
    before = child_seconds()
    out = subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more).stdout
    return out, child_seconds() - before


def encoder(program):
    command = [program, 'bench', 'bert-base', '--json', '-q', '--seconds', '0.5', '--precision', 'fp32,bf16,int8', '--lengths', '32,128']
    for row in json.loads(run(*command)[0])['rows']:
        yield f"BERT-base, {row['precision']}, {row['length']} tokens, one thread", 'ms', row['cpu_ms']


def texts(program, lines):
    with open(lines, encoding='utf-8') as given:
        yield 'tokenizing 20,000 texts', 'ms', 1000 * run(program, 'tokenize', MODEL, '--json', stdin=given)[1]
    with open(lines, encoding='utf-8') as given:
        yield 'predicting 20,000 texts with a tiny model', 'ms', 1000 * run(program, 'predict', MODEL, '--json', stdin=given)[1]


def start(program):
    yield 'start of the command (--version)', 'ms', 1000 * statistics.median(run(program, '--version')[1] for _ in range(20))


def requests(program, flags):
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, 'record.json')
        # Its status tells whether the promise of this trial was kept, which is not what is asked here.
        run(flags.load, 'overhead', '--seconds', '3', '--out', str(record), '--', *serving(program), '--threads', '1', check=False)
        found = json.loads(record.read_text())
        flags.commit = found['commit']
        yield 'a request to the server of a tiny model', 'µs', found['figures']['cpu_us']


def serving(program):
    return program, 'serve', MODEL, '--port', '0', '--json-output', '--no-request-log'


def thread_seconds(process):
    """Of all its threads: nanoseconds they ran, the first number of schedstat."""
    return sum(int((task / 'schedstat').read_text().split()[0]) for task in Path(f'/proc/{process}/task').iterdir()) / 1e9


def bodies(program):
    """A JSON body that is parsed in full and refused."""
    body = '{"inputs":"a","z":[' + ','.join(['{}'] * OBJECTS) + ']}'
    server = subprocess.Popen(serving(program), stderr=subprocess.PIPE, text=True)
    try:
        port = next(int(found[1]) for found in (re.search(r'"address":"[^"]*:(\d+)"', line) for line in server.stderr) if found)
        count, before = 40, 0.0
        for i in range(count + 5):
            if i == 5:
                before = thread_seconds(server.pid)
            connection = http.client.HTTPConnection('localhost', port)
            connection.request('POST', '/predict', body, {'Content-Type': 'application/json'})
            if not 400 <= connection.getresponse().status < 500:
                raise SystemExit(f'{program}: a body of {OBJECTS} objects is not refused')
            connection.close()
        yield 'a JSON body of 260,000 objects, parsed and refused', 'ms', 1000 * (thread_seconds(server.pid) - before) / count
    finally:
        server.terminate()
        server.wait()


def measured(program, flags, lines):
    yield from encoder(program)
    yield from texts(program, lines)
    yield from requests(program, flags)
    yield from bodies(program)
    yield from start(program)


def busy_seconds():
    ticks = [int(tick) for tick in Path('/proc/stat').read_text().split('\n', 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf('SC_CLK_TCK')


def processor():
    found = re.search(r'^model name\s*: (.*)', Path('/proc/cpuinfo').read_text(), re.M)
    return found[1] if found else 'unknown'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--load', required=True)
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--out', required=True)
    parser.add_argument('builds', nargs='+')
    flags = parser.parse_args()
    builds = dict(build.split('=', 1) for build in flags.builds)
    os.chdir(Path(__file__).resolve().parents[2])
    began, busy = time.time(), busy_seconds()
    rows = {}
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as lines:
        lines.writelines(f'a film of {i} long scenes, and none of them dull or pointless\n' for i in range(20_000))
        lines.flush()
        for turn in range(flags.rounds):
            names = list(builds)
            for name in names[turn % len(names):] + names[:turn % len(names)]:  # each is first as often as the others
                for what, unit, value in measured(builds[name], flags, lines.name):
                    rows.setdefault(what, {'figure': what, 'unit': unit, 'times': {n: [] for n in builds}})['times'][name].append(round(value, 4))
                print(f'round {turn + 1}: {name}', flush=True)
    used = resource.getrusage(resource.RUSAGE_SELF)
    ours = child_seconds() + used.ru_utime + used.ru_stime
    cores = os.cpu_count()
    others = max(0, busy_seconds() - busy - ours) / max(1e-9, cores * (time.time() - began))
    record = {'trial': 'hardening', 'date': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(began)),
              'commit': flags.commit,
              'command': f'benchmarks/load/hardening.py --rounds {flags.rounds} ' + ' '.join(builds),
              'machine': {'cpu': processor(), 'cores': cores, 'share_of_others': round(others, 3)},
              'figures': {'rounds': flags.rounds, 'rows': list(rows.values())}}
    Path(flags.out).write_text(json.dumps(record, ensure_ascii=False) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
