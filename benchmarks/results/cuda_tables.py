# SPDX-License-Identifier: Apache-2.0
"""The tables of a run of benchmarks/peers/cuda/measure.py, and of what benchmarks/peers/cuda/collect.py put beside it."""


def table(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '| ' + ' | '.join('---' for _ in header) + ' |']
    return '\n'.join(lines + ['| ' + ' | '.join(map(str, row)) + ' |' for row in rows])


def filled_table(header, rows):
    """Without the columns in which nothing was measured."""
    shown = [i for i in range(len(header)) if any(row[i] != '–' for row in rows)]
    return table([header[i] for i in shown], [[row[i] for i in shown] for row in rows])


def number(value, digits=2):
    return '–' if value is None else f'{value:,.{digits}f}'


def times(value):
    return '–' if value is None else f'{value:.2f}×'


def form_of(peer):
    return f"{peer['system']}, {peer['form']}" if peer else '–'


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

    def peer(self, **wanted):
        """The row of the fastest form of any peer; {} where the forms of torch.compile were not measured: such a run tells nothing."""
        rows = [row for row in self.rows if row.get('form') and 'ms' in row
                and all(row.get(name) == value for name, value in wanted.items())]
        compiled = any(row['system'] == 'torch.compile' for row in rows)
        return max(rows, key=lambda row: row['texts_per_second']) if compiled else {}

    def rate(self, **wanted):
        return self.of('texts_per_second', **wanted)


def sizes_table(figures):
    rows = []
    for family in ('bert', 'albert'):
        case = {'part': 'sizes', 'case': f'{family}-base'}
        for batch in sorted({row['batch'] for row in figures.rows if row.get('part') == 'sizes' and 'batch' in row}):
            ours, median, rate = (figures.of(key, **case, system='exeunt', batch=batch) for key in ('ms', 'median_ms', 'texts_per_second'))
            peer = figures.peer(**case, batch=batch)
            rows.append([f'{family}-base', batch, number(ours), number(median), number(rate, 0),
                         *(number(peer.get(key)) for key in ('ms', 'median_ms', 'back_to_back_ms')), times(over(peer.get('ms'), ours)),
                         form_of(peer)])
    return filled_table(['full depth', 'batch', 'best ms', 'median ms', 'texts/s at best', 'best peer, best ms', 'its median ms',
                         'without waiting for each, ms', 'ratio of best times', 'the peer'], rows)


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
        rows.append([f'{family}-base', number(loop), number(figures.ms(part='paper', case=f'{family}-base', exit_after=12)),
                     times(over(loop, alone))])
    return table(["the papers' loop", 'exit after 6, ms', 'after 12, ms', 'ours, one text'], rows)


def lengths_table(figures):
    rows = []
    for name, title in (('sst2', 'SST-2'), ('qnli', 'QNLI')):
        ours = figures.rate(part='lengths', case=name, system='exeunt')
        peer = figures.peer(part='lengths', case=name)
        theirs = peer.get('texts_per_second')
        rows.append([title, number(ours, 0), number(theirs, 0), times(over(ours, theirs)), form_of(peer)])
    return filled_table(['real lengths, full depth', 'ours texts/s', 'best peer texts/s', 'ratio', 'the peer'], rows)


def engine_ms(measured, **wanted):
    """A figure of benchmarks/micro/engine/cuda_engine.cc."""
    return Figures({'rows': measured}).of('milliseconds', **wanted)


def lone_table(measured):
    """One text in a lane, one right after another, and with an idle GPU before each."""
    lines = []
    for model in ('bert-base', 'albert-base'):
        for title, more in (('one after another', ''), ('apart', ', apart')):
            full, looked, early = (engine_ms(measured, model=model, precision='bf16', batch=1, exits=exits + more)
                                   for exits in ('full', 'looked', 'early'))
            if full is not None:
                lines.append([f'{model}, {title}', number(full, 3), number(looked, 3), number(early, 3),
                              number(over(early, full)), number(over(early, looked))])
    return table(['a lone text', 'full depth, ms', 'every exit evaluated, ms', 'exit after 6, ms', 'of full depth',
                  'of every exit evaluated'], lines)


def batches_table(measured):
    """Batches in a lane and backlogs through the engine; how long early exit takes, and how often as fast it is."""
    lines = []
    for model in ('bert-base', 'albert-base'):
        for batch in (32, 128, 512):
            full, early = (engine_ms(measured, model=model, precision='bf16', batch=batch, exits=exits)
                           for exits in ('full', 'early'))
            int8 = engine_ms(measured, model=model, precision='int8', batch=batch, exits='full')
            if full is not None:
                lines.append([f'{model}, {batch}', number(full), number(over(1e3 * batch, full), 0), number(early),
                              times(over(full, early)), number(int8), number(over(1e3 * batch, int8), 0)])
        for rows in sorted({row['rows'] for row in measured if 'rows' in row and row.get('model') == model}):
            full, early = (engine_ms(measured, model=model, rows=rows, exits=exits) for exits in ('full', 'early'))
            lines.append([f'{model}, a backlog of 4,096, {rows:,} rows a batch', number(full),
                          number(over(4096e3, full), 0), number(early), times(over(full, early)), '–', '–'])
    return table(['texts', 'full depth, ms', 'texts/s', '6 layers on average, ms', 'times as fast', 'int8, ms', 'texts/s'],
                 lines)


def mean_ms(run, of):
    """What the server says of a text, on average."""
    name = f'exeunt_{of}_seconds'
    return over(1e3 * run['server'][f'{name}_sum'], run['server'][f'{name}_count'])


def exits_of(run):
    if run['policy'] == 'full':
        return 'full depth'
    return 'not certified' if run['promise'].startswith('none') else 'certified'


def serve_table(runs):
    def place(run):
        return run['precision'], run['batch'] * run['clients'], run['batch']
    full = {place(run): run['texts_per_second'] for run in runs if run['policy'] == 'full'}
    lines = []
    for run in sorted(runs, key=place):
        rate = run['texts_per_second']
        lines.append([f"{run['clients']} clients, {run['batch']} texts a request", run['precision'], exits_of(run),
                      number(rate, 0), times(over(rate, full.get(place(run)))), number(run['p50_ms'], 1), number(run['p99_ms'], 1),
                      number(mean_ms(run, 'queue_wait'), 1), number(mean_ms(run, 'tokenization_duration'), 3),
                      number(mean_ms(run, 'inference_duration'), 1), number(run['network_thread'])])
    return table(['over HTTP', 'precision', 'exits', 'texts/s', 'over full depth', 'p50 of a request, ms', 'p99, ms',
                  'queue, ms', 'tokenization, ms', 'inference, ms', 'network thread'], lines)


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
    if 'engine' in result:
        parts += ['Without the command around it (`benchmarks/micro/engine/cuda_engine.cc`):', lone_table(result['engine']),
                  batches_table(result['engine'])]
    if 'serve' in result:
        parts += [result['serve']['note'], serve_table(result['serve']['runs'])]
    if failed:
        parts.append('Not measured: ' + '; '.join(
            ', '.join([row['case'], row['system'], *([row['form']] if 'form' in row else []),
                       *([f"batch {row['batch']}"] if 'batch' in row else [])]) + f" ({row['error']})"
            for row in failed) + '.')
    return '\n\n'.join(parts)


def cuda_summary(result):
    """A few rows of each kind: BERT-base, and the server with the most texts at once."""
    figures, rows = Figures(result), []
    for batch in (1, 128):
        case = {'part': 'sizes', 'case': 'bert-base', 'batch': batch}
        ours, theirs = figures.rate(**case, system='exeunt'), figures.peer(**case).get('texts_per_second')
        rows.append([f'full depth, batches of {batch}, best time', number(ours, 0), number(theirs, 0), times(over(ours, theirs))])
    ours = figures.rate(part='exits', system='exeunt', case='bert-base, backlog, 6 layers on average')
    rows.append(['a backlog, 6 of 12 layers on average, best time', number(ours, 0), '–', '–'])
    ours = figures.rate(part='lengths', case='sst2', system='exeunt')
    theirs = figures.peer(part='lengths', case='sst2').get('texts_per_second')
    rows.append(["a backlog of SST-2's lengths, full depth, best time", number(ours, 0), number(theirs, 0), times(over(ours, theirs))])
    for run in result.get('serve', {}).get('runs', []):
        if (run['batch'], run['clients'], run['precision']) == (512, 8, 'bf16'):
            rows.append([f'gte-small over HTTP, {exits_of(run)}', number(run['texts_per_second'], 0), '–', '–'])
    return filled_table([result['machine']['gpu'], 'texts/s', 'best peer texts/s', 'ratio'], rows)
