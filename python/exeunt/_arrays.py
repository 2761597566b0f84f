# SPDX-License-Identifier: Apache-2.0
"""Arrays for the library: numpy's where numpy is there, else `array.array`, shown to the caller as lists."""
from __future__ import annotations

import ctypes
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    from numpy import float32, int8, int32
    from numpy.typing import NDArray

    FloatArray = NDArray[float32]
    IntArray = NDArray[int32]
    ByteArray = NDArray[int8]
else:
    FloatArray = IntArray = ByteArray = Any

numpy: Any
try:
    import numpy
except ImportError:  # everything works without it, with lists
    numpy = None

# Codes of `array.array`, which numpy knows, too.
FLOAT, INT, BYTE = "f", "i", "b"


class Room:
    """An array that the library writes into: `row()` is where a row begins, for it, `values()` for the caller."""

    def __init__(self, code: str, *shape: int) -> None:
        self._shape = shape
        count = 1
        for size in shape:
            count *= size
        if numpy is not None:
            self._array: Any = numpy.empty(shape, code)
            self.address = self._array.ctypes.data
        else:
            self._array = array(code, bytes(count * array(code).itemsize))
            self.address = self._array.buffer_info()[0]
        self._row_bytes = array(code).itemsize * (count // shape[0] if shape[0] else 0)

    def row(self, index: int) -> int:
        return int(self.address) + index * self._row_bytes

    def values(self) -> Any:
        return self._array if numpy is not None else _nested(self._array.tolist(), self._shape)


def _nested(values: list[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return values
    size = 1
    for length in shape[1:]:
        size *= length
    return [_nested(values[i * size:(i + 1) * size], shape[1:]) for i in range(shape[0])]


def _plain(values: Any) -> Any:
    """Tensors of PyTorch, TensorFlow and JAX, and anything with `tolist`, as nested lists; lists as they are."""
    for name in ("detach", "cpu"):  # PyTorch: off the graph and the device
        values = getattr(values, name)() if hasattr(values, name) else values
    if not isinstance(values, (list, tuple)) and hasattr(values, "numpy"):
        values = values.numpy()
    return values.tolist() if hasattr(values, "tolist") else values


class Floats:
    """Numbers of any framework as one block of 32-bit floats, with `shape` and `address`."""

    def __init__(self, values: Any, what: str, dimensions: Sequence[int]) -> None:
        if numpy is not None:
            try:
                if hasattr(values, "detach"):
                    values = values.detach().cpu()
                    values = values.float() if hasattr(values, "float") else values  # bfloat16, which numpy lacks
                block = numpy.ascontiguousarray(values, dtype=numpy.float32)
            except (TypeError, ValueError) as error:
                raise TypeError(f"{what}: want numbers in an array: {error}") from None
            self.shape: tuple[int, ...] = block.shape
            self._block: Any = block
            self.address = block.ctypes.data
        else:
            flat = array("f")
            self.shape = _flatten(_plain(values), flat, what)
            self._block = flat
            self.address = flat.buffer_info()[0]
        if len(self.shape) not in dimensions:
            wanted = " or ".join(str(d) for d in dimensions)
            raise ValueError(f"{what}: got shape {self.shape}, want {wanted} dimensions")


def _flatten(values: Any, into: array[float], what: str) -> tuple[int, ...]:
    if not isinstance(values, (list, tuple)):
        try:
            into.append(float(values))
        except (TypeError, ValueError):
            raise TypeError(f"{what}: want numbers, got {values!r}") from None
        return ()
    shapes = {_flatten(value, into, what) for value in values}
    if len(shapes) > 1:
        raise ValueError(f"{what}: rows have different lengths")
    return (len(values), *(shapes.pop() if shapes else ()))


def packed(texts: Sequence[str], what: str, first: int = 0) -> tuple[bytes, Any]:
    """All texts in one run of bytes, and where each of them ends. `first` is the place of the first one for the caller."""
    try:
        pieces = [text.encode() for text in texts]
    except AttributeError:
        place, bad = next((i, text) for i, text in enumerate(texts) if not isinstance(text, str))
        raise TypeError(f"{what}: got {type(bad).__name__} at {first + place}, want str") from None
    return b"".join(pieces), (ctypes.c_size_t * len(pieces))(*accumulate(map(len, pieces)))
