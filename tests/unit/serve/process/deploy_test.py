#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lints what lies under deploy/: the tools that read such files, where they are installed, and what only we can know.

    deploy_test.py EXEUNT REPOSITORY

Every flag must be one of `exeunt serve`, every probed path a route, every port the one that is listened on, every pod without
privileges, asked for keys and given the time to drain; Prometheus has a key. Exit status 1 with one line per finding; 77
where a tool is missing and there is no finding.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from copy import deepcopy

try:
    import yaml
except ImportError:
    yaml = None

findings, missing = [], []


def expect(condition, what):
    if not condition:
        findings.append(what)


def tool(name):
    found = shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin')
    if not found:
        missing.append(name)
    return found


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def check_flags(where, words, known):
    for word in words:
        name = word.split('=')[0]
        if name.startswith('--'):
            expect(name in known, f'{where}: {name} is no flag of exeunt serve')


def check_unit(root, program, known):
    path = os.path.join(root, 'deploy/exeunt.service')
    text = open(path, encoding='utf-8').read()
    start = re.search(r'^ExecStart=(.*)$', text, re.M).group(1).split()
    # By its name alone systemd looks in /usr/local/bin, where `cmake --install` puts it, and in /usr/bin.
    expect(start[:2] == ['exeunt', 'serve'], f'exeunt.service: ExecStart is {start[:2]}')
    keys = start[start.index('--api-key-file') + 1]
    expect(keys.startswith('/etc/') and 'LoadCredential' not in re.sub('^#.*', '', text, flags=re.M),
           f'exeunt.service: a reload would read {keys} as it was at the start')
    check_flags('exeunt.service', start, known)
    drain = int(known['--drain-timeout'])
    expect(int(re.search(r'^TimeoutStopSec=(\d+)', text, re.M).group(1)) > drain, 'exeunt.service: stops before the drain ends')
    analyze = tool('systemd-analyze')
    if not analyze:
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, 'exeunt.service')
        with open(copy, 'w', encoding='utf-8') as file:
            file.write(text.replace('ExecStart=exeunt', f'ExecStart={program}'))  # it looks whether the program is there
        status, output = run(analyze, 'verify', '--man=no', copy)
        expect(status == 0 and 'exeunt.service' not in output, f'systemd-analyze verify: {output.strip()}')
        status, output = run(analyze, 'security', '--offline=true', '--threshold=30', copy)
        expect(status == 0, f'systemd-analyze security: {output.strip()[-200:]}')


def check_dockerfile(root, known):
    text = open(os.path.join(root, 'deploy/Dockerfile'), encoding='utf-8').read()
    lines = re.sub(r'\\\n', ' ', text).split('\n')
    steps = [line.split(None, 1) for line in lines if line and not line.startswith('#')]
    stages = [i for i, step in enumerate(steps) if step[0] == 'FROM']
    expect(len(stages) == 2, 'Dockerfile: want a stage that builds and one that runs')
    for index in stages:
        expect(re.match(r'debian:bookworm-\d{8}-slim( |$)', steps[index][1]),
               f'Dockerfile: {steps[index][1]} is no Debian 12 of a day')
    check_images(root)
    _, packages = run(os.path.join(root, 'scripts/setup'), '--list')
    installs = [re.search(r'--no-install-recommends(.*?)&&', step[1]).group(1).split() for step in steps
                if step[0] == 'RUN' and 'apt-get' in step[1]]
    for package in installs[0]:
        expect(package in packages.split(), f'Dockerfile: {package} is not among the packages of scripts/setup')
    last = dict(steps[stages[-1]:])
    expect(last['USER'].isdigit() and int(last['USER']) > 0, 'Dockerfile: runs as root')
    health = json.loads(last['HEALTHCHECK'].removeprefix('CMD '))[-1]
    expect(f'/127.0.0.1/{last["EXPOSE"]} ' in health and 'GET /health ' in health, f'Dockerfile: asks {health}')
    command = json.loads(last['ENTRYPOINT']) + json.loads(last['CMD'])  # JSON: no shell between a signal and us
    expect(command[command.index('--port') + 1] == last['EXPOSE'], 'Dockerfile: EXPOSE and --port differ')
    check_flags('Dockerfile', command, known)
    check_dockerignore(root)
    presets = json.load(open(os.path.join(root, 'CMakePresets.json'), encoding='utf-8'))
    expect('runtime' in [preset['name'] for preset in presets['buildPresets']], 'Dockerfile: there is no preset runtime')


def manifests(root):
    folder = pathlib.Path(root, 'deploy/kubernetes')
    return sorted(str(path.relative_to(folder)) for path in folder.rglob('*.yaml') if path.name != 'kustomization.yaml')


def check_images(root):
    """What runs is the image of this version, not whatever was called the latest."""
    def read(*parts):
        with open(os.path.join(root, *parts), encoding='utf-8') as file:
            return file.read()

    version = re.search(r'project\(exeunt VERSION (\S+)', read('CMakeLists.txt')).group(1)
    for name in [*manifests(root), '../Dockerfile']:
        for image in re.findall(r'(?:image: *|-t |:ro )(exeunt\S*)', read('deploy/kubernetes', name)):
            expect(image == f'exeunt:{version}', f'{name}: {image} is not exeunt:{version}')


def check_dockerignore(root):
    """`COPY . .` takes no build folder along: what git ignores, Docker does, where `/` means the same in both."""
    with open(os.path.join(root, '.gitignore'), encoding='utf-8') as file:
        ours = [line.rstrip('/') for line in file.read().split('\n') if line and not line.startswith('#')]
    with open(os.path.join(root, '.dockerignore'), encoding='utf-8') as file:
        theirs = file.read().split('\n')
    for line in ours:
        expect((line if line.startswith('/') else f'**/{line}') in theirs, f'.dockerignore: lacks {line} of .gitignore')
    expect('/keys*' in theirs, '.dockerignore: keys would go into the build')
    expect('/runs' in ours, '.gitignore: lacks /runs, where training puts models with their held-out texts')


def probes_of(container):
    return [container[name]['httpGet'] for name in container if name.endswith('Probe')]


def check_container(where, container, known, routes, pod=()):
    flags = dict(arg.split('=', 1) for arg in container['args'] if arg.startswith('--') and '=' in arg)
    check_flags(where, container['args'], known)
    ports = {port.get('name'): port['containerPort'] for port in container['ports']}
    expect(int(flags['--port']) in ports.values(), f'{where}: --port is not among its ports')
    expect(probes_of(container), f'{where}: no probe')
    for probe in probes_of(container):
        expect(probe['path'] in routes, f'{where}: probes {probe["path"]}, which is no route')
        expect(probe['port'] in ports or probe['port'] in ports.values(), f'{where}: probes port {probe["port"]}')
    check_confined(where, container, pod)
    expect(flags.get('--threads') == container['resources']['requests']['cpu'],
           f'{where}: --threads {flags.get("--threads")} is not what it requests of a node')
    expect('--insecure-no-auth' not in container['args'] and '--api-key-file' in flags, f'{where}: asks for no key')
    keys = os.path.dirname(flags.get('--api-key-file', ''))
    expect(keys in [mount['mountPath'] for mount in container.get('volumeMounts', [])], f'{where}: keys lie on no volume')
    return flags


def check_confined(where, container, pod=()):
    """What docs/security.md promises of every pod: no privileges, nothing to write to, a limit of memory."""
    context = {**dict(pod), **container.get('securityContext', {})}
    expect(context.get('runAsNonRoot') and context.get('readOnlyRootFilesystem') and context.get('runAsUser', 0) > 0 and
           context.get('allowPrivilegeEscalation') is False and context.get('capabilities') == {'drop': ['ALL']} and
           context.get('seccompProfile') == {'type': 'RuntimeDefault'}, f'{where}: may do more than it needs: {context}')
    expect('memory' in container['resources']['limits'], f'{where}: no limit of memory')


def check_drain(where, flags, known, grace):
    drain = sum(int(flags.get(name, known[name])) for name in ('--drain-delay', '--drain-timeout'))
    expect(grace > drain, f'{where}: killed after {grace} s, before the drain of {drain} s ends')


def check_monitor(monitor, labels, container, routes):
    expect(monitor['selector']['matchLabels'].items() <= labels.items(), 'PodMonitor: selects other pods')
    for endpoint in monitor['podMetricsEndpoints']:
        expect(endpoint['port'] in [port['name'] for port in container['ports']], 'PodMonitor: no such port')
        expect(endpoint['path'] in routes, f'PodMonitor: {endpoint["path"]} is no route')
        key = endpoint.get('authorization', {'type': ''})
        expect(not routes[endpoint['path']]['get']['security'] or key['type'] == 'Bearer' and key['credentials']['name'],
               'PodMonitor: asks without the key that the route needs')


def patched(document, patches, where):
    """A copy of it after JSON patches (RFC 6902) that add to or remove what is there."""
    document = deepcopy(document)
    for patch in patches:
        *above, last = [part.replace('~1', '/') for part in patch['path'].split('/')[1:]]
        place = document
        for part in above:
            place = place[int(part) if isinstance(place, list) else part]
        if patch['op'] == 'remove':
            expect(place.pop(last, None) is not None, f'{where}: nothing to remove at {patch["path"]}')
        elif last == '-':
            place.append(patch['value'])
        else:
            expect(last not in place, f'{where}: {patch["path"]} is there already')
            place[last] = patch['value']
    return document


def overlaid(root, deployment):
    """{overlay: the deployment after its patches}; what the overlays name exists."""
    folder = pathlib.Path(root, 'deploy/kubernetes')
    after = {}
    for path in sorted(folder.rglob('kustomization.yaml')):
        where = str(path.relative_to(folder))
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
        for name in content['resources']:
            place = path.parent / name
            expect(place.is_file() or (place / 'kustomization.yaml').is_file(), f'{where}: there is no {name}')
        for patch in content.get('patches', []):
            expect(patch['target'] == {'kind': 'Deployment', 'name': deployment['metadata']['name']}, f'{where}: patches another')
            after[path.parent.name] = patched(deployment, yaml.safe_load(patch['patch']), where)
    return after


def documents(root):
    """[[where, document]] of all manifests and of the deployments that the overlays make."""
    found = [[name, document] for name in manifests(root)
             for document in yaml.safe_load_all(pathlib.Path(root, 'deploy/kubernetes', name).read_text(encoding='utf-8'))]
    deployment = next(document for _, document in found if document['kind'] == 'Deployment')
    return found + [[f'overlays/{name}', document] for name, document in overlaid(root, deployment).items()]


def check_overlays(root, deployment, known, routes):
    """The deployment is still right after the patches of an overlay."""
    after = overlaid(root, deployment)
    for name, changed in after.items():
        pod = changed['spec']['template']['spec']
        check_container(name, pod['containers'][0], known, routes, pod['securityContext'])
    expect(sorted(after) == ['cpu', 'gpu'] and 'replicas' not in after['cpu']['spec'], 'the autoscaler does not own the replicas')
    gpu = after['gpu']['spec']['template']['spec']['containers'][0]
    expect('--device=cuda' in gpu['args'] and 'nvidia.com/gpu' in gpu['resources']['limits'], 'gpu: without a GPU')


def check_kubernetes(root, known, routes):
    if yaml is None:
        missing.append('python3-yaml')
        return
    folder = os.path.join(root, 'deploy/kubernetes')
    kinds = {}
    for name in manifests(root):
        for document in yaml.safe_load_all(open(os.path.join(folder, name), encoding='utf-8')):
            expect({'apiVersion', 'kind', 'metadata', 'spec'} <= set(document), f'{name}: a document lacks a part')
            kinds[document['kind']] = document
    check_overlays(root, kinds['Deployment'], known, routes)
    deployment, service = kinds['Deployment']['spec'], kinds['Service']['spec']
    pod = deployment['template']
    labels = pod['metadata']['labels']
    for who, selector in (('Deployment', deployment['selector']['matchLabels']), ('Service', service['selector']),
                          ('PodDisruptionBudget', kinds['PodDisruptionBudget']['spec']['selector']['matchLabels'])):
        expect(selector.items() <= labels.items(), f'{who}: selects {selector}, the pods are {labels}')
    container = pod['spec']['containers'][0]
    flags = check_container('Deployment', container, known, routes, pod['spec']['securityContext'])
    expect(not [name for name in pod['metadata'].get('annotations', {}) if name.startswith('prometheus.io/')],
           'Deployment: annotations cannot give Prometheus the key that /metrics asks for')
    expect(service['ports'][0]['targetPort'] in [port['name'] for port in container['ports']], 'Service: no such port')
    check_drain('Deployment', flags, known, pod['spec']['terminationGracePeriodSeconds'])
    volumes = {volume['name'] for volume in pod['spec']['volumes']}
    expect({mount['name'] for mount in container['volumeMounts']} == volumes, 'Deployment: volumes and mounts differ')
    check_monitor(kinds['PodMonitor']['spec'], labels, container, routes)
    job = kinds['Job']['spec']['template']['spec']
    check_confined('Job', job['containers'][0], job['securityContext'])
    threads = f"--threads {job['containers'][0]['resources']['requests']['cpu']} "
    expect(threads in ' '.join(job['containers'][0]['args']), f'Job: lacks {threads}, what it requests of a node')
    runtime = kinds['ServingRuntime']['spec']
    flags = check_container('ServingRuntime', runtime['containers'][0], known, routes)
    predictor = kinds['InferenceService']['spec']['predictor']
    check_drain('InferenceService', flags, known, predictor.get('terminationGracePeriodSeconds', 30))  # Kubernetes' default
    model = predictor['model']
    expect(model['modelFormat']['name'] in [form['name'] for form in runtime['supportedModelFormats']],
           'InferenceService: no runtime takes its format')
    lint = tool('yamllint')
    if lint:
        status, output = run(lint, '-d', '{extends: relaxed, rules: {line-length: {max: 140}}}', folder)
        expect(status == 0 and not output.strip(), f'yamllint: {output.strip()}')


def check_nginx(root):
    text = open(os.path.join(root, 'deploy/nginx.conf'), encoding='utf-8').read()
    again = ' '.join(re.findall(r'^\s*proxy_next_upstream\s+([^;]*);', text, re.M))
    expect(again and 'non_idempotent' not in again, f'nginx.conf: a request that kills a replica is sent to the next ({again})')
    nginx = tool('nginx')
    if not nginx:
        return
    with tempfile.TemporaryDirectory() as folder:
        conf = os.path.join(folder, 'nginx.conf')
        with open(conf, 'w', encoding='utf-8') as file:
            file.write(f'pid {folder}/pid; error_log {folder}/error.log;\n')
            file.write(open(os.path.join(root, 'deploy/nginx.conf'), encoding='utf-8').read())
        status, output = run(nginx, '-t', '-c', conf, '-p', folder, '-e', folder + '/error.log')
        expect(status == 0, f'nginx -t: {output.strip()}')


def main():
    program, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    _, text = run(program, 'serve', '--help')
    known = dict.fromkeys(re.findall(r'--[a-z][a-z-]+', text), '')
    known.update(re.findall(r'(--[a-z-]+) [^\n]*\(default (\d+)\)', text))
    expect(len(known) > 20, 'exeunt serve --help names few flags')
    routes = json.load(open(os.path.join(root, 'web/openapi.json'), encoding='utf-8'))['paths']
    check_unit(root, program, known)
    check_dockerfile(root, known)
    check_kubernetes(root, known, routes)
    check_nginx(root)
    for finding in findings:
        print(finding)
    if missing:
        print('not installed, so not asked: ' + ', '.join(missing))
    return 1 if findings else 77 if missing else 0


if __name__ == '__main__':
    sys.exit(main())
