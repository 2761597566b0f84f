# SPDX-License-Identifier: Apache-2.0
"""The command `exeunt`, which is part of this package, and its verbs as functions."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterable, Mapping


class CommandError(Exception):
    """A verb failed: `status` is its exit status (2 usage, 3 resources, 4 invalid file), `message` what it printed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.message)


def command() -> str:
    """The path of the command."""
    # EXEUNT_COMMAND: another build of the command, for whoever works on it.
    return os.environ.get("EXEUNT_COMMAND") or str(Path(__file__).parent / "bin" / "exeunt")


def _flags(options: Mapping[str, Any]) -> list[str]:
    """max_drop=0.02 is --max-drop 0.02, quiet=True is --quiet, a list repeats its flag; None and False leave it out.

    >>> _flags({"max_drop": 0.02, "policy": ["entropy", "patience"], "no_report": True, "seed": None})
    ['--max-drop', '0.02', '--policy', 'entropy', '--policy', 'patience', '--no-report']
    """
    out: list[str] = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            out += [flag] if one is True else [flag, os.fspath(one) if hasattr(one, "__fspath__") else str(one)]
    return out


def run(verb: str, *arguments: Any, **options: Any) -> str:
    """Runs a verb of the command and returns what it prints: `run("eval", "models/sst2", task="SST-2", json=True)`.

    Progress goes to standard error, as ever; without a terminal there is none. Raises `CommandError` if it fails.
    """
    words = [os.fspath(one) if hasattr(one, "__fspath__") else str(one) for one in arguments]
    done = subprocess.run([command(), verb, *words, *_flags(options)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(done.returncode, done.stderr.strip() or f"exeunt {verb} ended with {done.returncode}")
    if done.stderr:
        sys.stderr.write(done.stderr)
    return done.stdout


def attach(model: str | os.PathLike[str], texts: str | os.PathLike[str] | Iterable[str], *,
           out: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Gives a finished classifier exits, learned from texts without labels, and certifies a policy for them.

    `texts` is a file, or a list of texts. `attach("my-classifier", "texts.csv", out="fast", max_drop="2%")` writes the
    folder `fast` for `load`. Options are the flags of `exeunt attach`; the result is what it prints with --json.
    """
    if isinstance(texts, str) or hasattr(texts, "__fspath__"):
        return _attached(model, texts, out, options)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text}) + "\n")
        file.flush()
        return _attached(model, file.name, out, options)


def _attached(model: Any, texts: Any, out: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run("attach", model, texts=texts, out=out, json=True, **options))
    return result


def main() -> None:
    """The script `exeunt`: becomes the command."""
    path = command()
    try:
        os.execv(path, ["exeunt", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"exeunt: {path}: {error.strerror}")
