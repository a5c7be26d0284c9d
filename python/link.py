"""The link: Jupyter messages on one inherited stream socket, and the JSON they carry.

A frame is ``u32 L`` (little-endian), then L bytes in the layout of the
``v1.kernel.websocket.jupyter.org`` subprotocol: ``u64 n``, n ``u64`` offsets counted from the byte
after L, then the parts channel, header, parent header, metadata, content and any buffers.

``json`` imports ``re`` and costs milliseconds at start, so the C halves of it are used directly.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner
from struct import Struct, unpack_from

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MAX_FRAME_BYTES = 68 << 20
_U32 = Struct("<I")
_U64 = Struct("<Q")
# Length, count and the six offsets of a message without buffers.
_LAYOUT = Struct("<I7Q")


class _Scanner:
    """What the C scanner wants to know of a decoder."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> float:
        return float(name)


def _refuse(value: object) -> None:
    raise TypeError("not a JSON value: " + type(value).__name__)


_scan = make_scanner(_Scanner())
_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def loads(data: bytes) -> Any:
    """Reads one JSON value; ValueError or RecursionError if it is none."""
    text = data.decode("utf-8", "replace").strip()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("no JSON value") from None
    if end != len(text):
        raise ValueError("data after the JSON value")
    return value


def dumps(value: object) -> bytes:
    """Writes one JSON value, compact; a lone surrogate becomes U+FFFD."""
    text = "".join(_encode(value, 0))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return without_surrogates(text).encode()


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate replaced, so that it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two halves that stand together are the character that they mean.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def exact(text: str) -> str:
    """The same text as a plain str: a subclass can lie about its length, or raise."""
    return "".join((text,))


def cut(text: str, limit: int = 50_000) -> str:
    """The text within a limit of bytes: the first 40 % and the last 60 %, a notice between."""
    if len(text) * 4 <= limit:
        return text
    data = without_surrogates(text).encode()
    if len(data) <= limit:
        return text
    head = data[: limit * 4 // 10].decode("utf-8", "ignore")
    tail = data[-(limit * 6 // 10) :].decode("utf-8", "ignore")
    omitted = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n... [{omitted:,} bytes omitted out of {len(data):,}] ...\n{tail}"


class LinkLost(Exception):
    """The manager's end of the link is gone, or what came over it makes no sense."""


class Link:
    """The kernel's end of the link; blocking, used by one thread."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = bytearray()
        self._serial = 0
        self._prefix = os.urandom(6).hex().encode()
        # True while bytes of a message are on their way: nothing may be raised in between.
        self.writing = False
        # What to do after a write during which an interrupt arrived.
        self.after_write: Callable[[], None] | None = None

    def receive(self) -> tuple[str, bytes, bytes]:
        """Waits for one message: channel, header and content, the last two as they came."""
        buffer = self._buffer
        while True:
            if len(buffer) >= 4:
                size = _U32.unpack_from(buffer)[0]
                if size > MAX_FRAME_BYTES:
                    raise LinkLost(f"a frame of {size} bytes")
                if len(buffer) >= 4 + size:
                    body = bytes(buffer[4 : 4 + size])
                    del buffer[: 4 + size]
                    return _parts(body)
            try:
                data = os.read(self.fd, 262_144)
            except OSError as error:
                raise LinkLost(str(error)) from None
            if not data:
                raise LinkLost("end of file")
            buffer += data

    def send(
        self,
        channel: str,
        msg_type: str,
        parent: bytes,
        content: object,
        buffers: Sequence[bytes] = (),
    ) -> None:
        """Sends one message that answers the request with the given header bytes."""
        self._serial += 1
        header = b'{"msg_id":"%s_%d","msg_type":"%s"}' % (
            self._prefix,
            self._serial,
            msg_type.encode(),
        )
        parts = (channel.encode(), header, parent, b"{}", dumps(content), *buffers)
        offset = 8 * (len(parts) + 2)
        offsets = [offset]
        for part in parts:
            offset += len(part)
            offsets.append(offset)
        layout = _LAYOUT if not buffers else Struct(f"<I{len(offsets) + 1}Q")
        self._write(b"".join((layout.pack(offset, len(offsets), *offsets), *parts)))

    def _write(self, data: bytes) -> None:
        self.writing = True
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            raise LinkLost(str(error)) from None
        finally:
            self.writing = False
        if self.after_write is not None:
            self.after_write()

    def close(self) -> None:
        try:
            os.close(self.fd)
        except OSError:
            pass


def _parts(body: bytes) -> tuple[str, bytes, bytes]:
    """Cuts a body by its offsets; the manager is trusted, so the checks are few."""
    (count,) = _U64.unpack_from(body)
    offsets = unpack_from(f"<{count}Q", body, 8)
    channel = body[offsets[0] : offsets[1]].decode()
    return channel, body[offsets[1] : offsets[2]], body[offsets[4] : offsets[5]]
