#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Assembles the data set in this folder, and checks what its README says.

    examples/feedback/dataset.py check                              the promises, and figures about the texts
    examples/feedback/dataset.py assemble OUT a.tsv b.tsv ...       three splits from label<TAB>kind<TAB>text lines

The splits depend on the texts alone, not on their order. Python's own library is enough.
"""
import argparse
import collections
import csv
import hashlib
import itertools
import math
import pathlib
import re
import sys

LABELS = ("complaint", "notice", "praise", "question", "suggestion")
KINDS = ("easy", "hard")
CERTIFY, DEV = 100, 30  # rows of each label and kind; the rest is for training
WORD_LIMITS = 4, 30
# Two texts are near duplicates if they share this fraction of their words, or of their character 4-grams.
NEAR = 0.5
# Function words; the others are content words.
COMMON = frozenset("""
    a an the and or but nor so if then than as of to in on at by for with from into onto over under up down out off about
    after before between through during without within is are was were be been being am do does did done have has had having
    will would shall should can could may might must i me my mine myself we us our ours you your yours he him his she her hers
    it its they them their theirs this that these those there here who whom which what when where why how all any both each
    few more most other some such no not only own same too very just also even ever never again once one
    i'm i've i'd i'll it's that's there's you're you've we're we've they're he's she's don't doesn't didn't isn't aren't
    wasn't weren't can't couldn't won't wouldn't let's what's""".split())
Row = collections.namedtuple("Row", "text label kind")


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def runs_of_letters(text):
    plain = " ".join(words(text))
    return {plain[i : i + 4] for i in range(len(plain) - 3)}


def word_set(text):
    return set(words(text))


def content_words(text):
    return word_set(text) - COMMON


def near_pairs(rows, ways=(word_set, runs_of_letters)):
    """Pairs (i, j), i < j, with a fraction NEAR in common. Sets with a large overlap share one of their rarest members."""
    found = set()
    for way in ways:
        features = [way(row.text) for row in rows]
        count = collections.Counter(member for members in features for member in members)
        seen = collections.defaultdict(list)
        for i, members in enumerate(features):
            rarest = sorted(members, key=lambda member: (count[member], member))
            rarest = rarest[: len(rarest) - math.ceil(NEAR * len(rarest)) + 1]
            for j in {j for member in rarest for j in seen[member]}:
                smaller, larger = sorted((len(members), len(features[j])))
                if smaller >= NEAR * larger and len(members & features[j]) >= NEAR * len(members | features[j]):
                    found.add((j, i))
            for member in rarest:
                seen[member].append(i)
    return found


def same_shape(rows):
    """Pairs (i, j), i < j, of texts that differ in one or two words only."""
    found, seen = set(), collections.defaultdict(list)
    for i, row in enumerate(rows):
        tokens = words(row.text)
        for gaps in itertools.combinations(range(len(tokens)), 2) if len(tokens) > 4 else ():
            shape = tuple("" if place in gaps else word for place, word in enumerate(tokens))
            found.update((j, i) for j in seen[shape])
            seen[shape].append(i)
    return found


def by_hash(rows):
    return sorted(rows, key=lambda row: hashlib.sha256(row.text.encode()).digest())


def read_tsv(paths):
    rows = []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fields = line.split("\t")
            if len(fields) != 3 or fields[0] not in LABELS or fields[1] not in KINDS:
                sys.exit(f"{path}:{number}: got '{line}', want label, kind and text with tabs between them")
            rows.append(Row(fields[2].strip(), fields[0], fields[1]))
    return rows


def assemble(out, paths):
    rows = by_hash(read_tsv(paths))
    doubles = {j for _, j in near_pairs(rows)}
    rows = [row for i, row in enumerate(rows) if i not in doubles]
    print(f"{len(doubles)} near duplicates left out")
    splits = {"train": [], "dev": [], "certify": []}
    taken = collections.Counter()
    for row in rows:
        place = taken[row.label, row.kind]
        taken[row.label, row.kind] += 1
        splits["certify" if place < CERTIFY else "dev" if place < CERTIFY + DEV else "train"].append(row)
    for name, part in splits.items():
        with open(out / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Row._fields)
            writer.writerows(part)


def read_splits(folder):
    splits = {}
    for name in ("train", "dev", "certify"):
        with open(folder / f"{name}.csv", encoding="utf-8", newline="") as file:
            splits[name] = [Row(**row) for row in csv.DictReader(file)]
    return splits


def promises(splits):
    """The README's claims about the data, each with its violation, if any."""
    rows = [row for part in splits.values() for row in part]
    split_of = [name for name, part in splits.items() for _ in part]
    yield "at least 3,000 texts", "" if len(rows) >= 3000 else f"{len(rows)}"
    yield "1,000 for certification", "" if len(splits["certify"]) == 1000 else f"{len(splits['certify'])}"
    for name, part in splits.items():
        count = collections.Counter((row.label, row.kind) for row in part)
        uneven = set(count) != {(label, kind) for label in LABELS for kind in KINDS}
        uneven = uneven or max(count.values()) > 1.15 * min(count.values())
        yield f"{name}: labels and kinds in like numbers", str(dict(count)) if uneven else ""
    odd = [row.text for row in rows if not WORD_LIMITS[0] <= len(row.text.split()) <= WORD_LIMITS[1]]
    yield f"{WORD_LIMITS[0]} to {WORD_LIMITS[1]} words each", "; ".join(odd[:3])
    near = [(i, j) for i, j in near_pairs(rows)]
    across = [f"{rows[i].text} | {rows[j].text}" for i, j in near if split_of[i] != split_of[j]]
    yield "no near duplicates across splits", "; ".join(across[:3])
    yield "none within a split", "; ".join(f"{rows[i].text} | {rows[j].text}" for i, j in near[:3])
    alike = [(i, j) for i, j in near_pairs(rows, [content_words]) if split_of[i] != split_of[j]]
    yield "no half of the content words in common across splits", "; ".join(f"{rows[i].text} | {rows[j].text}" for i, j in alike[:3])
    exchanged = sorted(same_shape(rows))
    yield "no text is another with one or two words exchanged", "; ".join(f"{rows[i].text} | {rows[j].text}" for i, j in exchanged[:3])
    for label, kind in itertools.product(LABELS, KINDS):
        drawn = [row for name in ("certify", "dev", "train") for row in splits[name] if (row.label, row.kind) == (label, kind)]
        yield f"{label}, {kind}: splits drawn by hash", "" if drawn == by_hash(drawn) else "another order"
    # Signs of a template: many texts start with the same words.
    openings = collections.Counter(tuple(words(row.text)[:3]) for row in rows)
    opening, times = openings.most_common(1)[0]
    yield "no opening of three words in more than 1 % of the texts", "" if times <= len(rows) / 100 else " ".join(opening)


class BagOfWords:
    """Naive Bayes over unigrams and bigrams: the class as far as word counts reveal it."""

    def __init__(self, rows):
        self.count = {label: collections.Counter() for label in LABELS}
        for row in rows:
            self.count[row.label].update(self.members(row.text))
        self.vocabulary = len(set().union(*self.count.values()))
        self.total = {label: sum(count.values()) for label, count in self.count.items()}

    @staticmethod
    def members(text):
        tokens = re.findall(r"[a-z0-9']+|[?!;,:.]", text.lower())
        return tokens + [f"{a} {b}" for a, b in zip(tokens, tokens[1:])]

    def answer(self, text):
        def score(label):
            floor = self.total[label] + self.vocabulary
            return sum(math.log((self.count[label][member] + 1) / floor) for member in self.members(text))

        return max(LABELS, key=score)


def figures(splits):
    """Figures about the texts, each with the wording in which the README must contain it."""
    for name, part in splits.items():
        yield f"{len(part)} texts in {name}.csv", f"`{name}.csv` | {len(part):,} |"
    lengths = sorted(len(row.text.split()) for part in splits.values() for row in part)
    first, middle, last = lengths[0], lengths[len(lengths) // 2], lengths[-1]
    yield f"{first} to {last} words, half of the texts at most {middle}", f"{first} to {last} words, half of them at most {middle}"
    bag = BagOfWords(splits["train"])
    for kind in KINDS:
        part = [row for row in splits["certify"] if row.kind == kind]
        right = 100 * sum(bag.answer(row.text) == row.label for row in part) / len(part)
        yield f"a bag of words gets {right:.1f} % of the {kind} texts of certify.csv right", f"{right:.1f} % of the {kind}"


def check(folder):
    splits = read_splits(folder)
    readme = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    broken = 0
    for promise, wrong in promises(splits):
        print(f"{'BROKEN' if wrong else 'kept':8}{promise}{': ' + wrong if wrong else ''}")
        broken += bool(wrong)
    for line, in_readme in figures(splits):
        told = in_readme in readme
        print(f"{'kept' if told else 'BROKEN':8}{line}{'' if told else f': the README does not say {in_readme!r}'}")
        broken += not told
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("check")
    verb.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    verb = verbs.add_parser("assemble")
    verb.add_argument("out", type=pathlib.Path)
    verb.add_argument("texts", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    if args.verb == "check":
        sys.exit(check(args.folder) != 0)
    assemble(args.out, args.texts)


if __name__ == "__main__":
    main()
