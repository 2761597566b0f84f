# SPDX-License-Identifier: Apache-2.0
"""libexeunt.so by ctypes: the declarations of exeunt.h, and errors as exceptions. ctypes releases the GIL in every call."""
from __future__ import annotations

import ctypes
import os
import re
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path

from ._errors import Error, in_python

ABI = 0  # of the interface that is declared here


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("policy", c_char_p), ("precision", c_char_p), ("threads", c_int),
                ("max_length", c_int), ("device", c_char_p)]


class Texts(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("count", c_size_t), ("bytes", c_char_p), ("ends", c_void_p),
                ("pair_bytes", c_char_p), ("pair_ends", c_void_p)]


class AnswerArrays(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("labels", c_void_p), ("scores", c_void_p), ("logits", c_void_p),
                ("layers", c_void_p), ("tokens", c_void_p), ("truncated", c_void_p), ("given", c_void_p)]


class Logits(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("rows", c_size_t), ("exits", c_int), ("outputs", c_int),
                ("logits", c_void_p), ("gold", c_void_p), ("layers", c_void_p), ("multi_label", c_int),
                ("thresholds", c_void_p), ("cluster", c_void_p)]


class Plan(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("max_drop", c_void_p), ("budgets", c_size_t), ("confidence", c_double),
                ("loss", c_char_p), ("method", c_char_p), ("rules", c_char_p), ("seed", c_uint), ("no_report", c_int),
                ("low", c_double), ("high", c_double)]


_FUNCTIONS = {
    "exeunt_version": (c_char_p, []),
    "exeunt_abi_version": (c_int, []),
    "exeunt_last_error": (c_char_p, []),
    "exeunt_last_hint": (c_char_p, []),
    "exeunt_open": (c_int, [c_char_p, POINTER(Options), POINTER(c_void_p)]),
    "exeunt_close": (None, [c_void_p]),
    "exeunt_engine": (c_char_p, [c_void_p]),
    "exeunt_problem": (c_char_p, [c_void_p]),
    "exeunt_label_count": (c_int, [c_void_p]),
    "exeunt_label": (c_char_p, [c_void_p, c_int]),
    "exeunt_output_count": (c_int, [c_void_p]),
    "exeunt_exit_count": (c_int, [c_void_p]),
    "exeunt_exit_layer": (c_int, [c_void_p, c_int]),
    "exeunt_promise_json": (c_char_p, [c_void_p]),
    "exeunt_answer": (c_int, [c_void_p, c_char_p, POINTER(Texts), POINTER(AnswerArrays)]),
    "exeunt_arrow_batch": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "exeunt_arrow_stream": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p, c_void_p]),
    "exeunt_trace": (c_int, [c_void_p, POINTER(Texts), c_void_p, c_void_p]),
    "exeunt_replay": (c_int, [POINTER(Logits), c_char_p, c_void_p, c_void_p]),
    "exeunt_sweep": (c_int, [POINTER(Logits), c_char_p, POINTER(c_void_p)]),
    "exeunt_calibrate": (c_int, [POINTER(Logits), POINTER(Plan), POINTER(c_void_p)]),
    "exeunt_free": (None, [c_void_p]),
}


def _opened() -> ctypes.CDLL:
    # EXEUNT_LIBRARY: another build of the library, for whoever works on it.
    path = os.environ.get("EXEUNT_LIBRARY") or str(Path(__file__).parent / "lib" / f"libexeunt.so.{ABI}")
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    found = library.exeunt_abi_version()
    if found != ABI:
        raise ImportError(f"{path}: got interface version {found}, want {ABI}")
    return library


lib = _opened()


def version() -> str:
    return str(lib.exeunt_version().decode())


def check(status: int, first: int = 0) -> None:
    """Raises what failed. `first` is the place of the call's first text for the caller."""
    if status != 0:
        message = re.sub(r"^text (\d+):", lambda found: f"text {first + int(found[1])}:", lib.exeunt_last_error().decode())
        hint = lib.exeunt_last_hint().decode().replace("(--unlabelled FILE)", "(their gold is nan)")
        raise Error(status, message, in_python(hint))


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def taken(json: c_void_p) -> str:
    """The text of a string that the library handed over, which is freed."""
    try:
        return ctypes.string_at(json.value or 0).decode()
    finally:
        lib.exeunt_free(json)
