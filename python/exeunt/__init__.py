# SPDX-License-Identifier: Apache-2.0
"""Exeunt: text classifiers that exit early, with a promise about what that costs.

>>> import exeunt
>>> model = exeunt.load("models/sst2")                             # doctest: +SKIP
>>> answers = model(["A delight from start to end.", "Dull."])     # doctest: +SKIP
>>> answers.labels, answers.layers                                 # doctest: +SKIP
(['positive', 'negative'], array([3, 4], dtype=int32))

`load` runs a model folder in this process; `attach`, `train` and the other verbs of the command run the command that is part of
this package; `calibrate`, `sweep` and `replay` work on the logits of any model in any framework.
"""
from ._command import attach, command, run, train
from ._errors import CommandError, Error
from ._library import version as _version
from ._model import Answers, Model, load
from ._replay import Calibration, Replay, Setting, calibrate, replay, sweep
from ._trace import Trace, read_trace

__all__ = [
    "Answers", "Calibration", "CommandError", "Error", "Model", "Replay", "Setting", "Trace", "attach", "calibrate",
    "command", "load", "read_trace", "replay", "run", "sweep", "train",
]
for _one in (Answers, Calibration, CommandError, Error, Model, Replay, Setting, Trace):
    _one.__module__ = __name__  # as tracebacks, help() and pickle name them
__version__ = _version()
