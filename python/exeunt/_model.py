# SPDX-License-Identifier: Apache-2.0
"""A model folder, opened in this process."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Iterable, Sequence

from ._arrays import BYTE, FLOAT, INT, Room, packed
from ._library import AnswerArrays, Options, Texts, check, encoded, lib
from ._trace import Trace


class Answers:
    """What a model said of a batch. Arrays are numpy's where numpy is installed, else (nested) lists."""

    def __init__(self, names: Sequence[str], multi_label: bool, rooms: dict[str, Room], count: int) -> None:
        self._names = names
        self._multi_label = multi_label
        self._count = count
        self.label_ids = rooms["labels"].values()  #: [texts] index of the (most probable) label; -1 for regression
        self.scores = rooms["scores"].values()  #: [texts, labels] probabilities; [texts, 1] values for regression
        self.layers = rooms["layers"].values()  #: [texts] the layer after which each text exited, from 1
        self.tokens = rooms["tokens"].values()  #: [texts]
        self.given = rooms["given"].values()  #: [texts, labels] 1 where a text has a label, several in multi-label models
        self.truncated = rooms["truncated"].values()  #: [texts] 1 where a text was cut to the max-length

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<exeunt.Answers of {self._count} texts>"

    @property
    def labels(self) -> list[Any] | None:
        """The name of each text's label; a list of names for each text of a multi-label model; None for regression."""
        names = self._names
        if self._multi_label:
            return [[name for name, given in zip(names, row) if given] for row in _listed(self.given)]
        return [names[label] for label in _listed(self.label_ids)] if names else None

    def pipeline(self, top_k: int | None = 1) -> list[Any]:
        """As `transformers.pipeline("text-classification")` answers: a dict for each text, or, with a `top_k` other than
        1, a list of the best ones for each text (None: of all)."""
        names = self._names or ["LABEL_0"]
        out: list[Any] = []
        for scores in _listed(self.scores):
            order = sorted(range(len(scores)), key=[-score for score in scores].__getitem__)
            ranked = [{"label": names[label], "score": scores[label]} for label in order]
            out.append(ranked[0] if top_k == 1 else ranked[:top_k])
        return out


def _listed(values: Any) -> list[Any]:
    listed = values.tolist() if hasattr(values, "tolist") else values
    return list(listed)


class Model:
    """An open model. Call it with texts. It may be used from many threads at once: the engine shares its threads among
    them, and Python's lock is not held while it runs."""

    def __init__(self, folder: str | os.PathLike[str], *, policy: str | None = None, precision: str | None = None,
                 threads: int = 0, max_length: int = 0) -> None:
        self._handle = ctypes.c_void_p()
        self._arguments = (os.fspath(folder), policy, precision, threads, max_length)
        options = Options(ctypes.sizeof(Options), encoded(policy), encoded(precision), threads, max_length)
        check(lib.exeunt_open(os.fsencode(folder), ctypes.byref(options), ctypes.byref(self._handle)))
        self.labels: list[str] = [lib.exeunt_label(self._handle, i).decode()
                                  for i in range(lib.exeunt_label_count(self._handle))]  #: empty for regression
        self.problem: str = lib.exeunt_problem(self._handle).decode()  #: as transformers calls it: problem_type
        self.outputs: int = lib.exeunt_output_count(self._handle)  #: logits of an exit
        self.exits: list[int] = [lib.exeunt_exit_layer(self._handle, i)
                                 for i in range(lib.exeunt_exit_count(self._handle))]  #: layers with an exit
        self.facts: dict[str, Any] = json.loads(lib.exeunt_promise_json(self._handle))  #: exeunt.promise/1

    @property
    def thresholds(self) -> list[float] | None:
        """Of a multi-label model: the probabilities above which labels are given; None: 0.5."""
        found = self.facts.get("thresholds")
        return [float(one) for one in found] if found else None

    @property
    def policy(self) -> str:
        """The exit policy that runs unless a call names another."""
        return str(self.facts["policy"])

    @property
    def promise(self) -> str:
        """What that policy promises, in one sentence; "none (WHY)" if nothing."""
        return str(self.facts["promise"])

    def __call__(self, texts: str | Iterable[str], *, pairs: str | Iterable[str] | None = None,
                 policy: str | None = None) -> Answers:
        """Classifies texts, or pairs of texts. `policy`, such as "entropy:0.2", holds for this call."""
        given, count, _keep = _given(texts, pairs)
        rooms = {"labels": Room(INT, count), "scores": Room(FLOAT, count, self.outputs), "layers": Room(INT, count),
                 "tokens": Room(INT, count), "truncated": Room(BYTE, count), "given": Room(BYTE, count, self.outputs)}
        arrays = AnswerArrays(ctypes.sizeof(AnswerArrays), **{name: room.address for name, room in rooms.items()})
        check(lib.exeunt_answer(self._open(), encoded(policy), ctypes.byref(given), ctypes.byref(arrays)))
        return Answers(self.labels, self.problem == "multi_label_classification", rooms, count)

    def trace(self, texts: str | Iterable[str], *, pairs: str | Iterable[str] | None = None, gold: Any = None) -> Trace:
        """What every exit says of every text, at full depth: what `replay`, `sweep` and `calibrate` work on."""
        given, count, _keep = _given(texts, pairs)
        logits, tokens = Room(FLOAT, count, len(self.exits), self.outputs), Room(INT, count)
        check(lib.exeunt_trace(self._open(), ctypes.byref(given), logits.address, tokens.address))
        return Trace(logits=logits.values(), layers=list(self.exits), labels=list(self.labels), gold=gold,
                     tokens=tokens.values(), multi_label=self.problem == "multi_label_classification",
                     thresholds=self.thresholds)

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the model is closed")
        return self._handle

    def close(self) -> None:
        """Frees the weights and stops the threads; nothing may run on the model while it closes."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        lib.exeunt_close(handle)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, self._arguments  # in another process it opens the same folder

    def __repr__(self) -> str:
        return f"<exeunt.Model {self._arguments[0]!r}, policy {self.policy}, promise: {self.promise}>"


def _reopened(folder: str, policy: str | None, precision: str | None, threads: int, max_length: int) -> Model:
    return Model(folder, policy=policy, precision=precision, threads=threads, max_length=max_length)


def _given(texts: str | Iterable[str], pairs: str | Iterable[str] | None) -> tuple[Texts, int, Any]:
    """The batch for the library, its size, and what must live as long as the call."""
    first = _sequence(texts)
    data, ends = packed(first, "texts")
    batch = Texts(ctypes.sizeof(Texts), len(first), data, ctypes.addressof(ends), None, None)
    if pairs is None:
        return batch, len(first), (data, ends)
    second = _sequence(pairs)
    if len(second) != len(first):
        raise ValueError(f"pairs: got {len(second)}, want {len(first)}: one for each text")
    pair_data, pair_ends = packed(second, "pairs")
    batch.pair_bytes, batch.pair_ends = pair_data, ctypes.addressof(pair_ends)
    return batch, len(first), (data, ends, pair_data, pair_ends)


def _sequence(texts: str | Iterable[str]) -> Sequence[str]:
    if isinstance(texts, str):
        return [texts]
    return texts if isinstance(texts, (list, tuple)) else list(texts)


def load(folder: str | os.PathLike[str], *, policy: str | None = None, precision: str | None = None, threads: int = 0,
         max_length: int = 0) -> Model:
    """Opens a model folder, or `org/name` from the local Hugging Face cache.

    `policy`: "entropy:0.2" or a policy file; without it the model's own, else full depth. `precision`: fp32, bf16, int8.
    `threads`: 0 is one for each processor. `max_length`: tokens of a text; 0 is the certificate's, else the training's.
    """
    return Model(folder, policy=policy, precision=precision, threads=threads, max_length=max_length)
