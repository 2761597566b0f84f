# SPDX-License-Identifier: Apache-2.0
"""The command `exeunt`, which is part of this package, and its verbs as functions."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from ._errors import CommandError, in_python


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


def _follow(words: list[str]) -> tuple[int, str, str]:
    """Status, output and messages of a program. Messages are shown as they come, except those of its failure."""
    told: list[str] = []

    def show(messages: Iterable[str]) -> None:
        failed = False
        for line in messages:
            told.append(line)
            failed = failed or line.startswith("error: ")
            if not failed:
                sys.stderr.write(line)
                sys.stderr.flush()

    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    assert process.stdout is not None and process.stderr is not None
    with process:
        follower = threading.Thread(target=show, args=(process.stderr,))
        follower.start()
        try:
            out = process.stdout.read()
        except BaseException:  # interrupted: it must not work on alone
            process.terminate()
            raise
        finally:
            follower.join()
    return process.returncode, out, "".join(told)


def _failure(verb: str, status: int, told: str) -> CommandError:
    found = re.search(r"^error: (.*?)(?:\n *hint: (.*))?\Z", told.strip(), re.DOTALL | re.MULTILINE)
    if found is None:
        return CommandError(status, told.strip() or f"exeunt {verb} ended with {status}")
    return CommandError(status, found[1].strip(), in_python((found[2] or "").strip()))


def run(verb: str, *arguments: Any, **options: Any) -> Any:
    """Runs a verb of the command: `run("eval", "models/sst2", data="test.csv", json=True)`. Keywords are its flags.

    Returns what it prints as text; with json=True as an object, or a list of objects where it prints one in each line.
    Notices and progress go to `sys.stderr` while it runs (quiet=True: none). Raises `CommandError` if it fails.
    """
    words = [os.fspath(one) if hasattr(one, "__fspath__") else str(one) for one in arguments]
    status, out, told = _follow([command(), verb, *words, *_flags(options)])
    if status != 0:
        raise _failure(verb, status, told)
    if options.get("json") is not True:
        return out
    try:
        return json.loads(out)
    except ValueError:
        return [json.loads(line) for line in out.splitlines()]


def _row(given: Any) -> dict[str, Any]:
    """A text, (text, label) or a row by names of columns, as JSON has it: what is missing (nan) is null.

    >>> _row("a"), _row(("a", 1)), _row({"body": "a", "y": float("nan")})
    ({'text': 'a'}, {'text': 'a', 'label': 1}, {'body': 'a', 'y': None})
    """
    if isinstance(given, str):
        return {"text": given}
    if isinstance(given, Mapping):
        return {name: None if value != value else value for name, value in given.items()}
    if isinstance(given, (list, tuple)) and len(given) == 2:
        return {"text": given[0], "label": given[1]}
    raise TypeError(f"row: got {given!r}, want a text, (text, label) or a mapping")


@contextmanager
def _file(data: Any) -> Iterator[Any]:
    """A file as it is; a DataFrame, or rows, as a temporary JSONL file."""
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        yield data
        return
    if hasattr(data, "columns"):
        data = data.to_dict("records")
    rows = data.dropna() if hasattr(data, "dropna") else data  # a Series
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(_row(row), default=str) + "\n")
        file.flush()
        yield file.name


def attach(model: str | os.PathLike[str], texts: str | os.PathLike[str] | Iterable[Any], *,
           out: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Gives a finished classifier exits, learned from texts without labels, and certifies a policy for them.

    `texts` is a file, a list or a Series of texts, or a DataFrame (`text_column="body"` names its column).
    `attach("my-classifier", "texts.csv", out="fast", max_drop="2%")` writes the folder `fast` for `load`. Options are
    the flags of `exeunt attach`; the result is what it prints with --json. Progress goes to `sys.stderr`.
    """
    with _file(texts) as file:
        done: dict[str, Any] = run("attach", model, texts=file, out=out, json=True, **options)
    return done


def train(data: str | os.PathLike[str] | Iterable[Any], *, out: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Trains a classifier with exits, measures it on rows that it holds out, and certifies a policy on others of them.

    `data` is a CSV, TSV or JSONL file, a DataFrame (columns `text` and `label`, or `text_column=`, `label_column=`), or
    a list of (text, label). Options are the flags of `exeunt train`; the result is what it prints with --json. Needs a
    command that was built with the trainer: the wheel's is not, `EXEUNT_COMMAND` names another one.
    """
    with _file(data) as file:
        done: dict[str, Any] = run("train", data=file, out=out, json=True, **options)
    return done


def main() -> None:
    """The script `exeunt`: becomes the command."""
    path = command()
    try:
        os.execv(path, ["exeunt", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"exeunt: {path}: {error.strerror}")
