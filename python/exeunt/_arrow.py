# SPDX-License-Identifier: Apache-2.0
"""Arrow's structs in capsules, as its PyCapsule interface hands them from one package to another. No package of Arrow is used."""
from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int64, c_void_p
from typing import Any

_python = ctypes.pythonapi
# The structs of Arrow, by name of their capsules: their size, and where `release` is.
_STRUCTS = {b"arrow_schema": (9 * 8, 7 * 8), b"arrow_array": (10 * 8, 8 * 8), b"arrow_array_stream": (5 * 8, 3 * 8)}
_RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, c_void_p)  # the capsule by its address: it is dying, and may not be held again

_python.PyMem_RawCalloc.restype, _python.PyMem_RawCalloc.argtypes = c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_python.PyMem_RawFree.restype, _python.PyMem_RawFree.argtypes = None, [c_void_p]
_python.PyCapsule_New.restype, _python.PyCapsule_New.argtypes = ctypes.py_object, [c_void_p, c_char_p, _DESTRUCTOR]
_get_name = ctypes.PYFUNCTYPE(c_char_p, c_void_p)(("PyCapsule_GetName", _python))
_get_dying = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _python))
_get = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", _python))


def _destroy(capsule: int, get_name: Any = _get_name, get: Any = _get_dying, structs: Any = _STRUCTS, free: Any = _python.PyMem_RawFree,
             function: Any = _RELEASE, value: Any = c_int64) -> None:  # defaults: at the end of Python globals are gone
    name = get_name(capsule)
    address = get(capsule, name)
    release = value.from_address(address + structs[name][1]).value
    if release:  # nobody took what is inside
        function(release)(address)
    free(address)


_destructor = _DESTRUCTOR(_destroy)
for _kept in (_destructor, *_STRUCTS):  # capsules may outlive this module
    _python.Py_IncRef(ctypes.py_object(_kept))


class Capsule:
    """An empty struct in a capsule, for the library to fill."""

    def __init__(self, name: bytes) -> None:
        self.address = int(_python.PyMem_RawCalloc(1, _STRUCTS[name][0]))
        kept = next(key for key in _STRUCTS if key == name)  # which the capsule points to
        self.capsule: Any = _python.PyCapsule_New(self.address, kept, _destructor)


def address_of(capsule: Any, name: bytes) -> int:
    return int(_get(capsule, name))


class ArrowStream:
    """Batches of answers, each made when it is asked for. `pyarrow.table`, `polars.DataFrame`, DuckDB and everything else that
    knows `__arrow_c_stream__` reads it, once."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        capsule, self._capsule = self._capsule, None
        if capsule is None:
            raise ValueError("the stream was read already")
        return capsule


class ArrowBatch:
    """One batch of answers, for everything that knows `__arrow_c_array__`, once."""

    def __init__(self, schema: Any, array: Any) -> None:
        self._capsules = (schema, array)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        capsules, self._capsules = self._capsules, (None, None)
        if capsules[1] is None:
            raise ValueError("the batch was read already")
        return capsules
