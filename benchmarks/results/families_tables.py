# SPDX-License-Identifier: Apache-2.0
"""The tables of a run of benchmarks/peers/families.py."""
from cuda_tables import number, table

PEERS = {'node': 'onnxruntime-node', 'python': "ONNX Runtime's Python package", 'none': 'no other software'}


def short_table(rows):
    """Least processor time of one thread; the last column is what an operation costs over one of BERT's."""
    cost = {(row['precision'], row['shape']): row['ours']['cpu_ms'] / row['gflop'] for row in rows}
    out = []
    for row in rows:
        base = cost.get((row['precision'], 'bert-base'))
        own, peer = cost[row['precision'], row['shape']], row.get('onnxruntime', {}).get('cpu_ms')
        out.append([row['precision'], row['shape'], number(row['gflop'], 1), number(row['ours']['cpu_ms']),
                    f'{100 * (own / base - 1):+.1f} %' if base else '–', number(peer),
                    f"{peer / row['ours']['cpu_ms']:.2f}×" if peer else '–'])
    return table(['precision', 'shape', 'GFLOP', 'ours ms', 'time per FLOP over BERT\'s', 'ONNX Runtime ms', 'ratio'], out)


def long_table(rows):
    out, above = [], None
    for row in rows:
        ours, peer = row['ours'], row.get('onnxruntime', {})
        grown = None  # where loading the model took more than the text
        if above and above['precision'] == row['precision'] and ours['peak_mib'] > above['ours']['peak_mib']:
            grown = (ours['peak_mib'] - above['ours']['peak_mib']) * 1024 / (row['length'] - above['length'])
        above = row
        out.append([row['precision'], f"{row['length']:,}", number(ours['best_ms'], 1), number(peer.get('best_ms'), 1),
                    f"{peer['best_ms'] / ours['best_ms']:.1f}×" if 'best_ms' in peer else peer.get('failed', '–'),
                    number(ours['peak_mib'], 0), number(grown, 1), number(peer.get('peak_mib'), 0)])
    return table(['precision', 'tokens', 'ours ms', 'ONNX Runtime ms', 'ratio', 'ours peak MiB',
                  'KiB per token over the row above', 'ONNX Runtime peak MiB'], out)


def circumstances(run):
    box = run['machine']
    return (f"{run['date']}, commit {run['commit']}, {PEERS[run['peer']]}",
            f"load average {box['load_at_start']} at the start, {box.get('load_at_end', '?')} at the end")


def families_tables(result):
    """`earlier` are runs whose long texts were not measured again."""
    box = result['machine']
    rounds = f", {result['rounds']} rounds" if 'short' in result else ''
    what, load = circumstances(result)
    parts = [f"### {box['cpu']}, {box['cores']} cores, kernels `{box['isa']}`\n\n{what}{rounds}; {load}."]
    if 'short' in result:
        parts.append('128 tokens, every row of every layer, processor time of one thread, the least of all rounds:\n\n'
                     + short_table(result['short']))
    for run in (result, *result.get('earlier', [])):
        if 'long' in run:
            when = '' if run is result else ' ({}; {})'.format(*circumstances(run))
            threads = run['long'][0]['threads']
            parts.append(f'ModernBERT on long texts, {threads} threads, each figure by a process of its own{when}:\n\n'
                         + long_table(run['long']))
    return '\n\n'.join(parts)
