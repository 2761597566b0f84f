# SPDX-License-Identifier: Apache-2.0
"""The tables of a run of benchmarks/peers/cuda/measure.py."""


def table(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '| ' + ' | '.join('---' for _ in header) + ' |']
    return '\n'.join(lines + ['| ' + ' | '.join(map(str, row)) + ' |' for row in rows])


def number(value, digits=2):
    return '–' if value is None else f'{value:,.{digits}f}'


def times(value):
    return '–' if value is None else f'{value:.2f}×'


def over(a, b):
    return a / b if a is not None and b else None


class Figures:
    def __init__(self, result):
        self.rows = result['rows']

    def of(self, key, **wanted):
        """The figure of the first row with these values; None if there is none, or it failed."""
        for row in self.rows:
            if all(row.get(name) == value for name, value in wanted.items()):
                return row.get(key)
        return None

    def ms(self, **wanted):
        return self.of('ms', **wanted)

    def rate(self, **wanted):
        return self.of('texts_per_second', **wanted)


def sizes_table(figures):
    rows = []
    for family in ('bert', 'albert'):
        case = {'part': 'sizes', 'case': f'{family}-base'}
        for batch in sorted({row['batch'] for row in figures.rows if row.get('part') == 'sizes' and 'batch' in row}):
            ours = figures.ms(**case, system='exeunt', batch=batch)
            compiled = figures.ms(**case, system='torch.compile', batch=batch)
            theirs = [figures.ms(**case, system=system, batch=batch) for system in ('transformers', 'PyTorch')]
            rows.append([f'{family}-base', batch, number(ours), number(figures.rate(**case, system='exeunt', batch=batch), 0),
                         number(compiled), times(over(compiled, ours)), *map(number, theirs)])
    return table(['full depth', 'batch', 'ours ms', 'texts/s', 'torch.compile ms', 'ratio', 'transformers ms', 'PyTorch ms'], rows)


def exits_table(figures):
    rows = []
    for family in ('bert', 'albert'):
        def ms(case, family=family):
            return figures.ms(part='exits', system='exeunt', case=f'{family}-base, {case}')
        full, looked, early = ms('full depth'), ms('every exit evaluated'), ms('exit after 6')
        rows.append([f'{family}-base, a lone text, exit after 6 of 12', number(early), number(over(early, full)),
                     number(over(early, looked))])
        full, looked, early = (ms(f'backlog, {case}') for case in ('full depth', 'every exit evaluated', '6 layers on average'))
        rows.append([f'{family}-base, a backlog, 6 layers on average', number(early), number(over(early, full)),
                     number(over(early, looked))])
    return table(['early exit', 'ms', 'of full depth', 'of full depth with every exit evaluated'], rows)


def paper_table(figures):
    rows = []
    for family in ('bert', 'albert'):
        loop = figures.ms(part='paper', case=f'{family}-base', exit_after=6)
        alone = figures.ms(part='exits', system='exeunt', case=f'{family}-base, exit after 6')
        rate = figures.rate(part='exits', system='exeunt', case=f'{family}-base, backlog, 6 layers on average')
        rows.append([f'{family}-base', number(loop), number(figures.ms(part='paper', case=f'{family}-base', exit_after=12)),
                     times(over(loop, alone)), times(over(rate, over(1e3, loop)))])
    return table(["the papers' loop", 'exit after 6, ms', 'after 12, ms', 'ours, one text', 'ours, in batches'], rows)


def lengths_table(figures):
    rows = []
    for name, title in (('sst2', 'SST-2'), ('qnli', 'QNLI')):
        ours = figures.rate(part='lengths', case=name, system='exeunt')
        padded = figures.rate(part='lengths', case=name, system='torch.compile, padded to 128')
        buckets = figures.rate(part='lengths', case=name, system='torch.compile, sorted, next multiple of 16')
        rows.append([title, number(ours, 0), number(padded, 0), times(over(ours, padded)), number(buckets, 0),
                     times(over(ours, buckets))])
    return table(['real lengths, full depth', 'ours texts/s', 'torch.compile padded to 128', 'ratio', 'sorted by length', 'ratio'],
                 rows)


def cuda_tables(result):
    machine, figures = result['machine'], Figures(result)
    failed = [row for row in result['rows'] if 'error' in row]
    parts = [f"### {machine['gpu']}, {result['precision']}, length {result['tokens']}\n\n{result['date']}, exeunt "
             f"{machine['exeunt']}, driver {machine.get('driver', '?')}, PyTorch {machine.get('torch', '–')}, transformers "
             f"{machine.get('transformers', '–')}."]
    if 'note' in result:
        parts.append(result['note'])
    known = {row.get('part') for row in result['rows']}
    for part, make in (('sizes', sizes_table), ('exits', exits_table), ('paper', paper_table), ('lengths', lengths_table)):
        if part in known:
            parts.append(make(figures))
    if failed:
        parts.append('Not measured: ' + '; '.join(
            f"{row['case']}, {row['system']}{', batch ' + str(row['batch']) if 'batch' in row else ''} ({row['error']})"
            for row in failed) + '.')
    return '\n\n'.join(parts)
