# SPDX-License-Identifier: Apache-2.0
"""Arrow's C data interface by its specification alone: arrays made and read with ctypes, streams of them, and whether all of it is
released. For arrow_test.py and the tests of the examples."""
import ctypes
import errno
import struct
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_void_p

python = ctypes.pythonapi
new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(('PyCapsule_New', python))
inside = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(('PyCapsule_GetPointer', python))
RELEASE = CFUNCTYPE(None, c_void_p)


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [('format', c_char_p), ('name', c_char_p), ('metadata', c_char_p), ('flags', c_int64), ('n_children', c_int64),
                   ('children', POINTER(POINTER(Schema))), ('dictionary', c_void_p), ('release', RELEASE), ('private_data', c_void_p)]
Array._fields_ = [('length', c_int64), ('null_count', c_int64), ('offset', c_int64), ('n_buffers', c_int64), ('n_children', c_int64),
                  ('buffers', POINTER(c_void_p)), ('children', POINTER(POINTER(Array))), ('dictionary', c_void_p),
                  ('release', RELEASE), ('private_data', c_void_p)]
GET = CFUNCTYPE(c_int, c_void_p, c_void_p)
LAST = CFUNCTYPE(c_void_p, c_void_p)
Stream._fields_ = [('get_schema', GET), ('get_next', GET), ('get_last_error', LAST), ('release', RELEASE), ('private_data', c_void_p)]

thunks = []  # functions that C may still return into
held = {}  # what structs that are not released point to, by a number of their own
numbers = iter(range(1, 1 << 60))


def hold(given, *things):
    """Gives a struct a release that lets go of its children and of `things`, once."""
    number = next(numbers)

    def release(address):
        mine = type(given).from_address(address)
        if type(given) is not Stream:
            for i in range(mine.n_children):
                child = mine.children[i].contents
                if child.release:
                    child.release(ctypes.addressof(child))
        held.pop(number)
        mine.release = RELEASE()

    given.release, given.private_data = RELEASE(release), number
    thunks.append(given.release)
    held[number] = things
    return given


def schema(format, name='', children=()):
    pointers = (POINTER(Schema) * len(children))(*map(ctypes.pointer, children))
    return hold(Schema(format.encode(), name.encode(), None, 2, len(children), pointers), pointers, children)


def array(length, buffers=(), children=(), offset=0, nulls=0):
    places = (c_void_p * max(len(buffers), 1))(*(None if one is None else ctypes.addressof(one) for one in buffers))
    pointers = (POINTER(Array) * len(children))(*map(ctypes.pointer, children))
    return hold(Array(length, nulls, offset, len(buffers), len(children), places, pointers), places, pointers, buffers, children)


def bits(given):
    data = (ctypes.c_uint8 * (len(given) // 8 + 1))()
    for i, one in enumerate(given):
        data[i // 8] |= bool(one) << i % 8
    return data


def block(data):
    return (ctypes.c_char * max(len(data), 1))(*data)


def strings(texts, format='u', offset=0, length=None):
    """A column of texts, some of them None, of which the first `offset` are sliced off."""
    valid = bits([text is not None for text in texts])
    length = len(texts) - offset if length is None else length
    pieces = [text if isinstance(text, bytes) else (text or '').encode() for text in texts]
    nulls = -1 if None in texts else 0
    if format == 'vu':  # those that do not fit into a view lie in two buffers
        buffers, views = [b'', b''], b''
        for i, piece in enumerate(pieces):
            if len(piece) <= 12:
                views += struct.pack('<i12s', len(piece), piece)
            else:
                views += struct.pack('<i4sii', len(piece), piece[:4], i % 2, len(buffers[i % 2]))
                buffers[i % 2] += piece
        sizes = (c_int64 * 2)(*map(len, buffers))
        return array(length, [valid, block(views), *map(block, buffers), sizes], offset=offset, nulls=nulls)
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    number = c_int64 if format == 'U' else c_int32
    return array(length, [valid if nulls else None, (number * len(ends))(*ends), block(b''.join(pieces))], offset=offset, nulls=nulls)


def integers(values, offset=0, length=None):
    return array(len(values) - offset if length is None else length, [None, (c_int64 * len(values))(*values)], offset=offset)


def table(*columns, length=None, offset=0):
    return array(columns[0].length if length is None else length, [None], columns, offset)


TABLE = (('l', 'id'), ('u', 'text'))


def table_type(columns=TABLE):
    return schema('+s', '', [schema(*one) for one in columns])


class Source:
    """A stream of batches, made one at a time when asked for; `asked` counts."""

    def __init__(self, batches, type_of=table_type, fails_at=None):
        self.asked = 0
        message = ctypes.create_string_buffer(b'the disk is gone')

        def get_schema(_, out):
            ctypes.memmove(out, ctypes.byref(type_of()), ctypes.sizeof(Schema))
            return 0

        def get_next(_, out):
            if self.asked == fails_at:
                return errno.EIO
            made = batches[self.asked]() if self.asked < len(batches) else Array()
            self.asked += 1
            ctypes.memmove(out, ctypes.byref(made), ctypes.sizeof(Array))
            return 0

        calls = (GET(get_schema), GET(get_next), LAST(lambda _: ctypes.addressof(message)))
        self.stream = hold(Stream(*calls), calls, message)

    def __arrow_c_stream__(self, requested_schema=None):
        return new_capsule(ctypes.addressof(self.stream), b'arrow_array_stream', None)


class Batch:
    def __init__(self, type_of, given):
        self.type, self.given = type_of, given

    def __arrow_c_array__(self, requested_schema=None):
        return (new_capsule(ctypes.addressof(self.type), b'arrow_schema', None),
                new_capsule(ctypes.addressof(self.given), b'arrow_array', None))


def values(kind, given):
    """What an array holds, by its type; its slice, and None where it is null."""
    format, out = kind.format.decode(), []
    for i in range(given.offset, given.offset + given.length):
        valid = given.buffers[0]
        if valid and not ctypes.c_uint8.from_address(valid + i // 8).value >> i % 8 & 1:
            out.append(None)
        elif format in 'ilf':
            number = {'i': c_int32, 'l': c_int64, 'f': ctypes.c_float}[format]
            out.append(number.from_address(given.buffers[1] + i * ctypes.sizeof(number)).value)
        elif format in ('u', '+l'):
            begin, end = (c_int32.from_address(given.buffers[1] + (i + j) * 4).value for j in (0, 1))
            if format == 'u':
                out.append(ctypes.string_at(given.buffers[2] + begin, end - begin).decode() if end > begin else '')
            else:
                out.append(values(kind.children[0].contents, given.children[0].contents)[begin:end])
        else:
            raise AssertionError(format)
    return out


def columns(kind, given):
    assert kind.format == b'+s' and given.offset == 0
    names = [kind.children[i].contents.name.decode() for i in range(kind.n_children)]
    assert all(given.children[i].contents.length == given.length for i in range(given.n_children))
    return {name: values(kind.children[i].contents, given.children[i].contents) for i, name in enumerate(names)
            if kind.children[i].contents.format in (b'i', b'l', b'f', b'u', b'+l')}


class Reader:
    """Moves a stream out of its capsule, as a consumer does."""

    def __init__(self, answers):
        self.stream = Stream()
        capsule = answers.__arrow_c_stream__()
        theirs = Stream.from_address(inside(capsule, b'arrow_array_stream'))
        ctypes.memmove(ctypes.byref(self.stream), ctypes.byref(theirs), ctypes.sizeof(Stream))
        theirs.release = RELEASE()
        self.error = None

    def schema(self):
        out = Schema()
        assert self.stream.get_schema(ctypes.addressof(self.stream), ctypes.addressof(out)) == 0
        return out

    def next(self):
        """None at the end, and where it failed, with the status and the message in `error`."""
        out = Array()
        status = self.stream.get_next(ctypes.addressof(self.stream), ctypes.addressof(out))
        if status:
            text = self.stream.get_last_error(ctypes.addressof(self.stream))
            self.error = (status, ctypes.string_at(text).decode())
        return out if out.release else None

    def close(self):
        self.stream.release(ctypes.addressof(self.stream))


def release(*given):
    for one in given:
        one.release(ctypes.addressof(one))
