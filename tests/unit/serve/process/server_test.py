#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command as a server and holds it to what docs/server.md says of signals, keys, TLS and load.

    server_test.py EXEUNT TESTS_FOLDER [--drain-trials N] [--slow-sockets N] [--sanitized]

Exit status 1 with one line per failed check.
"""
import argparse
import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

TEXTS = ['A great film', 'a dull plot', 'so so', 'great', 'The end of the film is the best part of it', 'plot film plot']
LIMIT_S = 120  # for whatever does not end by itself: far more than a busy machine needs
problems = []


def expect(condition, what):
    if not condition:
        problems.append(what)


def wait_until(condition):
    limit = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.005)
    return True


class Server:
    """`exeunt serve` on a free port; its log is kept."""

    def __init__(self, program, *flags, **options):
        self.process = subprocess.Popen([program, 'serve', *flags, '--port', '0', '--json-output'],
                                        stderr=subprocess.PIPE, text=True, **options)
        self.log = []
        self.listening = threading.Event()
        self.port = None
        threading.Thread(target=self._read, daemon=True).start()
        if not self.listening.wait(LIMIT_S) or self.port is None:
            raise SystemExit('the server did not start: ' + ''.join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r'"message":"listening","address":"[^"]*:(\d+)"', line)
            if found:
                self.port = int(found.group(1))
                self.listening.set()
        self.listening.set()

    def connection(self, timeout=LIMIT_S):
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        connection = self.connection()
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body),
                               headers={'Content-Type': 'application/json', **(headers or {})})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode()
        finally:
            connection.close()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)

    def has_logged(self, text, count=1):
        return wait_until(lambda: sum(text in line for line in list(self.log)) >= count)


def predict(server, text, connection=None):
    body = json.dumps({'inputs': text, 'exit': {'details': True}})
    own = connection or server.connection()
    own.request('POST', '/predict', body=body, headers={'Content-Type': 'application/json'})
    response = own.getresponse()
    content = response.read()
    closing = (response.getheader('connection') or '').lower() == 'close'
    if connection is None:
        own.close()
    return response.status, content, closing


def check_answers(program, model):
    """Same label, exit and scores for each text alone and under concurrent load; metrics add up."""
    server = Server(program, model, '--policy', 'entropy:0.6', '--allow-policies', 'full,entropy:0..0.7')
    alone = {text: predict(server, text) for text in TEXTS}
    expect(all(status == 200 for status, _, _ in alone.values()), f'predict: {alone}')
    differing = []

    def client(seed):
        connection = server.connection()
        for i in range(60):
            text = TEXTS[(seed + i) % len(TEXTS)]
            if predict(server, text, connection)[:2] != alone[text][:2]:
                differing.append(text)
        connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not differing, f'answers differ in company: {differing[:3]}')
    status, headers, body = server.ask('POST', '/predict', {'inputs': TEXTS[0], 'exit': {'policy': 'full'}})
    expect(status == 200 and headers.get('x-exit-layer') == '3', f'full depth: {status} {headers}')
    status, _, body = server.ask('POST', '/predict', {'inputs': TEXTS[0], 'exit': {'policy': 'entropy:0.71'}})
    expect(status == 422 and json.loads(body)['error_type'] == 'Validation', f'a policy beyond the range: {status} {body}')
    _, _, metrics = server.ask('GET', '/metrics')
    answered = sum(int(n) for n in re.findall(r'^exeunt_exits_total\{[^}]*\} (\d+)', metrics, re.M))
    expect(answered == len(TEXTS) + 6 * 60 + 1, f'exits_total adds up to {answered}')
    _, _, info = server.ask('GET', '/info')
    expect(json.loads(info)['exits'] == [1, 2, 3], f'/info: {info}')
    expect(server.end() == 0, 'SIGTERM with nothing to do must end with 0')


def check_keys_and_reload(program, model, folder):
    keys = os.path.join(folder, 'keys')
    with open(keys, 'w', encoding='utf-8') as file:
        file.write('first-secret\n')
    server = Server(program, model, '--api-key-file', keys)
    with_key = lambda key: server.ask('GET', '/info', headers={'Authorization': 'Bearer ' + key})[0]
    expect(with_key('first-secret') == 200 and with_key('second-secret') == 401, 'keys before the reload')
    with open(keys, 'w', encoding='utf-8') as file:
        file.write('second-secret\n')
    server.process.send_signal(signal.SIGHUP)
    expect(server.has_logged('reloaded'), 'SIGHUP is not answered')
    expect(with_key('first-secret') == 401 and with_key('second-secret') == 200, 'keys after the reload')
    with open(keys, 'w', encoding='utf-8') as file:
        file.write('bad\n')
    server.process.send_signal(signal.SIGHUP)
    expect(server.has_logged('reload failed'), 'a bad key file is not told')
    expect(with_key('second-secret') == 200, 'a bad key file must change nothing')
    expect(server.ask('GET', '/health')[0] == 200, 'health needs no key')
    for page in ('/info', '/metrics', '/openapi.json', '/'):
        _, _, body = server.ask('GET', page, headers={'Authorization': 'Bearer second-secret', 'Accept': 'text/html'})
        expect('secret' not in body, f'a key is shown in {page}')
    expect(server.end(signal.SIGINT) == 0, 'SIGINT drains too')
    expect(not any('secret' in line for line in server.log), 'a key is in the log')


def make_certificate(folder, name):
    os.makedirs(folder, exist_ok=True)
    cert, key = os.path.join(folder, 'cert.pem'), os.path.join(folder, 'key.pem')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
                    '-keyout', key, '-out', cert, '-days', '2', '-subj', f'/CN={name}'], check=True, capture_output=True)
    return cert, key


def check_tls(program, model, folder):
    cert, key = make_certificate(folder, 'one')
    server = Server(program, model, '--tls-cert', cert, '--tls-key', key)

    def subject_of(minimum=ssl.TLSVersion.TLSv1_2, maximum=ssl.TLSVersion.MAXIMUM_SUPPORTED):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version, context.maximum_version = minimum, maximum
        context.set_ciphers('ALL:@SECLEVEL=0')
        with socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S) as raw:
            with context.wrap_socket(raw) as tls:
                tls.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                answer = b''
                while b'"status":"ok"' not in answer:
                    more = tls.recv(4096)
                    if not more:
                        break
                    answer += more
                expect(answer.startswith(b'HTTP/1.1 200'), f'TLS answer: {answer[:60]}')
                return tls.getpeercert(binary_form=True), tls.version()

    first, version = subject_of()
    expect(version in ('TLSv1.2', 'TLSv1.3'), f'TLS version {version}')
    try:
        subject_of(ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
        problems.append('TLS 1.1 was accepted')
    except (ssl.SSLError, OSError, ValueError):
        pass
    failures, answers, done = [], [0], threading.Event()

    def client():
        while not done.is_set():
            try:
                subject_of()
                answers[0] += 1
            except OSError as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    for round_ in range(10):
        cert_two, key_two = make_certificate(os.path.join(folder, 'next'), f'two-{round_}')
        os.replace(cert_two, cert)
        os.replace(key_two, key)
        server.process.send_signal(signal.SIGHUP)
        expect(server.has_logged('reloaded', count=round_ + 1), 'SIGHUP is not answered under TLS')
        before = answers[0]
        expect(wait_until(lambda: failures or answers[0] > before), 'no answer after a reload')
    done.set()
    for thread in threads:
        thread.join()
    expect(not failures, f'reloads under load: {len(failures)} of {answers[0]} failed: {failures[:3]}')
    expect(subject_of()[0] != first, 'the new certificate is not used')
    expect(server.end() == 0, 'SIGTERM under TLS')


def check_keyless_memory(program, model, folder):
    """What connections without a key make the server hold: at most 16 KiB each, with TLS 64."""
    count, key_flag = 200, ('--api-key', 'a-key-of-the-test')
    cert, key = make_certificate(folder, 'memory')
    head = b'POST /predict HTTP/1.1\r\nHost: localhost\r\n'
    body = head + b'Content-Length: 2000000\r\n\r\n' + b' ' * 30_000
    hello = bytes.fromhex('16030140000100') + b'\0' * 2000  # a handshake whose first record never ends
    for name, flags, most, tls, sent in (('a header', (), 16, False, head), ('a body', (), 16, False, body),
                                         ('TLS', ('--tls-cert', cert, '--tls-key', key), 64, True, head),
                                         ('a body in TLS', ('--tls-cert', cert, '--tls-key', key), 64, True, body),
                                         ('half a handshake', ('--tls-cert', cert, '--tls-key', key), 64, False, hello)):
        # The first clients wait while the last ones come, however long a busy machine takes for their handshakes.
        server = Server(program, model, '--no-request-log', '--header-timeout', str(1000 * LIMIT_S), *key_flag, *flags)
        resident = lambda: int(open(f'/proc/{server.process.pid}/statm', encoding='ascii').read().split()[1]) * os.sysconf('SC_PAGESIZE')
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE

        def connect(number):
            # All send when all are there: a client that is refused is not held for long.
            raw = [socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S) for _ in range(number)]
            clients = [context.wrap_socket(each) for each in raw] if tls else raw
            expect(wait_until(lambda: all_accepted(server.process.pid, number)), f'{name}: not all were accepted')
            for each in clients:
                each.sendall(sent)
            for each in clients if sent is body else ():
                expect(each.recv(12) == b'HTTP/1.1 401', f'{name}: a client without a key is not refused')
            return clients

        first = connect(10)  # what the libraries keep for all of them
        before = resident()
        clients = connect(count)
        kib = (resident() - before) / 1024 / count
        expect(kib <= most, f'{name}: {kib:.1f} KiB for each of {count} connections without a key, want at most {most}')
        for each in first + clients:
            each.close()
        expect(server.end() == 0, f'SIGTERM after {name}')


def check_few_descriptors(program, model):
    """Where few files may be open, idle clients give way, and the log says that fewer are held than was asked for."""
    server = Server(program, model, '--no-request-log', preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)))
    expect(server.has_logged('fewer connections than --max-connections'), 'a limit of 128 open files is not mentioned')
    idle = [socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S) for _ in range(200)]
    expect(server.ask('GET', '/health')[0] == 200, 'no health beside 200 idle clients with 128 open files')
    expect(predict(server, 'A great film')[0] == 200, 'no answer beside 200 idle clients with 128 open files')
    for each in idle:
        each.close()
    expect(server.end() == 0, 'SIGTERM after few descriptors')


def check_no_descriptors(program, model):
    """Where the process around the server has taken the last descriptor, idle clients give way, too."""
    server = Server(program, model, '--no-request-log')
    most = max(int(number) for number in os.listdir(f'/proc/{server.process.pid}/fd')) + 1 + 8
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (most, most))
    idle = [socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S) for _ in range(40)]
    expect(server.ask('GET', '/health')[0] == 200, 'no health beside 40 idle clients and without a free descriptor')
    expect(predict(server, 'A great film')[0] == 200, 'no answer beside 40 idle clients and without a free descriptor')
    expect(len(os.listdir(f'/proc/{server.process.pid}/fd')) <= most, 'the limit of open files was not in force')
    for each in idle:
        each.close()
    expect(server.end() == 0, 'SIGTERM without a free descriptor')


def all_accepted(process, count):
    return len(os.listdir(f'/proc/{process}/fd')) >= count


def check_tls_bodies(program, model, folder):
    """Bodies of many records, and several requests in one record."""
    cert, key = make_certificate(folder, 'bodies')
    server = Server(program, model, '--tls-cert', cert, '--tls-key', key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    large = json.dumps({'inputs': 'a film', 'x': 'x' * 1_900_000}).encode()
    health = b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
    page = b'GET /playground.js HTTP/1.1\r\nHost: localhost\r\n\r\n'
    with context.wrap_socket(socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S)) as tls:
        tls.sendall(b'POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: '
                    + str(len(large)).encode() + b'\r\n\r\n' + large)
        tls.sendall(health * 20 + page * 20 + health.replace(b'\r\n\r\n', b'\r\nConnection: close\r\n\r\n'))
        answer = b''
        while more := tls.recv(65536):
            answer += more
        expect(answer.count(b'HTTP/1.1 200 OK') == 42, f'TLS: {answer.count(b"HTTP/1.1 200 OK")} of 42 answers')
        expect(answer.endswith(b'}'), 'TLS: the last answer was cut')
    for _ in range(50):  # clients that disconnect before their responses: writing to them raises no SIGPIPE
        with context.wrap_socket(socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S)) as tls:
            tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            tls.sendall(page * 50)
    expect(server.end() == 0, 'SIGTERM after bodies in TLS')


def check_drain(program, model, trials):
    """SIGTERM under load: what was accepted is answered, /ready fails at once, the status is 0."""
    for trial in range(trials):
        server = Server(program, model, '--no-request-log')
        lost, answered, ended = [], [0], threading.Event()

        def client():
            while not ended.is_set():
                connection = server.connection()
                try:
                    connection.connect()
                except OSError:
                    return  # refused: the listening socket is closed
                try:
                    while not ended.is_set():
                        if select.select([connection.sock], [], [], 0)[0]:
                            break  # closed while nothing was asked: what comes now would not be taken
                        status, _, closing = predict(server, 'A great film', connection)
                        answered[0] += 1
                        if status != 200:
                            lost.append(status)
                        if closing:
                            break
                except (OSError, http.client.HTTPException) as error:
                    lost.append(repr(error))
                    return
                finally:
                    connection.close()

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: lost or answered[0] > 5 * trial)
        status = server.end()
        ended.set()
        for thread in threads:
            thread.join()
        expect(status == 0, f'drain {trial}: status {status}')
        expect(not lost, f'drain {trial}: lost {lost} of {answered[0]}')


def check_readiness(program, model):
    """/ready fails at once after SIGTERM; until the delay is over, requests are still answered."""
    server = Server(program, model, '--drain-delay', '3600')
    expect(server.ask('GET', '/ready')[0] == 200, 'ready before SIGTERM')
    server.process.send_signal(signal.SIGTERM)
    expect(wait_until(lambda: server.ask('GET', '/ready')[0] == 503), '/ready does not fail after SIGTERM')
    _, headers, _ = server.ask('GET', '/ready')
    expect(headers.get('connection') == 'close' and headers.get('retry-after') == '1', f'while draining: {headers}')
    expect(predict(server, 'A great film')[0] == 200, 'while draining, what comes is answered')
    expect(server.end() == 0, 'a second SIGTERM ends the drain, with 0 where nothing is left')


def check_unread_log(program, model):
    """Nobody reads the log any more: the server answers all the same."""
    reader, writer = os.pipe()
    process = subprocess.Popen([program, 'serve', model, '--port', '0', '--json-output'], stderr=writer)
    os.close(writer)
    log = b''
    while b'"listening"' not in log:
        log += os.read(reader, 4096)
    port = int(re.search(rb'"address":"[^"]*:(\d+)"', log).group(1))
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=LIMIT_S)
    for i in range(600):  # far more lines than a pipe holds
        connection.request('GET', '/health')
        if connection.getresponse().read() == b'':
            problems.append(f'no answer {i} while nobody reads the log')
            break
    process.send_signal(signal.SIGTERM)
    expect(process.wait(LIMIT_S) == 0, 'SIGTERM while nobody reads the log')
    os.close(reader)


def check_limits(program, model):
    """Bodies at the edge of the limit, and a million chunks of one byte: documented answers, and little memory."""
    server = Server(program, model, '--no-request-log')
    text = lambda size: json.dumps({'inputs': 'a film', 'x': ''}).replace('""', '"' + 'x' * (size - 29) + '"').encode()
    expect(len(text(1000)) == 1000, f'the body has {len(text(1000))} bytes')
    for size, want in ((1_999_999, 200), (2_000_000, 200), (2_000_001, 413)):
        connection = server.connection()
        connection.request('POST', '/predict', body=text(size), headers={'Content-Type': 'application/json'})
        expect(connection.getresponse().status == want, f'a body of {size} bytes is not answered with {want}')
        connection.close()
    resident = lambda: int(open(f'/proc/{server.process.pid}/statm', encoding='ascii').read().split()[1]) * os.sysconf('SC_PAGESIZE')
    before = resident()
    with socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S) as raw:
        raw.sendall(b'POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n')
        try:
            for _ in range(1000):
                raw.sendall(b'1\r\n{\r\n' * 1000)
        except OSError:
            pass  # cut off, as it should be
        try:
            answer = raw.recv(4096)
        except OSError:
            answer = b''
    expect(not answer or answer.startswith(b'HTTP/1.1 400'), f'a million chunks: {answer[:40]}')
    expect(resident() - before <= 4 << 20, f'a million chunks took {(resident() - before) / 2**20:.1f} MiB')
    expect(predict(server, 'A great film')[0] == 200, 'after a million chunks')
    expect(server.end() == 0, 'SIGTERM after limits')


def check_slow_sockets(program, model, count):
    server = Server(program, model, '--no-request-log', '--max-connections', str(count + 50), '--header-timeout', '2000')
    slow = []
    for i in range(count):
        each = socket.create_connection(('127.0.0.1', server.port), timeout=LIMIT_S)
        each.sendall(b'POST /predict HTTP/1.1\r\nHost: localhost\r\n' if i % 2 else b'P')
        slow.append(each)
    for _ in range(20):
        expect(predict(server, 'A great film')[0] == 200, 'an honest client beside slow ones')
    still = 0
    for each in slow:
        try:
            while each.recv(4096):
                pass
        except TimeoutError:
            still += 1
        except OSError:
            pass
        each.close()
    expect(still == 0, f'{still} of {count} slow sockets outlived their time')
    expect(server.end() == 0, 'SIGTERM after slow sockets')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('tests')
    parser.add_argument('--drain-trials', type=int, default=3)
    parser.add_argument('--slow-sockets', type=int, default=200)
    parser.add_argument('--sanitized', action='store_true', help='the program is built with sanitizers')
    flags = parser.parse_args()
    model = os.path.join(flags.tests, 'checkpoints', 'bert-deebert')
    with tempfile.TemporaryDirectory() as folder:
        check_answers(flags.program, model)
        check_keys_and_reload(flags.program, model, folder)
        check_tls(flags.program, model, folder)
        check_tls_bodies(flags.program, model, folder)
        check_few_descriptors(flags.program, model)
        if not flags.sanitized:  # sanitizers hold on to what was freed, and open pipes to look at memory
            check_keyless_memory(flags.program, model, folder)
            check_no_descriptors(flags.program, model)
        check_drain(flags.program, model, flags.drain_trials)
        check_readiness(flags.program, model)
        check_unread_log(flags.program, model)
        check_limits(flags.program, model)
        check_slow_sockets(flags.program, model, flags.slow_sockets)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
