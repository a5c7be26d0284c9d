"""What the limit programs share: the modules that our forkserver preloads, and JSON frames.

A frame is a little-endian u32 and that many bytes of JSON, read and written on descriptor 0 with
the C halves of ``json``: nothing leaner is possible in Python.
"""

import __future__  # noqa: F401

import _ast  # noqa: F401
import _contextvars  # noqa: F401
import _ctypes  # noqa: F401
import _signal  # noqa: F401
import _socket  # noqa: F401
import faulthandler  # noqa: F401
import fcntl  # noqa: F401
import gc  # noqa: F401
import mmap  # noqa: F401
import opcode  # noqa: F401
import os
import resource  # noqa: F401
import select  # noqa: F401
import time  # noqa: F401
from _json import encode_basestring, make_encoder, make_scanner
from struct import pack, unpack


class _Decoder:
    strict = False
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo = {}


_scan = make_scanner(_Decoder())
_encode = make_encoder(None, None, encode_basestring, None, ":", ",", False, False, False)


def receive():
    """One frame as a value; None at the end."""
    data = os.read(0, 65536)
    if not data:
        return None
    (size,) = unpack("<I", data[:4])
    body = data[4:]
    while len(body) < size:
        body += os.read(0, 65536)
    return _scan(body.decode(), 0)[0]


def send(value):
    """Writes one frame."""
    data = "".join(_encode(value, 0)).encode()
    os.write(0, pack("<I", len(data)) + data)
