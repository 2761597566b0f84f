# SPDX-License-Identifier: Apache-2.0
"""Tables of benchmarks/results/packs: what benchmarks/micro/engine/packs.py measured, ONNX Runtime's batches and servers beside it."""
from cuda_tables import table


def percent(share):
    return f'{100 * share:.0f} %' if share else '–'


def backlog(runs):
    return ['load', 'shape', 'precision', 'backlog of', 'texts/s alone', 'texts/s in packs', 'ratio'], [
        [result['load'], result['shape'], row['precision'], row['case'], f"{row['alone']:.1f}", f"{row['packs']:.1f}",
         f"{row['ratio']:.2f}×"] for result, row in runs]


def peer(runs):
    best = {}
    for result, row in runs:
        key = result['load'], row['shape'], row['precision'], row['case']
        if key not in best or row['texts_per_second'] > best[key]['texts_per_second']:
            best[key] = row
    alone = {(result['load'], row['shape'], row['precision'], row['case']): row for result, row in runs if row['batch'] == 1}
    return ['load', 'shape', 'precision', 'backlog of', 'texts/s one by one', 'texts/s at best', 'batch', 'order'], [
        [*key, f"{alone[key]['texts_per_second']:.1f}" if key in alone else '–', f"{row['texts_per_second']:.1f}", row['batch'],
         row['order']] for key, row in best.items()]


def sizes(runs):
    rows = {}
    for result, row in runs:
        rows.setdefault((result['load'], result['shape'], row['precision']), {})[row['pack_rows']] = row['texts_per_second']
    columns = sorted({size for of_run in rows.values() for size in of_run})
    return ['load', 'shape', 'precision', *(f'{size} rows' for size in columns)], [
        [*key, *(f'{of_run[size]:.0f}' if size in of_run else '–' for size in columns)] for key, of_run in rows.items()]


def peak(runs):
    return ['load', 'shape', 'precision', 'texts × tokens', 'Gop/s', 'of the register peak'], [
        [result['load'], result['shape'], row['precision'], f"{row['batch']} × {row['length']}", f"{row['gops']:.0f}",
         percent(row['peak_share'])] for result, row in runs]


def exits(runs):
    return ['load', 'shape', 'precision', 'poolers', 'texts of 32 tokens', 'one exit ms', 'an exit per layer ms', 'overhead'], [
        [result['load'], result['shape'], row['precision'], row.get('poolers', '–'), row['batch'], f"{row['last_ms']:.2f}",
         f"{row['reader_ms']:.2f}", f"{100 * (row['reader_ms'] / row['last_ms'] - 1):+.1f} %"] for result, row in runs]


def lone(runs):
    return ['load', 'shape', 'precision', 'processors', 'a text of 128 tokens', 'best ms', 'p50 ms', 'p90 ms', 'p50 against quiet'], [
        [result['load'], result['shape'], row['precision'], row['processors'], row['case'],
         *(f'{row[key]:.2f}' for key in ('best_ms', 'p50_ms', 'p90_ms')), f"{row['ratio']:.2f}×"] for result, row in runs]


def serve(runs):
    return ['load', 'model', 'precision', 'processors', 'rows of a pack', 'requests/s alone', 'requests/s in packs', 'ratio',
            'p50 of one after another'], [
        [result['load'], row['model'], row['precision'], row['processors'], row.get('pack_rows', 256), f"{row['alone']:.0f}",
         f"{row['packs']:.0f}", f"{row['packs'] / row['alone']:.2f}×", f"{row['p50_alone_ms']:.2f} → {row['p50_packs_ms']:.2f} ms"]
        for result, row in runs]


PARTS = {
    'backlog': (backlog, 'A backlog, one thread: each text alone, and in packs:'),
    'peer': (peer, 'ONNX Runtime on batches of the same texts, one thread, padded to the longest of a batch, as they come and sorted by '
                   'length:'),
    'sizes': (sizes, 'Texts a second of 24 tokens by the size of packs:'),
    'peak': (peak, 'Packs of 512 rows at most, every row of every layer:'),
    'exits': (exits, 'Exits that nobody takes, a reader after every layer:'),
    'lone': (lone, 'A text on its own, on all processors:'),
    'serve': (serve, "A server, requests with SST-2's texts at the highest rate whose p99 is within 250 ms:"),
}


def packs_tables(results):
    """One section for each machine, with all of its runs."""
    machines = {}
    for result in results:
        parts = machines.setdefault(result['machine'], {})
        for row in result['rows']:
            parts.setdefault(row['part'], []).append((result, row))
    sections = []
    for machine, parts in machines.items():
        section = [f'### {machine}']
        for name, (columns, title) in PARTS.items():
            if parts.get(name):
                section.append(f'{title}\n\n{table(*columns(parts[name]))}')
        sections.append('\n\n'.join(section))
    return '\n\n'.join(sections)
