# SPDX-License-Identifier: Apache-2.0
"""Exit policies over logits that are already there: of our models, or of any other in any framework."""
from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any, Hashable, Iterable, Sequence

from ._arrays import INT, Floats, Room
from ._library import Logits, Plan, check, encoded, lib, taken
from ._trace import Trace


class _Given:
    """Logits as the library takes them. Lives as long as the call."""

    def __init__(self, logits: Any, gold: Any, layers: Sequence[int] | None, multi_label: bool = False,
                 thresholds: Sequence[float] | None = None, clusters: Sequence[Hashable] | None = None) -> None:
        if isinstance(logits, Trace):
            multi_label = multi_label or logits.multi_label
            thresholds = logits.thresholds if thresholds is None else thresholds
            gold = logits.gold if gold is None else gold
            layers = logits.layers if layers is None else layers
            logits = logits.logits
        self._logits = Floats(logits, "logits", (3,))
        self.rows, self.exits, self.outputs = self._logits.shape
        self.struct = Logits(ctypes.sizeof(Logits), self.rows, self.exits, self.outputs, self._logits.address, None, None)
        if gold is not None:
            self._gold = Floats(gold, "gold", (2,) if multi_label else (1,))
            if self._gold.shape[0] != self.rows:
                raise ValueError(f"gold: got {self._gold.shape[0]}, want {self.rows}: one for each row of the logits")
            if multi_label and self._gold.shape[1] != self.outputs:
                raise ValueError(f"gold: got {self._gold.shape[1]} labels, want {self.outputs}")
            self.struct.gold = self._gold.address
        self.struct.multi_label = int(multi_label)
        if thresholds is not None:
            if len(thresholds) != self.outputs:
                raise ValueError(f"thresholds: got {len(thresholds)}, want {self.outputs}: one for each label")
            self._thresholds = (ctypes.c_double * self.outputs)(*thresholds)
            self.struct.thresholds = ctypes.addressof(self._thresholds)
        if clusters is not None:
            if len(clusters) != self.rows:
                raise ValueError(f"clusters: got {len(clusters)}, want {self.rows}: one for each row of the logits")
            numbers: dict[Hashable, int] = {}
            self._clusters = (ctypes.c_uint64 * self.rows)(*(numbers.setdefault(one, len(numbers)) for one in clusters))
            self.struct.cluster = ctypes.addressof(self._clusters)
        self.layers = list(range(1, self.exits + 1)) if layers is None else [int(layer) for layer in layers]
        if len(self.layers) != self.exits:
            raise ValueError(f"layers: got {len(self.layers)}, want {self.exits}: one for each exit of the logits")
        self._layers = (ctypes.c_int * self.exits)(*self.layers)
        self.struct.layers = ctypes.addressof(self._layers)


@dataclass
class Replay:
    """What a policy would have done."""

    exits: Any  #: [rows] which exit answered, from 0
    labels: Any  #: [rows] index of the label; a number that stands for the set of several; -1 for regression
    layers: list[int]  #: [exits] after which layer each exit sits


def replay(logits: Any, policy: str | Calibration, *, layers: Sequence[int] | None = None, multi_label: bool = False,
           thresholds: Sequence[float] | None = None) -> Replay:
    """What `policy` would have answered, from the logits [rows, exits, classes] of every exit, or from a trace.

    >>> done = replay([[[2.0, 0.0], [3.0, 0.0]], [[0.1, 0.0], [0.0, 3.0]]], "confidence:0.8")
    >>> list(done.exits), list(done.labels)
    ([0, 1], [0, 1])
    """
    given = _Given(logits, None, layers, multi_label, thresholds)
    exits, labels = Room(INT, given.rows), Room(INT, given.rows)
    text = policy.policy_file if isinstance(policy, Calibration) else policy
    check(lib.exeunt_replay(ctypes.byref(given.struct), encoded(text), exits.address, labels.address))
    return Replay(exits.values(), labels.values(), given.layers)


@dataclass
class Setting:
    """One policy of a sweep."""

    policy: str
    layers: float  #: mean layers that run
    cost_fraction: float  #: of all layers
    loss: float  #: share of answers that differ from full depth; for regression the mean difference, of the range
    accuracy: float | None  #: None without gold labels


def sweep(logits: Any, policies: str | Iterable[str], gold: Any = None, *,
          layers: Sequence[int] | None = None, multi_label: bool = False,
          thresholds: Sequence[float] | None = None) -> list[Setting]:
    """Every setting of a family on one set of logits: "entropy:0..0.6/0.2", "patience:2|3", or a list of such texts.

    >>> for one in sweep([[[2.0, 0.0], [3.0, 0.0]], [[0.1, 0.0], [0.0, 3.0]]], "confidence:0.6..0.8/0.2", gold=[0, 1]):
    ...     print(one.policy, one.layers, one.accuracy)
    confidence:0.6 1.5 1.0
    confidence:0.8 1.5 1.0

    Of several labels at once, a whole set is right or not:

    >>> sets = [[[2.0, 0.1], [3.0, -3.0]], [[-2.0, 2.0], [-3.0, 3.0]]]
    >>> for one in sweep(sets, ["layer:1", "full"], gold=[[1, 0], [0, 1]], multi_label=True):
    ...     print(one.policy, one.loss, one.accuracy)
    layer:1 0.5 0.5
    full 0.0 1.0
    """
    given = _Given(logits, gold, layers, multi_label, thresholds)
    out: list[Setting] = []
    for text in [policies] if isinstance(policies, str) else policies:
        answer = ctypes.c_void_p()
        check(lib.exeunt_sweep(ctypes.byref(given.struct), encoded(text), ctypes.byref(answer)))
        out += [Setting(**row) for row in json.loads(taken(answer))["settings"]]
    return out


@dataclass
class Calibration:
    """A certified policy. `replay(logits, calibration)` applies it, with its exits and temperatures."""

    policy: str  #: of the first budget, as text
    promise: str  #: in one sentence
    points: list[dict[str, Any]]  #: for each budget: policy, max_drop, losses, and what other rows show
    families: list[dict[str, Any]]  #: the rules tried, with the share of layers that was expected of each
    rows: dict[str, int]  #: that chose (fit), certified (certify) and measured (report)
    policy_file: str  #: as policy.json has it: rule, exits, temperatures, certificate

    @property
    def tries(self) -> int:
        """Known uses of these rows to certify, this one included, each with less of the error probability than the one
        before; 0: they cannot be counted."""
        return int(json.loads(self.policy_file)["entries"][0]["certificate"]["tries"])

    @property
    def cost_fraction(self) -> float:
        """The share of layers that the policy runs, measured on rows that chose nothing."""
        return float(self.points[0]["report_cost_fraction"])


def calibrate(logits: Any, gold: Any = None, max_drop: float | Sequence[float] = 0.01, *, confidence: float = 0.95,
              loss: str | None = None, method: str | None = None, rules: Sequence[str] | None = None, seed: int = 42,
              report: bool = True, value_range: tuple[float, float] | None = None,
              layers: Sequence[int] | None = None, multi_label: bool = False,
              thresholds: Sequence[float] | None = None, clusters: Sequence[Hashable] | None = None) -> Calibration:
    """The fastest policy that is certified to lose at most `max_drop` against full depth.

    `logits` are those of every exit, [rows, exits, classes], from any framework (arrays, tensors, nested lists), or a
    trace. Without `gold` the loss is disagreement with full depth. Rows must be drawn as the texts to come will be, and
    must not have been learned from; rows with equal logits at every exit are one, and rows with equal `clusters`, such as the
    candidates of a question, are drawn together. `multi_label`: each label is given or not, by its sigmoid and `thresholds` (0.5);
    `gold` is then [rows, labels] of 1 and 0, and an answer is a set of labels. Raises `Error` if there are too few rows;
    it says how many would do.

    >>> rows = [[[3 + row / 1e6, 0], [4, 0]] if row % 2 else [[0, 3 + row / 1e6], [0, 4]] for row in range(1000)]
    >>> found = calibrate(rows, max_drop=0.02)
    >>> found.promise
    'at most 2 % of answers to distinct texts differ from the external model at full depth, confidence 95 %'
    >>> found.cost_fraction
    0.5
    """
    given = _Given(logits, gold, layers, multi_label, thresholds, clusters)
    budgets = [max_drop] if isinstance(max_drop, (int, float)) else list(max_drop)
    drops = (ctypes.c_double * len(budgets))(*budgets)
    low, high = value_range or (0.0, 0.0)
    plan = Plan(ctypes.sizeof(Plan), ctypes.addressof(drops), len(budgets), confidence, encoded(loss), encoded(method),
                encoded(",".join(rules)) if rules else None, seed, 0 if report else 1, low, high)
    answer = ctypes.c_void_p()
    check(lib.exeunt_calibrate(ctypes.byref(given.struct), ctypes.byref(plan), ctypes.byref(answer)))
    found = json.loads(taken(answer))
    return Calibration(found["policy"], found["promise"], found["points"], found["families"], found["rows"],
                       json.dumps(found["policy_file"]))
