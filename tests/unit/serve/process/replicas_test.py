#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three replicas behind nginx, as deploy/nginx.conf has them; one is killed under load, and started again.

    replicas_test.py EXEUNT REPOSITORY

Each request carries an id that must come back once, with a 200. Only those that the killed replica was answering may get a
502, at most one of each client; their clients send them again.
"""
import collections
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

REQUESTS, CLIENTS = 300, 4
LIMIT_S = 120  # for whatever does not end by itself: far more than a busy machine needs


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(('127.0.0.1', 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(port, path='/ready'):
    limit = time.time() + LIMIT_S
    while time.time() < limit:
        try:
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=LIMIT_S)
            connection.request('GET', path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f'nobody answers on port {port}')


def start_replica(program, model, port):
    return subprocess.Popen([program, 'serve', model, '--port', str(port), '--no-request-log', '--threads', '1'],
                            stderr=subprocess.DEVNULL)


def start_nginx(root, folder, front, ports):
    text = open(os.path.join(root, 'deploy/nginx.conf'), encoding='utf-8').read()
    text = text.replace('127.0.0.1:3000', f'127.0.0.1:{front}')
    for i, port in enumerate(ports):
        text = text.replace(f'127.0.0.1:{3001 + i}', f'127.0.0.1:{port}')
    paths = ' '.join(f'{kind}_temp_path {folder}/{kind};' for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
    text = text.replace('http {', 'http {\n  access_log off; ' + paths)
    conf = os.path.join(folder, 'nginx.conf')
    with open(conf, 'w', encoding='utf-8') as file:
        file.write(f'daemon off; pid {folder}/pid; error_log {folder}/error.log;\n' + text)
    return subprocess.Popen([shutil.which('nginx') or '/usr/sbin/nginx', '-c', conf, '-p', folder, '-e', folder + '/error.log'])


def main():
    program, root = sys.argv[1:3]
    if not (shutil.which('nginx') or os.path.exists('/usr/sbin/nginx')):
        print('nginx is not installed: nothing was tested')
        return 77
    model = os.path.join(root, 'tests/fixtures/checkpoints/bert-deebert')
    front, *ports = free_ports(4)
    problems, answers, lost = [], collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        replicas = [start_replica(program, model, port) for port in ports]
        nginx = start_nginx(root, folder, front, ports)
        try:
            for port in [*ports, front]:
                wait_for(port)

            def client(number):
                connection = http.client.HTTPConnection('127.0.0.1', front, timeout=LIMIT_S)
                for i in range(REQUESTS):
                    name = f'c{number}-{i}'
                    body = {'id': name, 'inputs': [{'name': 'text', 'shape': [1], 'datatype': 'BYTES', 'data': ['a film']}]}
                    for _ in range(2):
                        connection.request('POST', '/v2/models/bert-deebert/infer', body=json.dumps(body),
                                           headers={'Content-Type': 'application/json'})
                        response = connection.getresponse()
                        content = response.read().decode()
                        if response.status != 502:
                            break
                        lost.append(name)
                    if response.status != 200:
                        problems.append(f'{name}: status {response.status}')
                    else:
                        answers[json.loads(content)['id']] += 1
                    time.sleep(0.002)
                connection.close()

            def wait_for_answers(count):
                while len(answers) < count and any(thread.is_alive() for thread in threads):
                    time.sleep(0.005)

            threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
            for thread in threads:
                thread.start()
            wait_for_answers(200)
            replicas[0].send_signal(signal.SIGKILL)
            replicas[0].wait()
            wait_for_answers(400)
            replicas[0] = start_replica(program, model, ports[0])
            wait_for(ports[0])
            replicas[1].send_signal(signal.SIGTERM)  # and one goes in good order
            if replicas[1].wait(LIMIT_S) != 0:
                problems.append('a replica did not end in good order')
            for thread in threads:
                thread.join()
        finally:
            for process in [*replicas, nginx]:
                if process.poll() is None:
                    process.terminate()
                process.wait(LIMIT_S)
    if len(answers) != REQUESTS * CLIENTS or any(count != 1 for count in answers.values()):
        problems.append(f'{len(answers)} of {REQUESTS * CLIENTS} requests answered, '
                        f'{sum(count > 1 for count in answers.values())} more than once')
    if len(lost) > CLIENTS:
        problems.append(f'{len(lost)} requests were lost with the killed replica: {lost[:8]}')
    for problem in problems[:20]:
        print(problem)
    if not problems:
        print(f'{REQUESTS * CLIENTS} requests, one replica killed, one drained: each answered once')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
