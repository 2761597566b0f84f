# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions: with a code to branch on, and a hint in the words of Python."""
from __future__ import annotations

import re
from typing import Any

_CODES = {1: "failure", 2: "usage", 3: "resources", 4: "bad_file"}
# A flag with what can only be its value; the word behind a flag is often the next of the sentence.
_FLAG = re.compile(r"--([a-z][a-z-]*[a-z])(?:[ =]([A-Z]+\b|\d[\d.,]*%?|cpu|cuda|auto|fp32|bf16|int8|full|fit))?")


def in_python(hint: str) -> str:
    """Flags as the keywords they are here. Whole commands stay as they are typed.

    >>> in_python("run it with --device cpu, or allow more with --max-drop")
    'run it with device="cpu", or allow more with max_drop='
    >>> in_python("add texts without labels (--unlabelled FILE)")
    'add texts without labels (unlabelled=FILE)'
    >>> in_python("make it again: exeunt trace MODEL --out FILE")
    'make it again: exeunt trace MODEL --out FILE'
    """
    if re.search(r"\bexeunt [a-z]+ ", hint):
        return hint

    def keyword(found: re.Match[str]) -> str:
        value = found[2] or ""
        plain = not value or value.isupper() or value.replace(".", "", 1).isdigit()
        return f"{found[1].replace('-', '_')}=" + (value if plain else f'"{value}"')

    return _FLAG.sub(keyword, hint)


class Error(Exception):
    """What was refused, why, and, where that is known, what to do about it.

    `code` is "usage" (an argument), "resources" (memory, a missing GPU or precision), "bad_file" (a file or a text) or
    "failure"; `status` is the same as the command's exit status, 2, 3, 4 or 1; `message` and `hint` are sentences.
    """

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.status = status
        self.message = message
        self.hint = hint

    @property
    def code(self) -> str:
        """"usage", "resources", "bad_file" or "failure"."""
        return _CODES.get(self.status, "failure")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.message, self.hint)  # it travels between processes


class CommandError(Error):
    """A verb of the command failed."""
