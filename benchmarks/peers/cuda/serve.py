#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many texts a second the server answers over HTTP in batched requests, at full depth and with a model's policy, in turns.

    serve.py --program build/release/bin/exeunt --model MODEL --texts texts.txt --out RESULT.json [--device cuda]
             [--precision bf16] [--loads 256x8,128x12] [--seconds 6] [--rounds 2]

A load is texts in a request x clients. Each client is a process with one connection, which sends its next request when it has
the answer to the last; requests are made before the clock starts. Prints one JSON object per run and writes all of them to
RESULT.json: texts a second, the times of requests (p50, p99), what the server itself says of tokenization, queue and
inference (its /metrics), and what share of a processor its busiest threads used, the network thread among them.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import subprocess
import time
from pathlib import Path


def client(port, bodies, seconds, start, results):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)

    def ask(body):
        connection.request('POST', '/predict', body, {'Content-Type': 'application/json'})
        response = connection.getresponse()
        response.read()
        return response.status == 200

    for body in bodies[:4]:  # warms up: the engine records its batches' graphs
        ask(body)
    times, failed, at = [], 0, 0
    start.wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        failed += not ask(bodies[at % len(bodies)])
        times.append(time.perf_counter() - begun)
        at += 1
    results.put((times, failed))


class Server:
    def __init__(self, flags, policy):
        command = [flags.program, 'serve', flags.model, '--device', flags.device, '--port', str(flags.port), '--no-request-log',
                   '--max-client-batch-size', str(max(batch for batch, _ in flags.loads)), '--queue-size', str(1 << 20),
                   '--json-output']
        if policy:
            command += ['--policy', policy]
        if flags.precision:
            command += ['--precision', flags.precision]
        self.front = None
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.started = {}
        for line in self.process.stderr:
            entry = json.loads(line) if line.startswith('{') else {'message': line.strip()}
            if entry.get('message') == 'tokenization in front of the GPU':
                self.front = {name: float(entry[name]) for name in ('threads', 'texts_per_second')}
            if entry.get('message') == 'listening':
                self.started = entry
                break
            print(line.rstrip(), flush=True)
        if not self.started:
            raise RuntimeError('the server did not start')

    def metrics(self, port):
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
        connection.request('GET', '/metrics')
        lines = connection.getresponse().read().decode().split('\n')
        wanted = ('tokenization', 'queue', 'inference')
        return {line.split(' ')[0]: float(line.split(' ')[1]) for line in lines
                if any(name in line for name in wanted) and ('_sum' in line or '_count' in line) and not line.startswith('#')}

    def thread_seconds(self):
        """Of the processor, by thread; the network thread is the process's first."""
        ticks = os.sysconf('SC_CLK_TCK')
        seconds = {}
        for task in Path(f'/proc/{self.process.pid}/task').iterdir():
            name, fields = (task / 'stat').read_text().rsplit(')', 1)
            name = 'network' if int(task.name) == self.process.pid else name.split('(', 1)[1]
            seconds[int(task.name), name] = sum(int(field) for field in fields.split()[11:13]) / ticks
        return seconds

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def measure(flags, server, policy, batch, count, texts):
    draw = random.Random(1)
    bodies = [json.dumps({'inputs': [[draw.choice(texts)] for _ in range(batch)]}) for _ in range(8 * count)]
    start, results = multiprocessing.Event(), multiprocessing.Queue()
    clients = [multiprocessing.Process(target=client, args=(flags.port, bodies[i::count], flags.seconds, start, results))
               for i in range(count)]
    for one in clients:
        one.start()
    time.sleep(1.5)
    before, used = server.metrics(flags.port), server.thread_seconds()
    start.set()
    begun = time.perf_counter()
    done = [results.get(timeout=flags.seconds + 90) for _ in clients]
    passed = time.perf_counter() - begun
    after = server.metrics(flags.port)
    shares = [(name, (seconds - used.get((task, name), 0)) / passed) for (task, name), seconds in server.thread_seconds().items()]
    for one in clients:
        one.join()
    times = [value for part, _ in done for value in part]
    return {'policy': policy or 'the model\'s', 'engine': server.started.get('engine'), 'precision': server.started.get('precision'),
            'promise': server.started.get('promise'), 'batch': batch, 'clients': count, 'requests': len(times),
            'failed': sum(bad for _, bad in done), 'texts_per_second': len(times) * batch / passed,
            'p50_ms': 1e3 * percentile(times, 0.5), 'p99_ms': 1e3 * percentile(times, 0.99), 'front': server.front,
            'network_thread': max(share for name, share in shares if name == 'network'),
            'busiest_threads': sorted((round(share, 2) for _, share in shares), reverse=True)[:8],
            'all_threads': sum(share for _, share in shares),
            'server': {name: value - before.get(name, 0) for name, value in after.items()}}


def load_of(word):
    batch, clients = word.split('x')
    return int(batch), int(clients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('--program', '--model', '--texts', '--out'):
        parser.add_argument(name, required=True)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--precision', default='')
    parser.add_argument('--loads', type=lambda words: [load_of(word) for word in words.split(',')], default=[(256, 8), (128, 12)])
    parser.add_argument('--seconds', type=float, default=6)
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--port', type=int, default=39417)
    flags = parser.parse_args()
    texts = [line for line in Path(flags.texts).read_text(encoding='utf-8').split('\n') if line.strip()]
    runs = []
    for _ in range(flags.rounds):
        for policy in ('', 'full'):
            server = Server(flags, policy)
            try:
                for batch, clients in flags.loads:
                    run = measure(flags, server, policy, batch, clients, texts)
                    runs.append(run)
                    print(json.dumps(run), flush=True)
                    Path(flags.out).write_text(json.dumps({'format': 'exeunt.cuda_serve/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()),
                                                           'runs': runs}, indent=1) + '\n', encoding='utf-8')
            finally:
                server.stop()


if __name__ == '__main__':
    main()
