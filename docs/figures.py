#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The figures of README.md and docs/measurements.md, from what the benches measured.

usage: figures.py               writes the tables from docs/figures.json
       figures.py FILE ...      first takes the lines of these files, which `make bench BENCH=--json=FILE`
                                and `make bench-gpu BENCH=--json=FILE` wrote, into docs/figures.json
       figures.py --check       writes nothing; names each page with an outdated table, and then exits with 1

docs/figures.json has one entry for each line of a bench, with the medians of what it compares (SIDES), and
one for each run, with its commit, date and machine.  A later run replaces the lines that it measured.
"""
import json
import os
import subprocess
import sys
import time

TOP = os.environ.get('FIGURES_TOP') or os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
JSON = os.path.join(TOP, 'docs', 'figures.json')
BEGIN, END = '<!-- figures: made by `make figures` -->', '<!-- end of the figures -->'
SIDES = ('hand', 'peer', 'ceiling', 'runnel')

# What the tables show: a description, the device, and the lines of the bench.  A `*` stands for each of the
# values in turn: the bench has a line for each value.  README.md has the rows that are marked.
ROWS = [
    # (README, description, device, the line of the bench, values)
    (1, 'J per second, per-thread streams, 1 / 4 / 8 / 16 workers', 'gpu', 'J per second, *, per-thread',
     (1, 4, 8, 16)),
    (1, 'J per second, private streams, 1 / 4 / 8 / 16', 'gpu', 'J per second, *, private', (1, 4, 8, 16)),
    (1, 'J gathered, private streams, 1 / 4 / 8 / 16', 'gpu', 'J of 4 KB, gathered, *, private', (1, 4, 8, 16)),
    (0, 'J of 256 KB, gathered, private streams, 1 / 4 / 8 / 16', 'gpu', 'J of 256 KB, gathered, *, private',
     (1, 4, 8, 16)),
    (0, 'J replayed, private streams, 1 / 4 / 8 / 16', 'gpu', 'J of 4 KB, replayed, *, private',
     (1, 4, 8, 16)),
    (0, 'jobs of 30 kernels, replayed, per-thread streams, 1 / 4 / 8 / 16', 'gpu',
     'jobs of 30 kernels, replayed, *, per-thread', (1, 4, 8, 16)),
    (0, 'requests of 4 KB through a batcher, 4 / 8 producers of 128', 'gpu', 'requests of 4 KB, * producers', (4, 8)),
    (1, 'requests of 4 KB through a batcher, 4 / 8 producers of 512', 'gpu', 'requests of 4 KB, * producers of 512',
     (4, 8)),
    (1, 'a lone request of 64 B / 1 KB / 4 KB, 5 us after the last, p50', 'gpu', 'a lone request, p50; *, 5 us apart',
     ('64 B', '1 KB', '4 KB')),
    (1, 'the same, p99', 'gpu', 'a lone request, p99; *, 5 us apart', ('64 B', '1 KB', '4 KB')),
    (0, 'the same, 100 us after the last, p50', 'gpu', 'a lone request, p50; *, 100 us apart', ('64 B', '1 KB', '4 KB')),
    (0, 'the same, 1 ms after the last, p50', 'gpu', 'a lone request, p50; *, 1 ms apart', ('64 B', '1 KB', '4 KB')),
    (0, 'items of 4 + 3 + 1 jobs', 'gpu', 'items of 4 + 3 + 1 jobs, fanned out', ()),
    (0, 'chains / fans / a stencil by one worker, each kernel', 'gpu', '*, each kernel',
     ('chains of 8', 'fans of 1 + 6 + 1', 'a stencil of 8 x 8')),
    (1, 'J, one by one, submit to return, per-thread streams, p50 / p99', 'gpu', 'J, one by one, *, per-thread',
     ('p50', 'p99')),
    (0, 'J, one by one, submit to return, private streams, p50 / p99', 'gpu', 'J, one by one, *, private',
     ('p50', 'p99')),
    (1, 'J, 1 ms after the last, per-thread streams, p50 / p99', 'gpu', 'J, 1 ms later, *, per-thread', ('p50', 'p99')),
    (0, 'J, 1 ms after the last, private streams, p50 / p99', 'gpu', 'J, 1 ms later, *, private', ('p50', 'p99')),
    (1, 'an urgent kernel of 10 us under a flood, per-thread / private streams, p50', 'gpu',
     'urgent 10 us under a flood, p50, *', ('per-thread', 'private')),
    (1, 'join of 16 workers, its caller', 'gpu', 'join of 16 workers: what it costs its caller', ()),
    (0, '16 stages of 0.2 ms on two streams', 'gpu', '16 stages of 0.2 ms on two streams', ()),
    (1, '96 chunks of 8 MB in, kernel, out, 4 workers', 'gpu', 'chunks in, kernel, out; 4 workers', ()),
    (0, 'an empty job, 1 worker, 1 / 2 / 4 producers; the best other pool', 'host', 'an empty job, 1 x *', (1, 2, 4)),
    (0, 'an empty job, 2 workers, 1 / 2 / 4 producers', 'host', 'an empty job, 2 x *', (1, 2, 4)),
    (0, 'an empty job, 4 workers, 1 / 2 / 4 producers', 'host', 'an empty job, 4 x *', (1, 2, 4)),
]


def take(figures, paths):
    """Takes the lines of a bench's files into the figures."""
    commit = subprocess.run(['git', '-C', TOP, 'describe', '--always', '--dirty'], capture_output=True, text=True,
                            check=True).stdout.strip()
    for path in paths:
        with open(path, encoding='utf-8') as file:
            bench = json.load(file)
        device = 'host' if bench['device_name'] == 'host' else 'gpu'
        figures['runs'].append({
            'commit': os.environ.get('COMMIT') or commit,
            'date': bench.get('date') or time.strftime('%Y-%m-%d', time.gmtime(os.path.getmtime(path))),
            'device': bench['device'], 'cpus': bench['machine']['cpus'], 'runs': bench['runs']})
        for line in bench['lines']:
            if line['what'].startswith('the same'):
                continue        # several rows have a line of this name, so it is no key
            key = f'{device}: {line["what"]}'
            entry = {'unit': line['unit'], 'run': len(figures['runs']) - 1,
                     'target': line.get('target'), 'met': line.get('met')}
            entry.update({s: line[s]['median'] for s in SIDES if s in line})
            if 'ceiling' in line:
                entry['limit'] = line['ceiling']['variant']
            figures['lines'][key] = entry
    # Drops the runs of which no line is left.
    used = sorted({line['run'] for line in figures['lines'].values()})
    figures['runs'] = [figures['runs'][i] for i in used]
    for line in figures['lines'].values():
        line['run'] = used.index(line['run'])


def number(x):
    """Returns a figure with three digits, or as an integer; '-' if there is no figure."""
    if x is None:
        return '-'
    return f'{x:.0f}' if abs(x) >= 100 else f'{x:.1f}' if abs(x) >= 10 else f'{x:.2f}'


def row(figures, entry):
    """The columns of an entry of ROWS, by name; None: not measured.  The ratio is how many times better runnel is."""
    _, text, device, pattern, values = entry
    names = [pattern.replace('*', str(v)) for v in values] or [pattern]
    lines = [figures['lines'].get(f'{device}: {name}') for name in names]
    if None in lines:
        return None
    unit = lines[0]['unit'].replace('kJ/s', 'k/s')
    scale = 1
    if unit == 'k/s' and max(x['runnel'] for x in lines) >= 1000:
        scale, unit = 1e-3, 'M/s'

    def side(*sides):
        best = [next((x[s] for s in sides if s in x), None) for x in lines]
        return ' / '.join(number(None if x is None else x * scale) for x in best) if any(best) else ''
    ratios = [x['runnel'] / by if x['unit'].endswith('/s') else by / x['runnel']
              for x in lines if (by := x.get('hand', x.get('peer')))]
    missed = sum(not x['met'] for x in lines)
    limit = f' ({lines[0]["limit"]})' if 'limit' in lines[0] else ''
    return {'text': f'{text}, {unit}', 'hand': side('hand', 'peer'), 'ceiling': side('ceiling') + limit,
            'runnel': side('runnel'), 'ratio': ' / '.join(map(number, ratios)), 'target': side('target'), 'run': lines[0]['run'],
            'met': 'yes' if not missed else '**no**' if missed == len(lines) else f'**{missed} of {len(lines)} not**'}


def said(figures, rows):
    """Names the runs that measured the rows."""
    out = []
    for i in sorted({r['run'] for r in rows}):
        run = figures['runs'][i]
        where = run['device'] if run['device'] != 'host' else 'no GPU'
        out.append(f'{where}, {run["cpus"]} CPUs, commit {run["commit"]}, {run["date"]}, medians of {run["runs"]}')
    return '; '.join(out)


def tables(figures):
    """{file: the text between its marks}"""
    rows = [(entry[0], row(figures, entry)) for entry in ROWS]
    short = [r for shown, r in rows if shown and r]
    full = [r for _, r in rows if r]
    return {
        'README.md': '\n'.join([
            f'`make bench-gpu`: {said(figures, short)}. J is 4 KB to the device,',
            'a kernel, 4 KB back. By hand: the best of what an expert writes for that work, in the same run. Ratio: how',
            'many times better runnel is.', '',
            '| | by hand | runnel | ratio | a limit |', '|---|---|---|---|---|',
            *(f'| {r["text"]} | {r["hand"]} | {r["runnel"]} | {r["ratio"]} | {r["ceiling"]} |' for r in short)]),
        'docs/measurements.md': '\n'.join([
            f'{said(figures, full)}.', '',
            '| `make bench-gpu`, `make bench` | by hand, or the best peer | runnel | ratio | a limit | asked | met |',
            '|---|---|---|---|---|---|---|',
            *(f'| {r["text"]} | {r["hand"]} | {r["runnel"]} | {r["ratio"]} | {r["ceiling"]} | {r["target"]} | {r["met"]} |'
              for r in full)]),
    }


def put(name, begin, table, end, check):
    """Puts a table between its marks in a page; or says that it differs, and returns True."""
    path = os.path.join(TOP, name)
    with open(path, encoding='utf-8') as file:
        text = file.read()
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f'{name} does not have the marks once: {begin}')
    new = f'{text[:text.index(begin) + len(begin)]}\n{table}\n{text[text.index(end):]}'
    if new != text and not check:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(new)
    elif new != text:
        print(f'{name} is out of date: {begin}')
    return new != text and check


def main(arguments):
    """What the usage says."""
    figures = {'runs': [], 'lines': {}}
    if os.path.exists(JSON):
        with open(JSON, encoding='utf-8') as file:
            figures = json.load(file)
    check = arguments == ['--check']
    if arguments and not check:
        take(figures, arguments)
        with open(JSON, 'w', encoding='utf-8') as file:
            # One line for each line of a bench: a diff shows what has changed.
            runs = ',\n'.join('  ' + json.dumps(run) for run in figures['runs'])
            lines = ',\n'.join(f'  {json.dumps(key)}: {json.dumps(line)}' for key, line in sorted(figures['lines'].items()))
            file.write('{"licence": "SPDX-License-Identifier: MIT",\n'
                       f'"runs": [\n{runs}],\n"lines": {{\n{lines}}}}}\n')
    wrong = [put(name, BEGIN, table, END, check) for name, table in tables(figures).items()]
    return any(wrong)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
