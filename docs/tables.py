#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The tables of docs/memory-order.md and docs/models.md, from src/, tests/tree/mutants.tab and tests/model.

usage: tables.py            writes the tables
       tables.py --check    writes nothing; names each page with an outdated table, and then exits with 1

A comment `[park.S1] full barrier: ...; pairs with [queue.E1]` describes an ordering.  A row of mutants.tab
removes the orderings whose labels begin its name: `park.S1 ...`, `park.S2, S3 ...`.  A model's first comment
has three parts: `Model of X: ...`; `Asserted: ...`, of which the table has the first sentence; and last,
`Broken variants:`, with `BREAK_X: what is broken.` for each variant and, after one variant or several of them,
`Found: what spin finds in these.`
"""
import glob
import os
import re
import sys

from figures import TOP, put

COMMENT = re.compile(r'^([ \t]*)/\*(?:(?:(?!\*/).)*?\n[ \t]*\*)? \[([a-z_]+\.[A-Z]\d)\] (.*?)\*/', re.M | re.S)
FUNCTION = re.compile(r'^[a-z][^;{}()]*?(\w+)\([^;{}]*\)\n\{|^#define (\w+)\(', re.M)
ROW = re.compile(r'^(?:each time: )?([a-z_]+)\.([A-Z]\d(?:, [A-Z]\d)*) (.*)\t(.*)\t(.*)$', re.M)


def sources(pattern):
    """Yields (name, text) of the files below TOP."""
    for path in sorted(glob.glob(os.path.join(TOP, pattern))):
        with open(path, encoding='utf-8') as file:
            yield os.path.relpath(path, TOP), file.read()


def joined(comment):
    """Returns the text of a comment in one line."""
    return re.sub(r'(\n[ \t*]*| )+', ' ', comment).strip()


def code(words):
    return ', '.join(f'`{word}`' for word in words)


def short(labels):
    """Returns `park.S1`, `S2` for labels of one prefix."""
    return code(label.split('.')[1] if i and label.split('.')[0] == labels[i - 1].split('.')[0] else label
                for i, label in enumerate(labels))


def orderings():
    """Returns {label: (order, [(file, function)], labels that it pairs with)}."""
    found = {}
    for name, text in sources('src/*/*.[ch]'):
        functions = [(f.start(), f[1] or f[2]) for f in FUNCTION.finditer(text)]
        for comment in COMMENT.finditer(text):
            indent, label, said = comment[1], comment[2], joined(comment[3])
            # A comment is in its function, or above it.
            after = [f for at, f in functions if at > comment.start()]
            function = functions[-len(after) - 1][1] if indent else after[0]
            both = 'release:' in said and 'acquire:' in said
            _, places, pairs = found.setdefault(
                label, ('acq_rel' if both else re.match('[^:(;]*', said)[0].strip(), [], set()))
            places.append((name.removeprefix('src/'), function))
            for named in re.findall(r'pairs with ((?:\[.*?\]|[^.;])*)', said):
                pairs.update(re.findall(r'\[(.*?)\]', named))
    for label, (_, _, pairs) in found.items():
        pairs &= set(found)
        for other in pairs:
            found[other][2].add(label)
    return found


def mutants():
    """Returns {label: [what a row of mutants.tab says]}."""
    found = {}
    for _, text in sources('tests/tree/mutants.tab'):
        for prefix, labels, change, how, catchers in ROW.findall(text):
            change = '' if how == 'relax' or change == 'relaxed' else \
                f'{labels} together: ' if change == 'together' else change + ': '
            by = code(c.removeprefix('plain:') for c in catchers.split())
            if catchers.startswith('none '):
                by = f'none ({catchers[5:]})' if change else f'none: {catchers[5:]}'
            for label in labels.split(', '):
                found.setdefault(f'{prefix}.{label}', []).append(change + by)
    return found


def group_of(label, found):
    """Returns this label and all that pairs connect it with; only this label if these are more than four."""
    group = more = {label}
    while more:
        more = set().union(*(found[one][2] for one in group)) - group
        group = group | more
    return sorted(group) if len(group) <= 4 else [label]


def memory_order():
    """Yields the rows of the orderings."""
    found, caught, done = orderings(), mutants(), set()
    yield '| label | place | order | pairs with | without it |\n|---|---|---|---|---|'
    for label, (order, _, pairs) in found.items():
        group, places, said = group_of(label, found), {}, {}
        if label in done:
            continue
        done.update(group)
        for one in group:
            for file, function in found[one][1]:
                places.setdefault(file, {})[function] = True
            for what in caught.get(one, ()):
                said.setdefault(what, []).append(one.removeprefix(group[0].split('.')[0] + '.'))
        said = [what if len(ones) == len(group) or ' together: ' in what else f'{code(ones)} {what}'
                for what, ones in said.items()]
        orders = [found[one][0] for one in group]
        yield f'| {short(group)} ' \
            f'| {"; ".join(f"`{file}`: {code(functions)}" for file, functions in places.items())} ' \
            f'| {order if len(set(orders)) == 1 else ", ".join(orders)} ' \
            f'| {"each other" if len(group) > 1 else short(sorted(pairs - {label})) or "itself" * bool(pairs)} ' \
            f'| {"; ".join(sorted(said, key=lambda what: ": `" in what))} |'


def models(variants):
    """Yields the rows of the models, or of their broken variants."""
    yield '| model | broken: *found* |\n|---|---|' if variants else '| model | of | proves |\n|---|---|---|'
    for name, text in sources('tests/model/*.pml'):
        model = os.path.basename(name)
        of, proves, broken = re.search(r'Model of ([^:.]*).* Asserted: (.*?)\. .*?Broken variants: (.*)',
                                       joined(re.search(r'/\*\n(.*?)\*/', text, re.S)[1])).groups()
        has = re.findall(r'^#(?:ifn?def|elif) (BREAK_\w+)', text, re.M)
        wrong = set(has) ^ set(re.findall(r'(BREAK_\w+):', broken))
        if wrong:
            sys.exit(f'{name} describes other variants than it has: {" ".join(sorted(wrong))}')
        broken = re.sub(r'\. Found: (.*?)\.(?: (?=BREAK_)|$)', r': *\1*<br>', broken).removesuffix('<br>')
        broken = re.sub(r'BREAK_(\w+):', r'`\1`', broken.replace('. BREAK_', '; BREAK_'))
        yield f'| {model.removesuffix(".pml")} | {broken} |' if variants else f'| `{model}` | {of} | {proves} |'


def main(arguments):
    return any([put(page, f'<!-- {what}: made by docs/tables.py -->', '\n'.join(rows), f'<!-- end of the {what} -->',
                    arguments == ['--check']) for page, what, rows in [
                        ('docs/memory-order.md', 'orderings', memory_order()),
                        ('docs/models.md', 'models', models(False)), ('docs/models.md', 'variants', models(True))]])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
