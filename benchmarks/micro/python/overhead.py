# SPDX-License-Identifier: Apache-2.0
"""What Python adds to the library's time, for each text of a batch.

    overhead.py [MODEL]       with the package installed, or PYTHONPATH=python and EXEUNT_LIBRARY=…/libexeunt.so.0

Times whole calls, and inside them the call of the library, by a clock around it; the difference is Python's. Prints the median of
many calls as JSON lines. A tiny model will do: the library's own time does not count.
"""
import json
import statistics
import sys
import time
from pathlib import Path

import exeunt
from exeunt import _model

ROOT = Path(__file__).resolve().parents[3]
TEXT = 'a great film, and a delight from start to end; the plot is thin, the dialogue is not'


class Timed:
    """The library with a clock around one of its functions."""

    def __init__(self, library):
        self._library = library
        self.inside = 0

    def __getattr__(self, name):
        return getattr(self._library, name)

    def exeunt_answer(self, *arguments):
        start = time.perf_counter_ns()
        status = self._library.exeunt_answer(*arguments)
        self.inside = time.perf_counter_ns() - start
        return status


def main():
    model = exeunt.load(sys.argv[1] if len(sys.argv) > 1 else ROOT / 'tests/fixtures/checkpoints/bert-deebert', policy='layer:1')
    timed = _model.lib = Timed(_model.lib)
    for size in (1, 8, 32, 128, 1024):
        texts = [f'{TEXT} {i}' for i in range(size)]
        outside = []
        for _ in range(max(30, 20000 // size)):
            start = time.perf_counter_ns()
            answers = model(texts)
            labels = answers.labels
            outside.append(time.perf_counter_ns() - start - timed.inside)
        assert len(labels) == size
        print(json.dumps({'batch': size, 'python_us_per_text': round(statistics.median(outside) / size / 1000, 3),
                          'calls': len(outside)}), flush=True)


if __name__ == '__main__':
    main()
