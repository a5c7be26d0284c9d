"""The link: Jupyter messages on one inherited stream socket, and the JSON they carry.

A frame is ``u32 L`` (little-endian), then L bytes in the layout of the
``v1.kernel.websocket.jupyter.org`` subprotocol: ``u64 n``, n ``u64`` offsets counted from the byte
after L, then the parts channel, header, parent header, metadata, content and any buffers.

``json`` imports ``re`` and costs milliseconds at start, so the C halves of it are used directly.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner
from _thread import RLock, get_ident
from itertools import count
from select import POLLIN
from select import poll as make_poll
from struct import Struct

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    # Channel, header, content, and what few messages have: metadata and buffers.
    Parts = tuple[str, bytes, bytes, "tuple[bytes, list[bytes]] | None"]

MAX_FRAME_BYTES = 68 << 20
_U32 = Struct("<I")
# Length, count and the six offsets of a message without buffers.
_LAYOUT = Struct("<I7Q")
_TABLE_BYTES = 56
# Below what makes the allocator ask the system for memory and give it back, read by read.
_READ_BYTES = 65_536
_LONG_READ_BYTES = 1 << 20
# Metadata and buffers of most messages.
_NO_MORE: tuple[bytes, tuple[bytes, ...]] = (b"{}", ())


class _Scanner:
    """What the C scanner wants to know of a decoder."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012 - the C scanner empties it after each use

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
    """The text within a limit of bytes: the first 40 % and the last 60 %, a notice between.

    Who reads it masks secrets in both parts, so none is cut in two: a word stays whole or goes, and
    so does a key in its armour.
    """
    if len(text) * 4 <= limit:
        return text
    data = without_surrogates(text).encode()
    if len(data) <= limit:
        return text
    head = _to_a_word(data[: limit * 4 // 10]).decode("utf-8", "ignore")
    tail = _from_a_word(data[-(limit * 6 // 10) :]).decode("utf-8", "ignore")
    omitted = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n... [{omitted:,} bytes omitted out of {len(data):,}] ...\n{tail}"


# Within so many bytes a secret has its end.
_LONGEST_SECRET = 8_192


def _to_a_word(head: bytes) -> bytes:
    """Without the word, or the key, at its end that may go on."""
    begin = head.rfind(b"-----BEGIN ", -_LONGEST_SECRET)
    if begin >= 0 and head.find(b"-----END ", begin) < 0:
        return head[:begin]
    space = max(head.rfind(it, -_LONGEST_SECRET) for it in (b" ", b"\n"))
    return head[: space + 1] if space >= 0 else head


def _from_a_word(tail: bytes) -> bytes:
    """Without the rest of a word, or of a key, at its beginning."""
    end = tail.find(b"-----END ", 0, _LONGEST_SECRET)
    if end >= 0 and tail.find(b"-----BEGIN ", 0, end) < 0:
        close = tail.find(b"-----", end + 9, end + 200)
        return tail[close + 5 if close >= 0 else end + 9 :]
    found = [tail.find(it, 0, _LONGEST_SECRET) for it in (b" ", b"\n")]
    spaces = [at for at in found if at >= 0]
    return tail[min(spaces) :] if spaces else tail


class LinkLost(Exception):
    """The manager's end of the link is gone, or what came over it makes no sense."""


class Link:
    """The kernel's end of the link; blocking. One thread reads, any may send."""

    def __init__(self, fd: int = -1) -> None:
        self.fd = fd
        self._prefix = b""
        self._buffer = bytearray()
        self._unread = b""
        self._serials = count(1)
        # A message that goes out with the next one.
        self._held = b""
        # Requests that came while an answer was waited for.
        self._set_aside: list[Parts] = []
        self._lock = RLock()
        self._main_thread = 0
        # The thread that writes, and what its destructors have to send meanwhile.
        self._writer = 0
        self._later: list[bytes] = []
        # True while bytes of a message are on their way: nothing may be raised in between.
        self.writing = False
        # True while an answer is waited for.
        self.waiting = False
        # What to do after that, if an interrupt arrived.
        self.after_write: Callable[[], None] | None = None

    def open(self, fd: int) -> None:
        """Takes over a descriptor; its messages have names of their own."""
        self.fd = fd
        self._prefix = os.urandom(6).hex().encode()
        self._main_thread = get_ident()

    def receive(self) -> Parts:
        """Waits for one message: channel, header and content, the last two as they came.

        After a MemoryError it may be called again: nothing that came is lost.
        """
        if self._set_aside:
            return self._set_aside.pop(0)
        while True:
            parts = self._take()
            if parts is not None:
                return parts
            self._fill()

    def wait_for(self, msg_type: bytes, number: int) -> dict[str, Any]:
        """In the midst of a cell: waits for what the manager answers, by its type and number.

        An interrupt is raised while it waits, and costs no byte of what comes later.
        """
        outer, self.waiting = self.waiting, True
        try:
            return self._wait_for(msg_type, number)
        finally:
            self.waiting = outer

    def _wait_for(self, msg_type: bytes, number: int) -> dict[str, Any]:
        while True:
            found = None
            self.writing = True
            try:
                parts = self._take()
                if parts is not None:
                    found = self._answer(parts, msg_type, number)
            finally:
                self.writing = False
            if self.after_write is not None:
                self.after_write()
            if found is not None:
                return found
            if parts is not None:
                continue
            ready = make_poll()
            ready.register(self.fd, POLLIN)
            ready.poll()
            self.writing = True
            try:
                self._fill()
            finally:
                self.writing = False

    def _answer(self, parts: Parts, msg_type: bytes, number: int) -> dict[str, Any] | None:
        _channel, header, data, _more = parts
        is_answer = (
            b'"msg_type":"warmcell_shown"' in header or b'"msg_type":"input_reply"' in header
        )
        if not is_answer:
            self._set_aside.append(parts)
        elif b'"msg_type":"%s"' % msg_type in header:
            content = loads(data)
            if content["warmcell"]["number"] == number:
                return content
        # Else what an earlier call has not waited for.
        return None

    def _take(self) -> Parts | None:
        """A message that is whole."""
        buffer = self._buffer
        if self._unread:
            data = self._unread
            if not buffer and len(data) >= 4 and _U32.unpack_from(data)[0] == len(data) - 4:
                # Nearly always: one read, one frame.
                parts = _parts(data)
                self._unread = b""
                return parts
            buffer += data
            self._unread = b""
        if len(buffer) < 4:
            return None
        size = _U32.unpack_from(buffer)[0]
        if size > MAX_FRAME_BYTES:
            raise LinkLost(f"a frame of {size} bytes")
        if len(buffer) < 4 + size:
            return None
        parts = _parts(bytes(buffer[: 4 + size]))
        del buffer[: 4 + size]
        return parts

    def _fill(self) -> None:
        buffer = self._buffer
        missing = 4
        if len(buffer) >= 4:
            missing = 4 + _U32.unpack_from(buffer)[0] - len(buffer)
        try:
            self._unread = os.read(
                self.fd, _READ_BYTES if missing <= _READ_BYTES else _LONG_READ_BYTES
            )
        except OSError as error:
            raise LinkLost(str(error)) from None
        if not self._unread:
            raise LinkLost("end of file")

    def send(
        self,
        channel: str,
        msg_type: str,
        parent: bytes,
        content: object,
        more: tuple[bytes, Sequence[bytes]] = _NO_MORE,
    ) -> None:
        """Sends one message that answers the request with the given header bytes."""
        self._write(self._frame(channel, msg_type, parent, content, more))

    def hold(self, channel: str, msg_type: str, parent: bytes, content: object) -> None:
        """Has one message go out with the next, which is about to be sent.

        The manager wakes once for the two of them.
        """
        self._held += self._frame(channel, msg_type, parent, content)

    def _frame(
        self,
        channel: str,
        msg_type: str,
        parent: bytes,
        content: object,
        more: tuple[bytes, Sequence[bytes]] = _NO_MORE,
    ) -> bytes:
        header = b'{"msg_id":"%s_%d","msg_type":"%s"}' % (
            self._prefix,
            next(self._serials),
            msg_type.encode(),
        )
        name, body = channel.encode(), dumps(content)
        metadata, buffers = more
        offset = _TABLE_BYTES + 8 * len(buffers)
        head = offset + len(name)
        ancestor = head + len(header)
        extra = ancestor + len(parent)
        start = extra + len(metadata)
        end = start + len(body)
        if not buffers:
            table = _LAYOUT.pack(end, 6, offset, head, ancestor, extra, start, end)
        else:
            offsets = [offset, head, ancestor, extra, start, end]
            for part in buffers:
                end += len(part)
                offsets.append(end)
            table = Struct(f"<I{len(offsets) + 1}Q").pack(end, len(offsets), *offsets)
        return b"".join((table, name, header, parent, metadata, body, *buffers))

    def _write(self, data: bytes) -> None:
        me = get_ident()
        if self._writer == me:
            # A destructor, in the midst of a message: half of one would be the end of the link.
            self._later.append(data)
            return
        main = me == self._main_thread
        if main:
            self.writing = True
        try:
            with self._lock:
                self._writer = me
                try:
                    held, self._held = self._held, b""
                    self._write_out(held + data if held else data)
                    while self._later:
                        self._write_out(self._later.pop(0))
                finally:
                    self._writer = 0
        except OSError as error:
            raise LinkLost(str(error)) from None
        finally:
            if main:
                self.writing = False
        if main and self.after_write is not None:
            self.after_write()

    def _write_out(self, data: bytes) -> None:
        sent = os.write(self.fd, data)
        while sent < len(data):
            sent += os.write(self.fd, memoryview(data)[sent:])

    def close(self) -> None:
        try:
            os.close(self.fd)
        except OSError:
            pass


def _parts(frame: bytes) -> Parts:
    """Cuts a frame by its offsets; the manager is trusted, so the checks are few."""
    _size, number, name, header, parent, metadata, content, end = _LAYOUT.unpack_from(frame)
    more = None
    if number != 6 or content - metadata != 2:
        places = Struct(f"<{number - 5}Q").unpack_from(frame, 52)
        buffers = [frame[4 + a : 4 + b] for a, b in zip(places, places[1:])]
        more = frame[4 + metadata : 4 + content], buffers
    return (
        frame[4 + name : 4 + header].decode(),
        frame[4 + header : 4 + parent],
        frame[4 + content : 4 + end],
        more,
    )
