#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/certify/golden/risk.json: bounds and temperatures by SciPy and NumPy.

Made with SciPy 1.10.1 and NumPy 1.24.2 (Debian 12). Run it again only to add cases:
  python3 scripts/golden/risk.py > tests/fixtures/certify/golden/risk.json
Each bound is written here from its definition, with SciPy's functions and a plain search.
"""
import json
import math

import numpy as np
import scipy
from scipy import optimize, special, stats

rng = np.random.default_rng(20260203)


def binomial():
    for n in (1, 10, 299, 408, 2000, 9815, 1_000_000):
        for p in (0.001, 0.01, 0.02, 0.1, 0.5):
            for k in sorted({0, 1, int(n * p / 2), int(n * p), int(n * p * 1.2) + 1, n - 1}):
                if 0 <= k < n:
                    upper = {str(d): float(stats.beta.ppf(1 - d, k + 1, n - k)) for d in (0.05, 0.1, 0.001)}
                    yield {"k": k, "n": n, "p": p, "cdf": float(stats.binom.cdf(k, n, p)), "upper": upper}


def hb(mean, n, alpha):
    a = min(mean, alpha)
    h1 = (a * math.log(a / alpha) if a > 0 else 0) + (1 - a) * math.log((1 - a) / (1 - alpha))
    bentkus = math.e * stats.binom.cdf(math.ceil(n * mean - 1e-9 * n), n, alpha)
    return min(math.exp(-n * h1), bentkus, 1.0)


def hoeffding_bentkus():
    for n in (50, 408, 5000):
        for alpha in (0.01, 0.05, 0.2):
            for mean in (0, 0.3 * alpha, 0.8 * alpha, alpha, 0.5):
                yield {"n": n, "alpha": alpha, "mean": mean, "value": float(hb(mean, n, alpha))}


def wsr_capital(losses, mean, delta, cap):
    n, capital, best = len(losses), 0.0, 0.0
    for i in range(n):
        mu = [(0.5 + losses[: j + 1].sum()) / (j + 2) for j in range(i)]
        variance = (0.25 + sum((losses[j] - mu[j]) ** 2 for j in range(i))) / (1 + i)
        nu = min(cap, math.sqrt(2 * math.log(1 / delta) / (n * variance)))
        capital += math.log1p(-nu * (losses[i] - mean))
        best = max(best, capital)
    return best


def wsr():
    for n, make in [(60, lambda: np.zeros(60)), (80, lambda: (rng.random(80) < 0.1).astype(float)),
                    (100, lambda: rng.beta(1, 20, 100)), (100, lambda: np.clip(rng.normal(0.5, 0.01, 100), 0, 1))]:
        losses = make()
        for delta in (0.05, 0.1):
            target = math.log(1 / delta)
            f = lambda m: wsr_capital(losses, m, delta, 1 - 1e-12) - target
            upper = optimize.brentq(f, 1e-6, 1 - 1e-9, xtol=1e-12) if f(1 - 1e-9) > 0 else 1.0
            p = {str(e): math.exp(-wsr_capital(losses, e, delta, 0.99 / (1 - e))) for e in (0.05, 0.2, 0.6)}
            yield {"losses": losses.tolist(), "delta": delta, "upper": float(upper), "p": p}


def temperature():
    for classes, scale in [(2, 1.0), (3, 4.0), (5, 0.3), (3, 0.05)]:
        true = rng.normal(0, 2, (60, classes))
        weights = np.exp(true) / np.exp(true).sum(1, keepdims=True)
        y = [int(rng.choice(classes, p=w)) for w in weights]
        z = (true * scale).astype(np.float32).astype(np.float64)
        nll = lambda logt: float(np.mean(special.logsumexp(z / math.exp(logt), axis=1) - z[range(60), y] / math.exp(logt)))
        best = optimize.minimize_scalar(nll, bounds=(math.log(0.05), math.log(20)), method="bounded",
                                        options={"xatol": 1e-10})
        yield {"classes": classes, "logits": z.reshape(-1).tolist(), "targets": y, "temperature": math.exp(best.x),
               "nll": float(best.fun), "nll_at_1": nll(0.0)}


cases = {"binomial": binomial(), "hoeffding_bentkus": hoeffding_bentkus(),
         "wsr": wsr(), "temperature": temperature()}
print('{"made_with": ' + json.dumps({"scipy": scipy.__version__, "numpy": np.__version__}), end="")
for name, rows in cases.items():
    print(',\n"%s": [\n%s]' % (name, ",\n".join(json.dumps(row) for row in rows)), end="")
print("}")
