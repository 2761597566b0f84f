# SPDX-License-Identifier: Apache-2.0
"""Calls and answers shaped as those of `transformers.pipeline("text-classification")`, for code that is written for it."""
from __future__ import annotations

import os
from typing import Any, Iterable, Mapping

from ._model import Model

_TASKS = ("text-classification", "sentiment-analysis")
_UNSET: Any = object()  # top_k that nobody named: one answer for each text, and not a list of one


class Pipeline:
    """What `pipeline` returns. Call it with a text, a pair {"text": …, "text_pair": …}, or an iterable of either."""

    def __init__(self, model: Model, top_k: Any = _UNSET) -> None:
        self.model = model
        self._top_k = top_k

    def __call__(self, inputs: Any, *, top_k: Any = _UNSET, batch_size: int | None = None, truncation: bool = True) -> Any:
        """A dict with label and score for each text; with `top_k` a list of the best ones (None: of all). One text gives a
        list of one answer, one pair its answer. `batch_size` changes nothing: texts share passes over the weights anyway,
        and texts that are too long are always truncated."""
        if not truncation:
            raise ValueError("truncation: got False, and texts that are too long are always truncated")
        wanted = self._top_k if top_k is _UNSET else top_k
        alone = isinstance(inputs, (str, Mapping))
        given: list[Any] = [inputs] if alone else list(inputs)
        answers = self.model([_part(one, "text") for one in given],
                             pairs=[_part(one, "text_pair") for one in given] if _paired(given) else None)
        out = answers.pipeline() if wanted is _UNSET else [every[:wanted] for every in answers.pipeline(top_k=None)]
        return out[0] if alone and (isinstance(inputs, Mapping) or top_k is not _UNSET) else out


def _part(one: Any, name: str) -> Any:
    return one.get(name) if isinstance(one, Mapping) else one if name == "text" else None


def _paired(given: Iterable[Any]) -> bool:
    """Whether they are pairs: all, or none."""
    found = {_part(one, "text_pair") is not None for one in given}
    if len(found) > 1:
        raise ValueError("inputs: got texts and pairs, want one kind in a call")
    return True in found


def pipeline(task: str, model: str | os.PathLike[str] | Model, *, top_k: int | None = _UNSET, **options: Any) -> Pipeline:
    """As `transformers.pipeline("text-classification", model="fast")`. Options are those of `load`."""
    if task not in _TASKS:
        raise ValueError(f"task: got {task!r}, want {' or '.join(_TASKS)}")
    return Pipeline(model if isinstance(model, Model) else Model(model, **options), top_k)
