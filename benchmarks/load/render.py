# SPDX-License-Identifier: Apache-2.0
"""The figures of lab/notebooks/reliability.md, and the table of attacks in docs/reliability.md, from the records in
benchmarks/results/serve.jsonl, one trial a line; and there the table of crafted files, from benchmarks/files/crafted_files.json.

    render.py                     writes them between the marks
    render.py --check             fails if the page does not hold them
    render.py --add NAME FILE     takes the record that exeunt-load saved with --out, in the place of NAME's last one

A trial may be there several times, as NAME, NAME-2, NAME-3, …: the first is shown in full, the others beside it.
"""
import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / 'lab/notebooks/reliability.md'
PROMISES = ROOT / 'docs/reliability.md'
RECORDS = ROOT / 'benchmarks/results/serve.jsonl'
# Of docs/reliability.md: what was promised and found broken, and the trial that holds it now.
ATTACKS = [
    ('Attackers without a key do not hurt others', 'attack-every-route'),
    ('… nor by connections that only come and stay', 'attack-idle'),
    ('… nor by TLS handshakes, whole ones', 'attack-tls-handshake'),
    ('… nor by first messages of handshakes, whose senders leave', 'attack-tls-hello'),
    ('A key comes before memory, on every route; uploads with a key are not pushed out', 'keyless'),
    ('… beside connections that only come and stay', 'keyless-idle'),
    ('… with TLS, uploads from another address', 'keyless-tls'),
    ('… beside TLS handshakes', 'keyless-tls-handshake'),
    ('… beside first messages of handshakes', 'keyless-tls-hello'),
]
CRAFTED = ROOT / 'benchmarks/files/crafted_files.json'
BEGIN_CRAFTED = '<!-- crafted files: made by benchmarks/load/render.py -->'
BEGIN, END = '<!-- figures: made by benchmarks/load/render.py -->', '<!-- end of figures -->'


def table(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '| ' + ' | '.join('---' for _ in header) + ' |']
    return '\n'.join(lines + ['| ' + ' | '.join(map(str, row)) + ' |' for row in rows])


def number(value):
    return f'{value:g}'


def promises(record):
    rows = []
    for promise in record['promises']:
        most = 'at_most' in promise
        limit = promise['at_most' if most else 'at_least']
        rows.append([promise['figure'], number(promise['got']), ('≤ ' if most else '≥ ') + number(limit),
                     'yes' if promise['kept'] else '**no**'])
    return table(['figure', 'measured', 'wanted', 'kept'], rows)


def others(machine):
    return f"{100 * machine['share_of_others']:.0f} %" if 'share_of_others' in machine else 'not known'


def heading(record, name):
    machine = record['machine']
    return (f"### {name}\n\n{record['date'][:10]}, commit {record['commit']}, {machine['cpu']}, {machine['cores']} cores; taken by "
            f"other work meanwhile: {others(machine)}.\n\n```\n{record['command']}\n```\n")


def times_line(record):
    """What the generator and the server took, where the generator might have been what was measured, and how far turns differ."""
    figures = record['figures']
    if 'generator_cpu_seconds_beside' not in figures:
        return ''
    pairs = [(who.replace('_', ' '), figures[f'{who}_cpu_seconds_alone'], figures[f'{who}_cpu_seconds_beside'])
             for who in ('generator', 'server', 'network_thread') if f'{who}_cpu_seconds_alone' in figures]
    text = '\nProcessor time: ' + '; '.join(f'{who} {alone:g} s alone, {beside:g} s beside attackers' for who, alone, beside in pairs) + '.\n'
    if 'turns' in figures:
        middle = ['{:g} to {:g}'.format(*figures[key]) for key in
                  ('p99_ms_alone_middle_half', 'p99_ms_beside_middle_half', 'ratio_of_a_turn_middle_half')]
        text += (f"The middle half of {figures['turns']} turns: p99 {middle[0]} ms alone, {middle[1]} ms beside attackers, "
                 f"{middle[2]} times.\n")
    return text


def runs_line(runs):
    """Of a trial that was run several times, every run: one figure of chance says little."""
    if len(runs) < 2:
        return ''
    rows = []
    for record in runs:
        figures, promise = record['figures'], record['promises'][-1]
        machine = record['machine']
        rows.append([record['date'].replace('T', ' ').removesuffix('Z'), record['commit'], machine['cores'], others(machine),
                     number(figures['p99_ms_alone']), number(figures['p99_ms_beside']), number(promise['got']),
                     'yes' if promise['kept'] else '**no**'])
    return ('\nEvery run:\n\n' +
            table(['date', 'commit', 'cores', 'other work', 'p99 ms alone', 'p99 ms beside', 'ratio', 'kept'], rows) + '\n')


def hardening(record):
    """Builds of the command side by side: medians, and what they differ by from the first."""
    names = list(record['figures']['rows'][0]['times'])
    rows = []
    for row in record['figures']['rows']:
        middle = {name: statistics.median(times) for name, times in row['times'].items()}
        quartiles = statistics.quantiles(row['times'][names[0]], n=4)
        cells = [row['figure'], f"{middle[names[0]]:.3g} {row['unit']}"]
        cells += [f'{middle[name]:.3g} ({100 * (middle[name] / middle[names[0]] - 1):+.1f} %)' for name in names[1:]]
        rows.append(cells + [f'{100 * (quartiles[2] - quartiles[0]) / middle[names[0]]:.1f} %'])
    return (f"Processor time, medians of {record['figures']['rounds']} rounds in which the builds take turns; the last column is the middle half "
            f"of the rounds of the first build, so smaller differences say nothing.\n\n{table(['', *names, 'scatter'], rows)}\n")


def peaks(records):
    rows = []
    for name, record in records:
        figures = record['figures']
        rows.append([name, f"{figures['rate_per_s']:.0f}", f"{figures['p50_ms']:.1f}", f"{figures['p99_ms']:.1f}",
                     f"{figures['closed_loop_per_s']:.0f}"])
        rows[-1].append(others(record['machine']))
    best = {name: record['figures']['rate_per_s'] for name, record in records}
    ours = best.get('ours-int8-certified')
    text = table(['server', 'requests/s', 'p50 ms', 'p99 ms', 'closed loop, requests/s', 'other work meanwhile'], rows)
    if ours:
        ratios = [f'{ours / rate:.2f}× {name}' for name, rate in best.items() if name != 'ours-int8-certified' and rate > 0]
        text += '\n\nInt8 with the certified policy: ' + ', '.join(ratios) + '.' if ratios else ''
    first = records[0][1]
    limit = number(first['figures']['p99_limit_ms'])
    return (f"### Requests a second at equal p99\n\n{first['date'][:10]}, {first['machine']['cpu']}, {first['machine']['cores']} "
            f"cores shared with the generator. The highest open-loop "
            f"rate at which every request is answered and p99 stays within {limit} ms.\n\n{text}\n")


def records():
    return [json.loads(line) for line in RECORDS.read_text(encoding='utf-8').splitlines()]


def add(name, path):
    kept = [record for record in records() if record['name'] != name]
    kept.append({'name': name} | json.loads(Path(path).read_text(encoding='utf-8')))
    kept.sort(key=lambda record: record['name'])
    RECORDS.write_text(''.join(json.dumps(record, ensure_ascii=False) + '\n' for record in kept), encoding='utf-8')


def figures():
    trials, compared, parts = {}, [], []
    for record in records():
        name = record['name']
        if record['trial'] == 'peak':
            compared.append((name.removeprefix('peak-'), record))
        else:
            trials.setdefault(re.sub(r'-\d+$', '', name), []).append(record)
    for name, runs in trials.items():
        if name == 'hardening':
            parts.append(heading(runs[0], name) + '\n' + hardening(runs[0]))
        else:
            parts.append(heading(runs[0], name) + '\n' + promises(runs[0]) + '\n' + times_line(runs[0]) + runs_line(runs))
    if compared:
        parts.append(peaks(compared))
    return '\n'.join(parts)


def attacks():
    """A row for each figure that is promised against attackers: how it was measured, and of which commit."""
    known, rows = {record['name']: record for record in records()}, []
    for promise, name in ATTACKS:
        record = known[name]
        trial = record['command'].removeprefix('exeunt-load ').split(' -- ')[0]
        for figure in record['promises']:
            most = 'at_most' in figure
            limit = ('≤ ' if most else '≥ ') + number(figure['at_most' if most else 'at_least'])
            rows.append([promise, trial and f'`{trial}`', figure['figure'], number(figure['got']), limit, 'yes' if figure['kept'] else '**no**',
                         record['commit'], others(record['machine'])])
            promise = trial = ''
    return table(['promise', 'trial', 'figure', 'measured', 'wanted', 'kept', 'commit', 'other work meanwhile'], rows) + '\n'


def crafted_files():
    """Crafted file / control, of the whole command."""
    record, rows = json.loads(CRAFTED.read_text(encoding='utf-8')), []
    for row in record['readers']:
        used = [f"{row['crafted'][key]:.{digits}f}/{row['control'][key]:.{digits}f}" for key, digits in (('seconds', 2), ('mib', 0))]
        rows.append([row['reader'], *used, f"{max(row['time'], row['memory']):.2f}×" + ('' if row['kept'] else ' **broken**')])
    return (f"{record['date'][:10]}, commit {record['commit']}, {record['machine']['cpu']}:\n\n" +
            table(['reader', 'time, s', 'memory, MiB', 'larger quotient'], rows) + '\n')


def written(page, begin, made):
    """The page with what was made between the marks."""
    start = page.index(begin) + len(begin)
    return page[:start] + '\n' + made + page[page.index(END, start):]


def main():
    if sys.argv[1:2] == ['--add']:
        return add(*sys.argv[2:])
    for path, parts in ((DOCS, {BEGIN: figures()}), (PROMISES, {BEGIN: attacks(), BEGIN_CRAFTED: crafted_files()})):
        page = before = path.read_text(encoding='utf-8')
        for begin, made in parts.items():
            page = written(page, begin, made)
        if '--check' not in sys.argv:
            path.write_text(page, encoding='utf-8')
        elif page != before:
            sys.exit(f'{path.relative_to(ROOT)}: the figures are not those of the stored records; run benchmarks/load/render.py')


if __name__ == '__main__':
    main()
