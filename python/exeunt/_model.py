# SPDX-License-Identifier: Apache-2.0
"""A model folder, opened in this process."""
from __future__ import annotations

import ctypes
import importlib
import json
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ._arrays import BYTE, FLOAT, INT, ByteArray, FloatArray, IntArray, Room, numpy, packed
from ._arrow import ArrowBatch, ArrowStream, Capsule, address_of
from ._library import AnswerArrays, Options, Texts, check, encoded, lib
from ._trace import Trace

_PART = 16384  # texts of one call of the library


class Answers:
    """What a model said of a batch. Arrays are numpy's where numpy is installed, else (nested) lists.

    A blank text (white space alone, or a missing value of a Series) is left blank, as the command leaves it: its label is
    None, its layer and tokens are 0, its scores nan.
    """

    def __init__(self, names: Sequence[str], multi_label: bool, rooms: dict[str, Room], count: int, index: Any = None) -> None:
        self._names = names
        self._multi_label = multi_label
        self._label_ids: IntArray = rooms["labels"].values()
        self._scores: FloatArray = rooms["scores"].values()
        self._given: ByteArray = rooms["given"].values()
        self._layers: IntArray = rooms["layers"].values()
        self._tokens: IntArray = rooms["tokens"].values()
        self._truncated: ByteArray = rooms["truncated"].values()
        self._count = count
        self._index = index  # of the Series that the texts came from

    @property
    def label_ids(self) -> IntArray:
        """[texts] index of the (most probable) label; -1 for regression and blank texts."""
        return self._label_ids

    @property
    def scores(self) -> FloatArray:
        """[texts, labels] probabilities; [texts, 1] values for regression."""
        return self._scores

    @property
    def given(self) -> ByteArray:
        """[texts, labels] 1 where a text has a label; several of them in multi-label models."""
        return self._given

    @property
    def layers(self) -> IntArray:
        """[texts] the layer after which each text exited; 0: before the first."""
        return self._layers

    @property
    def tokens(self) -> IntArray:
        """[texts] length of each text."""
        return self._tokens

    @property
    def truncated(self) -> ByteArray:
        """[texts] 1 where a text was cut to the max-length."""
        return self._truncated

    @property
    def labels(self) -> list[Any] | None:
        """The name of each text's label; a list of names for each text of a multi-label model; None for regression."""
        names = self._names
        if self._multi_label:
            return [[name for name, given in zip(names, row) if given] if tokens else None
                    for row, tokens in zip(_listed(self.given), _listed(self.tokens))]
        return [names[label] if label >= 0 else None for label in _listed(self.label_ids)] if names else None

    def _best(self) -> list[float]:
        """The score of the label; the value for regression."""
        return [max(scores) for scores in _listed(self.scores)]

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        said, best, layers, tokens = self.labels, self._best(), _listed(self.layers), _listed(self.tokens)
        shown = []
        for i in range(min(3, self._count)):
            answer = f"{best[i]:.4g}" if said is None else f"{said[i]} {best[i]:.2f}"
            shown.append(f"{answer} (layer {layers[i]})" if tokens[i] else "blank")
        return f"<exeunt.Answers of {self._count} texts: {', '.join(shown)}{', …' if self._count > 3 else ''}>"

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each text: label, score, layer, tokens and truncated (a regression's has value in
        place of label and score). Of a Series of texts it has the index. Needs pandas."""
        pandas = importlib.import_module("pandas")
        said = {"value": self._best()} if self.labels is None else {"label": self.labels, "score": self._best()}
        return pandas.DataFrame({**said, "layer": self.layers, "tokens": self.tokens,
                                 "truncated": [bool(one) for one in _listed(self.truncated)]}, index=self._index, copy=False)

    def pipeline(self, top_k: int | None = 1) -> list[Any]:
        """As `transformers.pipeline("text-classification")` answers: a dict for each text, or, with a `top_k` other than
        1, a list of the best ones for each text (None: of all). The label of a blank text is None."""
        names = self._names or ["LABEL_0"]
        out: list[Any] = []
        for scores, tokens in zip(_listed(self.scores), _listed(self.tokens)):
            order = sorted(range(len(scores)), key=[-score for score in scores].__getitem__)
            ranked = [{"label": names[label] if tokens else None, "score": scores[label]} for label in order]
            out.append(ranked[0] if top_k == 1 else ranked[:top_k])
        return out


def _listed(values: Any) -> list[Any]:
    listed = values.tolist() if hasattr(values, "tolist") else values
    return list(listed)


class Model:
    """An open model. Call it with texts. It may be used from many threads at once: the engine shares its threads among
    them, and Python's lock is not held while it runs."""

    def __init__(self, folder: str | os.PathLike[str], *, policy: str | None = None, precision: str | None = None,
                 threads: int = 0, max_length: int = 0, device: str | None = None) -> None:
        self._handle = ctypes.c_void_p()
        self._arguments = (os.fspath(folder), policy, precision, threads, max_length, device)
        options = Options(ctypes.sizeof(Options), encoded(policy), encoded(precision), threads, max_length, encoded(device))
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
    def engine(self) -> str:
        """What runs it: "cpu/avx512", "cuda/sm_90"."""
        return str(lib.exeunt_engine(self._open()).decode())

    @property
    def promise(self) -> str:
        """What that policy promises, in one sentence; "none (WHY)" if nothing."""
        return str(self.facts["promise"])

    def __call__(self, texts: str | Iterable[str], *, pairs: str | Iterable[str] | None = None,
                 policy: str | None = None, progress: Callable[[int, int], object] | None = None) -> Answers:
        """Classifies texts, or pairs of texts: a list, a Series, or any other iterable of str; one text alone counts as a
        list of one. `policy`, such as "entropy:0.2", holds for this call. `progress` is called now and then with how many
        texts are done, and of how many."""
        handle, given = self._open(), _Batch(texts, pairs)
        count = len(given.texts)
        rooms = {"labels": Room(INT, count), "scores": Room(FLOAT, count, self.outputs), "layers": Room(INT, count),
                 "tokens": Room(INT, count), "truncated": Room(BYTE, count), "given": Room(BYTE, count, self.outputs)}
        for first, part, _keep in given.parts():
            arrays = AnswerArrays(ctypes.sizeof(AnswerArrays), **{name: room.row(first) for name, room in rooms.items()})
            check(lib.exeunt_answer(handle, encoded(policy), ctypes.byref(part), ctypes.byref(arrays)), first)
            if progress is not None:
                progress(first + part.count, count)
        index = getattr(texts, "index") if hasattr(texts, "iloc") else None  # of a Series
        return Answers(self.labels, self.problem == "multi_label_classification", rooms, count, index)

    def arrow(self, data: Any, column: str = "text", *, policy: str | None = None) -> Any:
        """Classifies a column of a table of Arrow: of anything with `__arrow_c_stream__` or `__arrow_c_array__`, such as a
        pyarrow Table or RecordBatch, a Polars or pandas DataFrame, a DuckDB relation, or a column of texts alone.

        The result is for anything that reads those: the columns of `data`, which are not copied, with label, score (labels
        and scores of a multi-label model; value of a regression) and exit_layer, null where a text is null or blank. Of a
        stream one batch at a time is read and answered."""
        named = encoded(policy), encoded(column)
        if hasattr(data, "__arrow_c_stream__"):
            given, out = data.__arrow_c_stream__(), Capsule(b"arrow_array_stream")
            check(lib.exeunt_arrow_stream(self._open(), *named, address_of(given, b"arrow_array_stream"), out.address))
            return ArrowStream(out.capsule)
        if not hasattr(data, "__arrow_c_array__"):
            raise TypeError(f"data: got a {type(data).__name__}, want one with __arrow_c_stream__ or __arrow_c_array__")
        schema, array = data.__arrow_c_array__()
        kind, batch = Capsule(b"arrow_schema"), Capsule(b"arrow_array")
        check(lib.exeunt_arrow_batch(self._open(), *named, address_of(schema, b"arrow_schema"),
                                     address_of(array, b"arrow_array"), kind.address, batch.address))
        return ArrowBatch(kind.capsule, batch.capsule)

    @property
    def classes_(self) -> Any:
        """As scikit-learn has it: the labels, in the order of `predict_proba`'s columns. A regression has none."""
        if not self.labels:
            raise AttributeError("classes_: the model is a regression")
        return numpy.array(self.labels, object) if numpy is not None else self.labels

    def predict(self, X: str | Iterable[str]) -> Any:
        """As scikit-learn has it: [texts] labels, None for a blank text; of a multi-label model [texts, labels] 1 or 0; of a
        regression [texts] values."""
        answers = self(X)
        if self.problem == "multi_label_classification":
            return answers.given
        if not self.labels:
            return answers.scores[:, 0] if numpy is not None else [row[0] for row in answers.scores]
        return numpy.array(answers.labels, object) if numpy is not None else answers.labels

    def predict_proba(self, X: str | Iterable[str]) -> FloatArray:
        """As scikit-learn has it: [texts, labels] probabilities, nan for a blank text. A regression has none."""
        if not self.labels:
            raise AttributeError("predict_proba: the model is a regression")
        return self(X).scores

    def trace(self, texts: str | Iterable[str], *, pairs: str | Iterable[str] | None = None, gold: Any = None) -> Trace:
        """What every exit says of every text, at full depth: what `replay`, `sweep` and `calibrate` work on. Blank texts
        are refused."""
        handle, given = self._open(), _Batch(texts, pairs)
        logits, tokens = Room(FLOAT, len(given.texts), len(self.exits), self.outputs), Room(INT, len(given.texts))
        for first, part, _keep in given.parts():
            check(lib.exeunt_trace(handle, ctypes.byref(part), logits.row(first), tokens.row(first)), first)
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


def _reopened(folder: str, policy: str | None, precision: str | None, threads: int, max_length: int,
              device: str | None) -> Model:
    return Model(folder, policy=policy, precision=precision, threads=threads, max_length=max_length, device=device)


class _Batch:
    """Texts, and pairs if there are any, as the library takes them: in parts, between which Python sees signals."""

    def __init__(self, texts: str | Iterable[str], pairs: str | Iterable[str] | None) -> None:
        self.texts = _sequence(texts)
        self._pairs = None if pairs is None else _sequence(pairs)
        if self._pairs is not None and len(self._pairs) != len(self.texts):
            raise ValueError(f"pairs: got {len(self._pairs)}, want {len(self.texts)}: one for each text")

    def parts(self) -> Iterator[tuple[int, Texts, Any]]:
        """The place of the first text, the struct, and what must live as long as the call."""
        for first in range(0, len(self.texts), _PART):
            data, ends = packed(self.texts[first:first + _PART], "texts", first)
            part = Texts(ctypes.sizeof(Texts), len(ends), data, ctypes.addressof(ends), None, None)
            keep: Any = (data, ends)
            if self._pairs is not None:
                pair_data, pair_ends = packed(self._pairs[first:first + _PART], "pairs", first)
                part.pair_bytes, part.pair_ends = pair_data, ctypes.addressof(pair_ends)
                keep = (data, ends, pair_data, pair_ends)
            yield first, part, keep


def _sequence(texts: str | Iterable[str]) -> Sequence[str]:
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # iterating them would give names
        raise TypeError(f"texts: got a {type(texts).__name__}, want texts, such as one of its columns")
    if hasattr(texts, "iloc"):  # a Series: a missing text is a blank one
        return ["" if missing else text for text, missing in zip(texts, getattr(texts, "isna")())]
    return texts if isinstance(texts, (list, tuple)) else list(texts)


def load(folder: str | os.PathLike[str], *, policy: str | None = None, precision: str | None = None, threads: int = 0,
         max_length: int = 0, device: str | None = None) -> Model:
    """Opens a model folder, or `org/name` from the local Hugging Face cache.

    `policy`: "entropy:0.2" or a policy file; without it the model's own, else full depth. `precision`: fp32, bf16, int8.
    `threads`: 0 is one for each processor. `max_length`: tokens of a text; 0 is the certificate's, else the training's.
    `device`: "cpu" (None), "cuda", "cuda:1", or "auto", which is a GPU if there is one. The wheel's library has the CPU alone.
    """
    return Model(folder, policy=policy, precision=precision, threads=threads, max_length=max_length, device=device)
