#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many texts a second the server answers over HTTP in batched requests, at full depth and with a model's policy, in turns.

    serve.py --program build/release/bin/exeunt --model MODEL --texts texts.txt --out RESULT.json [--device cuda]
             [--batch 256] [--clients 8] [--seconds 6] [--rounds 2]

Each client is a process with one connection, which sends its next request when it has the answer to the last; requests are
made before the clock starts. Prints one JSON object per run and writes all of them to RESULT.json: texts a second, the
times of requests (p50, p99), and what the server itself says of tokenization, queue and inference (its /metrics).
"""
import argparse
import http.client
import json
import multiprocessing
import random
import subprocess
import time
from pathlib import Path


def client(port, bodies, seconds, start, results):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    times, failed, at = [], 0, 0
    start.wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        connection.request('POST', '/predict', bodies[at % len(bodies)], {'Content-Type': 'application/json'})
        response = connection.getresponse()
        response.read()
        failed += response.status != 200
        times.append(time.perf_counter() - begun)
        at += 1
    results.put((times, failed))


class Server:
    def __init__(self, flags, policy):
        command = [flags.program, 'serve', flags.model, '--device', flags.device, '--port', str(flags.port), '--no-request-log',
                   '--max-client-batch-size', str(flags.batch), '--queue-size', str(1 << 20), '--json-output']
        if policy:
            command += ['--policy', policy]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.started = {}
        for line in self.process.stderr:
            entry = json.loads(line) if line.startswith('{') else {'message': line.strip()}
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


def measure(flags, bodies, policy):
    server = Server(flags, policy)
    try:
        start, results = multiprocessing.Event(), multiprocessing.Queue()
        clients = [multiprocessing.Process(target=client, args=(flags.port, bodies[i::flags.clients], flags.seconds, start, results))
                   for i in range(flags.clients)]
        for one in clients:
            one.start()
        time.sleep(1)
        start.set()
        begun = time.perf_counter()
        done = [results.get(timeout=flags.seconds + 90) for _ in clients]
        passed = time.perf_counter() - begun
        for one in clients:
            one.join()
        times = [value for part, _ in done for value in part]
        return {'policy': policy or 'the model\'s', 'engine': server.started.get('engine'), 'promise': server.started.get('promise'),
                'batch': flags.batch, 'clients': flags.clients, 'requests': len(times), 'failed': sum(bad for _, bad in done),
                'texts_per_second': len(times) * flags.batch / passed, 'p50_ms': 1e3 * percentile(times, 0.5),
                'p99_ms': 1e3 * percentile(times, 0.99), 'server': server.metrics(flags.port)}
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('--program', '--model', '--texts', '--out'):
        parser.add_argument(name, required=True)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--batch', type=int, default=256)
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--seconds', type=float, default=6)
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--port', type=int, default=39417)
    flags = parser.parse_args()
    texts = [line for line in Path(flags.texts).read_text(encoding='utf-8').split('\n') if line.strip()]
    draw = random.Random(1)
    bodies = [json.dumps({'inputs': [[draw.choice(texts)] for _ in range(flags.batch)]}) for _ in range(8 * flags.clients)]
    runs = []
    for _ in range(flags.rounds):
        for policy in ('', 'full'):
            run = measure(flags, bodies, policy)
            runs.append(run)
            print(json.dumps(run), flush=True)
            Path(flags.out).write_text(json.dumps({'format': 'exeunt.cuda_serve/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()),
                                                   'runs': runs}, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
