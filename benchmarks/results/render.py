# SPDX-License-Identifier: Apache-2.0
"""Tables from the figures in benchmarks/results.

    render.py FILE.json          the tables of one run
    render.py --docs             writes those of every run into lab/notebooks/performance.md, and a few rows of them into
                                 docs/performance.md
    render.py --check            fails if these pages do not hold them
"""
import json
import sys
from pathlib import Path

from cuda_tables import cuda_summary, cuda_tables
from families_tables import families_tables
from packs_tables import packs_tables

ROOT = Path(__file__).resolve().parents[2]
DOCS, NOTEBOOK = ROOT / 'docs/performance.md', ROOT / 'lab/notebooks/performance.md'
BEGIN, END = '<!-- tables: made by benchmarks/results/render.py -->', '<!-- end of tables -->'
FAMILIES_BEGIN, FAMILIES_END = '<!-- family tables: made by benchmarks/results/render.py -->', '<!-- end of family tables -->'
PACKS_BEGIN, PACKS_END = '<!-- pack tables: made by benchmarks/results/render.py -->', '<!-- end of pack tables -->'
SUMMARY_BEGIN, SUMMARY_END = '<!-- summary: made by benchmarks/results/render.py -->', '<!-- end of summary -->'
CUDA_SUMMARY_BEGIN, CUDA_SUMMARY_END = '<!-- GPU summary: made by benchmarks/results/render.py -->', '<!-- end of GPU summary -->'
CUDA_BEGIN, CUDA_END = '<!-- GPU tables: made by benchmarks/results/render.py -->', '<!-- end of GPU tables -->'


def table(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '| ' + ' | '.join('---' for _ in header) + ' |']
    return '\n'.join(lines + ['| ' + ' | '.join(map(str, row)) + ' |' for row in rows])


def ms(row, key='best_ms'):
    return f'{row[key]:.2f}' if row and key in row else '–'


def ratio(theirs, ours, key='best_ms'):
    return f'{theirs[key] / ours[key]:.2f}×' if theirs and key in theirs and key in ours else '–'


def encoder_table(rows):
    torch = any('torch' in row for row in rows)
    header = ['precision', 'threads', 'length', 'ours ms', 'ONNX Runtime ms', 'ratio', 'ours CPU ms', 'ONNX Runtime CPU ms',
              'ratio', '% of peak']
    if torch:
        header += ['PyTorch ms', 'ratio']
    out = []
    for row in rows:
        ours, ort = row['ours'], row.get('onnxruntime')
        share = ours.get('peak_share')
        if share and row['threads'] == 1 and 'cpu_ms' in ours:  # relative to the CPU time it actually got
            share *= ours['best_ms'] / ours['cpu_ms']
        cells = [row['precision'], row['threads'], row['length'], ms(ours), ms(ort), ratio(ort, ours), ms(ours, 'cpu_ms'),
                 ms(ort, 'cpu_ms'), ratio(ort, ours, 'cpu_ms'), f'{100 * share:.0f}' if share else '–']
        if torch:
            cells += [ms(row.get('torch')), ratio(row.get('torch'), ours)]
        out.append(cells)
    return table(header, out)


def exits_tables(exits, layers):
    rows = []
    for row in exits['leave_at']:
        k = row['layer']
        bound = (k - 0.75) / (layers - 0.75) if row['heads'] == 'every' else k / layers
        heads = 'row 0' if row['heads'] == 'every' else 'reader'
        rows.append([row['precision'], heads, k, f"{row['best_ms']:.2f}", f"{row['of_full']:.3f}", f'{bound:.3f}',
                     f"{row['of_full'] / bound:.2f}"])
    unused = [[row['precision'], row['length'], f"{row['one_exit_ms']:.2f}", f"{row['all_exits_ms']:.2f}",
               f"{100 * (row['all_exits_ms'] / row['one_exit_ms'] - 1):+.1f} %"] for row in exits['unused']]
    return (table(['precision', 'exits read', 'exit after', 'ms', 'of full depth', 'ideal', 'vs. ideal'], rows) +
            '\n\nOverhead of exits that are evaluated but never taken:\n\n' +
            table(['precision', 'length', 'one exit ms', f'{layers} exits ms', 'overhead'], unused))


def text_table(text):
    cell = lambda row, key: f'{row[key]:.2f}' if key in row else '–'
    rows = [[row['precision']] + [cell(row, key) for key in ('ours_unpadded_ms', 'ours_padded_ms', 'ort_unpadded_ms',
                                                            'ort_padded_ms')] for row in text['rows']]
    return table(['precision', 'ours ms', 'ours padded to 128', 'ONNX Runtime ms', 'padded to 128'], rows)


def tables(result):
    machine = result['machine']
    clock = ', processor time' if result.get('busy') else ''
    parts = [f"### {machine['cpu']}, {machine['cores']} cores, {result['shape']}\n\n{result['date']}, commit "
             f"{result['commit']}, kernels `{machine['isa']}`, {result['peer']}; load average "
             f"{machine['load_at_start']} at the start, {machine.get('load_at_end', '?')} at the end"
             + (f" ({machine['note']})" if 'note' in machine else '') + '.']
    if 'encoder' in result:
        parts.append('One text at a time, full depth, best time of all rounds:\n\n' + encoder_table(result['encoder']))
    if 'whole' in result:
        parts.append(f'Every row of every layer (CLS first off), length 128, one thread{clock}:\n\n' + table(
            ['precision', 'ms', 'Gop/s', '% of register peak'],
            [[row['precision'], f"{row['best_ms']:.2f}", f"{row['gops']:.0f}",
              f"{100 * row['peak_share']:.0f}" if row['peak_share'] else '–'] for row in result['whole']]))
    if 'exits' in result:
        parts.append(f'Early exit, length 128, one thread{clock}:\n\n' + exits_tables(result['exits'], 24 if 'large' in result['shape'] else 12))
    if 'crowded' in result:
        crowd = result['crowded']
        parts.append('More threads than cores, length 128, ' + crowd['precision'] + ': ' +
                     ', '.join(f'{t} threads {value:.2f} ms' for t, value in crowd['threads'].items()) + '.')
    if 'load' in result:
        parts.append('Resident memory with the model loaded, and time from process start to the first answer:\n\n' + table(
            ['precision', 'packed weights MiB', 'resident MiB', 'peak MiB', 'first answer ms'],
            [[row['precision'], *(f'{row[key]:.0f}' for key in ('packed_mib', 'resident_mib', 'peak_mib', 'first_answer_ms'))]
             for row in result['load']]))
    if 'text' in result:
        text = result['text']
        parts.append(f"Texts with the lengths of SST-2's dev split ({text['texts']} texts, {text['tokens']:.1f} tokens on average), "
                     'gte-small shape, one thread, mean per text' + (
                         f"; ONNX Runtime over the first {text['peer_texts']} of them" if 'peer_texts' in text else '') +
                     ':\n\n' + text_table(text))
    return '\n\n'.join(parts)


def summary(results):
    """A row for each machine and precision: 128 tokens, one thread."""
    rows = []
    for result in results:
        for row in result['encoder']:
            if row['threads'] != 1 or row['length'] != 128:
                continue
            same = [one for one in result['exits']['leave_at'] if one['precision'] == row['precision'] and one['heads'] == 'every']
            half = next((f"{one['best_ms']:.1f}" for one in same if one['layer'] == 6), '–')
            memory = next((f"{one['resident_mib']:.0f}" for one in result.get('load', []) if one['precision'] == row['precision']), '–')
            ort = row.get('onnxruntime')
            rows.append([f"{result['machine']['cpu']}, `{result['machine']['isa']}`", row['precision'], f"{row['ours']['best_ms']:.1f}",
                         f"{ort['best_ms']:.1f}" if ort else '–', ratio(ort, row['ours']), half, memory])
    return table(['machine', 'precision', 'ms', 'ONNX Runtime ms', 'ratio', 'exit after 6 of 12, ms', 'memory, MiB'], rows)


def newest(folder, key):
    """The last run of each machine, by the names of the files, which begin with a date."""
    found = {}
    for path in sorted((ROOT / 'benchmarks/results' / folder).glob('*.json')):
        result = json.loads(path.read_text(encoding='utf-8'))
        found[key(result)] = result
    return found.values()


def filled():
    """Every page with its tables between the marks: {path: text}."""
    runs = newest('', lambda one: (one['machine']['cpu'], one['shape']))
    page = between(DOCS.read_text(encoding='utf-8'), SUMMARY_BEGIN, SUMMARY_END, summary(runs))
    notes = between(NOTEBOOK.read_text(encoding='utf-8'), BEGIN, END, '\n\n'.join(map(tables, runs)))
    runs = newest('cuda', lambda one: one['machine']['gpu'])
    page = between(page, CUDA_SUMMARY_BEGIN, CUDA_SUMMARY_END, '\n\n'.join(map(cuda_summary, runs)))
    notes = between(notes, CUDA_BEGIN, CUDA_END, '\n\n'.join(map(cuda_tables, runs)))
    runs = newest('families', lambda one: (one['machine']['cpu'], one['machine']['isa']))
    notes = between(notes, FAMILIES_BEGIN, FAMILIES_END, '\n\n'.join(map(families_tables, runs)))
    packs = [json.loads(path.read_text(encoding='utf-8')) for path in sorted((ROOT / 'benchmarks/results/packs').glob('*.json'))]
    return {DOCS: page, NOTEBOOK: between(notes, PACKS_BEGIN, PACKS_END, packs_tables(packs))}


def between(page, begin, end, text):
    before, rest = page.split(begin)
    return before + begin + '\n' + text + '\n' + end + rest.split(end)[1]


def main():
    if sys.argv[1:] == ['--docs']:
        for page, text in filled().items():
            page.write_text(text, encoding='utf-8')
    elif sys.argv[1:] == ['--check']:
        for page, text in filled().items():
            if text != page.read_text(encoding='utf-8'):
                sys.exit(f'{page.relative_to(ROOT)} does not hold the figures of benchmarks/results: run benchmarks/results/render.py --docs')
    elif len(sys.argv) == 2:
        result = json.loads(Path(sys.argv[1]).read_text(encoding='utf-8'))
        kinds = {'exeunt.cuda_bench/1': cuda_tables, 'exeunt.families/1': families_tables}
        print(kinds.get(result.get('format'), tables)(result))
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
