#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alerts, dashboard and autoscaler under deploy/ against /metrics of a running server.

    monitoring_test.py EXEUNT REPOSITORY

Every metric that an expression names is exported, with the labels that it is selected or grouped by; the autoscaler and the
deployment belong together. Exit status 1 with one line per finding; 77 without PyYAML.
"""
import json
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print('PyYAML is not installed')
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(ROOT / 'tests/unit/serve/process'))
from server_test import Server, expect, problems, wait_until  # noqa: E402

ADDED = {'job', 'instance'}  # to every sample, by Prometheus


def scraped(program):
    """{name: labels} of all samples, after requests that were answered, cut and refused, and a comparison."""
    server = Server(program, str(ROOT / 'tests/fixtures/checkpoints/bert-deebert'), '--shadow', '100%')
    for body, status in (({'inputs': 'film ' * 60}, 200), ({'inputs': 3}, 422)):
        got = server.ask('POST', '/predict', body)
        expect(got[0] == status, f'{body}: {got}')
    expect(server.ask('GET', '/info', headers={'Host': 'elsewhere.example'})[0] == 403, 'a host that is not ours')
    expect(wait_until(lambda: re.search(r'^exeunt_shadow_texts_total\{.*\} 1$', server.ask('GET', '/metrics')[2], re.M)),
           'no shadow run')
    samples = {}
    for name, labels in re.findall(r'^(\w+)(?:\{(.*)\})? \S+$', server.ask('GET', '/metrics')[2], re.M):
        samples.setdefault(name, set(ADDED)).update(re.findall(r'(\w+)="', labels))
    expect(server.end() == 0, 'the server ends')
    return samples


def findings_in(expression, samples):
    """What is wrong with a PromQL expression: names and labels that are not exported, brackets."""
    names = re.findall(r'\bexeunt_\w+', expression)
    if not names:
        yield 'names no metric'
    for name in names:
        if name not in samples:
            yield f'{name} is not exported'
    for name, matchers in re.findall(r'(exeunt_\w+)\{([^}]*)\}', expression):
        for label in re.findall(r'(\w+) *(?:=~|!~|!=|=)', matchers):
            if label not in samples.get(name, {label}):
                yield f'{name} has no label {label}'
    known = set().union(*(samples.get(name, set()) for name in names))
    for group in re.findall(r'\b(?:by|without) *\(([^)]*)\)', expression):
        for label in re.split(', *', group):
            if label not in known:
                yield f'is grouped by {label}, a label of none of its metrics'
    for pair in ('()', '[]', '{}'):
        if expression.count(pair[0]) != expression.count(pair[1]):
            yield f'brackets {pair} do not match'


def check_expression(where, expression, samples):
    for finding in findings_in(expression, samples):
        expect(False, f'{where}: {finding}: {expression}')


def check_check(samples):
    """The check itself can fail."""
    for wrong in ('rate(exeunt_no_such_total[5m])', 'exeunt_ready{color="red"}', 'sum by (status) (exeunt_ready)', 'up',
                  'sum(rate(exeunt_texts_total[5m])'):
        expect(list(findings_in(wrong, samples)), f'taken for right: {wrong}')


def documents(name):
    return list(yaml.safe_load_all((ROOT / 'deploy/kubernetes' / name).read_text()))


def check_alerts(samples):
    rules = [rule for group in documents('alerts.yaml')[0]['spec']['groups'] for rule in group['rules']]
    expect(len({rule['alert'] for rule in rules}) == len(rules) > 5, 'alerts.yaml: names')
    for rule in rules:
        where = f'alerts.yaml: {rule["alert"]}'
        check_expression(where, rule['expr'], samples)
        expect(rule['labels']['severity'] in ('critical', 'warning', 'info'), f'{where}: severity')
        # A text can name the labels that the expression leaves.
        grouped = re.search(r'\bby \(([^)]*)\)', rule['expr'])
        left = set(grouped.group(1).split(', ')) if grouped else samples[re.search(r'exeunt_\w+', rule['expr']).group()]
        for label in re.findall(r'\$labels\.(\w+)', ' '.join(rule['annotations'].values())):
            expect(label in left and not rule['expr'].startswith('absent'), f'{where}: its summary names {label}')


def check_dashboard(samples):
    board = json.loads((ROOT / 'deploy/grafana.json').read_text())
    variables = {variable['name']: variable for variable in board['templating']['list']}
    check_expression('grafana.json: job', variables['job']['query'], samples)
    places = set()
    for panel in board['panels']:
        place = panel['gridPos']
        cells = {(place['x'] + x, place['y'] + y) for x in range(place['w']) for y in range(place['h'])}
        expect(not cells & places and max(x for x, _ in cells) < 24, f'grafana.json: {panel["title"]} lies over another')
        places |= cells
        expect(panel['datasource']['uid'] == '${datasource}', f'grafana.json: {panel["title"]}: datasource')
        for target in panel['targets']:
            check_expression(f'grafana.json: {panel["title"]}', target['expr'], samples)
            for variable in re.findall(r'\$(\w+)', target['expr']):
                expect(variable in variables or variable == '__rate_interval', f'grafana.json: no variable {variable}')
            shown = re.findall(r'\{\{(\w+)\}\}', target['legendFormat'])
            left = re.findall(r'\bby \((\w+)\)', target['expr']) or ['instance']
            expect(set(shown) <= set(left), f'grafana.json: {panel["title"]}: its legend names {shown}')
    ids = [panel['id'] for panel in board['panels']]
    expect(len(set(ids)) == len(ids) > 5, 'grafana.json: ids')


def check_autoscaler():
    scaler = documents('overlays/cpu/autoscaler.yaml')[0]
    kinds = {one['kind']: one for one in documents('base/exeunt.yaml')}
    target = scaler['spec']['scaleTargetRef']
    deployment = kinds[target['kind']]
    expect((target['apiVersion'], target['name']) == (deployment['apiVersion'], deployment['metadata']['name']),
           f'autoscaler.yaml: scales {target}')
    least = scaler['spec']['minReplicas']
    expect(kinds['PodDisruptionBudget']['spec']['minAvailable'] < least <= scaler['spec']['maxReplicas'],
           'autoscaler.yaml: no pod of the fewest may be moved')
    requests = deployment['spec']['template']['spec']['containers'][0]['resources']['requests']
    for metric in scaler['spec']['metrics']:
        expect(metric['resource']['name'] in requests, f'autoscaler.yaml: {metric} is a share of nothing requested')


def main():
    samples = scraped(sys.argv[1])
    check_check(samples)
    check_alerts(samples)
    check_dashboard(samples)
    check_autoscaler()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
