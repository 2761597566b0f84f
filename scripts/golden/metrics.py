#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/data/golden/metrics.json: inputs and the answers of scikit-learn and SciPy.

Made with scikit-learn 1.2.1, SciPy 1.10.1 and NumPy 1.24.2 (Debian 12). Run it again only to add cases:
  python3 scripts/golden/metrics.py > tests/fixtures/data/golden/metrics.json
Numbers are written with all their digits; NaN and infinities as strings, since JSON has no words for them.
"""
import json
import math
import sys
import warnings

import numpy
import scipy
import scipy.stats
import sklearn
import sklearn.metrics

warnings.simplefilter("ignore")  # degenerate cases warn, which is the point of them
generator = numpy.random.default_rng(20260101)


def plain(value):
    value = float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def classes_case(name, predicted, gold):
    predicted, gold = [int(x) for x in predicted], [int(x) for x in gold]
    positives = lambda values: [1 if x == 1 else 0 for x in values]
    return {
        "name": name, "predicted": predicted, "gold": gold,
        "accuracy": plain(sklearn.metrics.accuracy_score(gold, predicted)),
        # Class 1 against the rest, so that the same call answers for more than two classes.
        "f1": plain(sklearn.metrics.f1_score(positives(gold), positives(predicted), zero_division=0)),
        "matthews_correlation": plain(sklearn.metrics.matthews_corrcoef(gold, predicted)),
    }


def values_case(name, predicted, gold):
    predicted, gold = [float(x) for x in predicted], [float(x) for x in gold]
    # SciPy refuses one pair and, for Pearson, values that are not finite; its word for "no answer" elsewhere is NaN.
    short = len(gold) < 2
    finite = all(math.isfinite(x) for x in predicted + gold)
    return {
        "name": name, "predicted": [plain(x) for x in predicted], "gold": [plain(x) for x in gold],
        "pearson": "nan" if short or not finite else plain(scipy.stats.pearsonr(predicted, gold)[0]),
        "spearmanr": "nan" if short else plain(scipy.stats.spearmanr(predicted, gold)[0]),
    }


def class_cases():
    yield classes_case("the vector of the specification", [1, 1, 0, 0, 1, 0, 1, 0], [1, 0, 0, 1, 1, 0, 1, 1])
    yield classes_case("one right example", [1], [1])
    yield classes_case("one wrong example", [0], [1])
    yield classes_case("one right example of class 0", [0], [0])
    yield classes_case("all right", [0, 1, 0, 1, 1], [0, 1, 0, 1, 1])
    yield classes_case("all wrong", [1, 0, 1, 0, 0], [0, 1, 0, 1, 1])
    yield classes_case("constant predictions of 0", [0] * 7, [0, 1, 0, 1, 1, 0, 0])
    yield classes_case("constant predictions of 1", [1] * 7, [0, 1, 0, 1, 1, 0, 0])
    yield classes_case("constant gold", [0, 1, 1, 0], [1, 1, 1, 1])
    yield classes_case("both constant and equal", [0, 0, 0], [0, 0, 0])
    yield classes_case("both constant and different", [1, 1, 1], [0, 0, 0])
    yield classes_case("no positive gold", [0, 1, 0, 1], [0, 0, 0, 0])
    yield classes_case("no positive prediction", [0, 0, 0, 0], [0, 1, 0, 1])
    yield classes_case("three classes", [0, 1, 2, 2, 1, 0, 2, 1], [0, 1, 2, 1, 1, 2, 0, 0])
    yield classes_case("three classes, one never predicted", [0, 1, 1, 1, 1, 0], [0, 1, 2, 2, 1, 0])
    yield classes_case("three classes, constant prediction", [2] * 6, [0, 1, 2, 2, 1, 0])
    yield classes_case("a class that gold does not have", [5, 1, 5, 0], [0, 1, 0, 0])
    for size, classes in [(50, 2), (333, 2), (1043, 2), (200, 3), (500, 7), (777, 77)]:
        gold = generator.integers(0, classes, size)
        noise = generator.integers(0, classes, size)
        predicted = numpy.where(generator.random(size) < 0.7, gold, noise)
        yield classes_case(f"{size} random examples of {classes} classes", predicted, gold)
    gold = (generator.random(2000) < 0.01).astype(int)
    yield classes_case("rare positives", (generator.random(2000) < 0.02).astype(int), gold)


def value_cases():
    nan, inf = math.nan, math.inf
    yield values_case("the vector of the specification", [1, 2.5, 2.5, 4, .5], [0, 3, 2, 5, 1])
    yield values_case("one pair", [1.5], [2.5])
    yield values_case("two pairs, rising", [1, 2], [10, 30])
    yield values_case("two pairs, falling", [1, 2], [30, 10])
    yield values_case("two pairs, one side constant", [1, 1], [30, 10])
    yield values_case("constant predictions", [2, 2, 2, 2], [1, 2, 3, 4])
    yield values_case("constant gold", [1, 2, 3, 4], [2, 2, 2, 2])
    yield values_case("both constant", [1, 1, 1], [1, 1, 1])
    yield values_case("perfectly linear", [1, 2, 3, 4, 5], [2, 4, 6, 8, 10])
    yield values_case("perfectly opposed", [1, 2, 3, 4, 5], [5, 4, 3, 2, 1])
    yield values_case("rising but not linear", [1, 2, 3, 4, 5], [1, 8, 27, 64, 125])
    yield values_case("many ties on both sides", [1, 1, 2, 2, 2, 3, 3, 1], [5, 5, 5, 4, 4, 3, 3, 3])
    yield values_case("zero correlation", [1, 2, 1, 2], [1, 1, 2, 2])
    yield values_case("NaN among predictions", [1, nan, 3, 4], [1, 2, 3, 4])
    yield values_case("NaN among gold", [1, 2, 3, 4], [1, 2, nan, 4])
    yield values_case("infinity among predictions", [1, 2, inf, 4], [1, 2, 3, 4])
    yield values_case("large values", [1e150, 3e150, 2e150, 5e150, 4e150], [1, 2, 3, 4, 5])
    yield values_case("tiny values", [1e-150, 3e-150, 2e-150, 5e-150, 4e-150], [1, 2, 3, 4, 5])
    yield values_case("large and small together", [1e9, 1, 2, 3, -1e9], [5, 1, 2, 3, 0])
    yield values_case("negative values and zeros of both signs", [-1, -0.0, 0.0, 1, -2], [-2, 0, -0.0, 3, -4])
    yield values_case("a far mean", [1000001, 1000002, 1000003, 1000005], [7, 7.5, 9, 8])
    for size in (3, 10, 137, 1379, 1500):
        gold = numpy.round(generator.random(size) * 5, 3)
        predicted = gold + generator.normal(0, 0.8, size)
        yield values_case(f"{size} random pairs", predicted, gold)
        yield values_case(f"{size} random pairs with ties", numpy.round(predicted), numpy.round(gold))
    # What a model's fp32 outputs give once widened.
    gold = generator.random(400).astype(numpy.float32)
    yield values_case("fp32 values", (gold + generator.normal(0, 1, 400)).astype(numpy.float32), gold)


versions = {"scikit-learn": sklearn.__version__, "scipy": scipy.__version__, "numpy": numpy.__version__}
one_line = lambda value: json.dumps(value, separators=(",", ":"))
sys.stdout.write('{"made_with":' + one_line(versions) + ',\n"classes":[\n')
sys.stdout.write(",\n".join(one_line(case) for case in class_cases()))
sys.stdout.write('\n],\n"values":[\n')
sys.stdout.write(",\n".join(one_line(case) for case in value_cases()))
sys.stdout.write("\n]}\n")
