# SPDX-License-Identifier: Apache-2.0
"""Exeunt: text classifiers that exit early, with a promise about what that costs.

>>> from exeunt import Classifier
>>> model = Classifier("models/sst2")                              # doctest: +SKIP
>>> answers = model(["A delight from start to end.", "Dull."])     # doctest: +SKIP
>>> answers.labels, answers.layers                                 # doctest: +SKIP
(['positive', 'negative'], array([3, 4], dtype=int32))

`Classifier`, or `load`, runs a model folder in this process; `attach`, `train` and the other verbs of the command run the command that is part of
this package; `calibrate`, `sweep` and `replay` work on the logits of any model in any framework.
"""
from ._command import attach, command, run, train
from ._errors import CommandError, Error
from ._library import version as _version
from ._model import Answers, Model, load
from ._pipeline import Pipeline, pipeline
from ._replay import Calibration, Replay, Setting, calibrate, replay, sweep
from ._trace import Trace, read_trace

__all__ = [
    "Answers", "Calibration", "Classifier", "CommandError", "Error", "Model", "Pipeline", "Replay", "Setting", "Trace",
    "attach", "calibrate", "command", "load", "pipeline", "read_trace", "replay", "run", "sweep", "train",
]
Classifier = Model  # the same class under the name that a program reads best
for _one in (Answers, Calibration, CommandError, Error, Model, Pipeline, Replay, Setting, Trace):
    _one.__module__ = __name__  # as tracebacks, help() and pickle name them
__version__ = _version()
