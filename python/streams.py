"""sys.stdout and sys.stderr of a kernel: pipes, in order, almost nothing lost by a kill.

Text goes straight to the pipe, so that what was printed before a kill is there and raw writes to
the descriptor keep their place. That costs a system call a print; after thousands of prints in a
fraction of a second the stream turns to block buffering, where no Python code runs per print, and
turns back when a block comes late. So a kill can lose at most the last 72 KiB of a flood.

There is no lock: a process forked while another thread prints cannot inherit one that is held.
"""

from __future__ import annotations

import io
import os
import sys
from time import monotonic

BLOCK_BYTES = 65_536
# A print is two writes: the text and the line end.
FLOOD_WRITES = 5_000
FLOOD_SECONDS = 0.2
CALM_SECONDS = 0.03

# True while bytes are being written: an interrupt is not raised then, it waits for the end.
writing = False
after_write = None


class PipeWriter(io.BufferedIOBase):
    """The binary layer below a text stream; see the module."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pending = bytearray()
        self._text: io.TextIOWrapper | None = None
        self._flood = False
        self._count = 0
        self._since = monotonic()
        self.raw = io.FileIO(fd, "wb", closefd=False)
        self.name = "<stdout>" if fd == 1 else "<stderr>"
        self.mode = "wb"

    def attach_text(self, text: io.TextIOWrapper) -> None:
        self._text = text

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self._flood:
            now = monotonic()
            late = now - self._since > CALM_SECONDS
            self._since = now
            self._pending += data
            if late:
                self._turn(flood=False)
            elif len(self._pending) >= BLOCK_BYTES:
                self.flush()
            return len(data)
        self._count += 1
        if self._count >= FLOOD_WRITES:
            now = monotonic()
            if now - self._since < FLOOD_SECONDS:
                self._pending += data
                self._turn(flood=True)
                return len(data)
            self._count = 0
            self._since = now
        if self._pending:
            self._pending += data
            self.flush()
        else:
            write_all(self._fd, data)
        return len(data)

    def flush(self) -> None:
        if self._pending:
            data, self._pending = self._pending, bytearray()
            write_all(self._fd, data)

    def forget(self) -> None:
        self._pending = bytearray()

    def _turn(self, *, flood: bool) -> None:
        self._flood = flood
        self._count = 0
        self._since = monotonic()
        if self._text is not None:
            self._text.reconfigure(line_buffering=False, write_through=not flood)
        if not flood:
            self.flush()


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Writes everything, also to a pipe that a child has made non-blocking."""
    global writing
    view = memoryview(data)
    writing = True
    try:
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                _wait_writable(fd)
    finally:
        writing = False
    if after_write is not None:
        after_write()


def _wait_writable(fd: int) -> None:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()


def install() -> None:
    """Puts new stdout, stderr and an empty stdin in place."""
    for name in ("stdin", "stdout", "stderr"):
        renew(name)
        setattr(sys, f"__{name}__", getattr(sys, name))


def renew(name: str) -> None:
    """A new stream object over descriptor 0, 1 or 2."""
    if name == "stdin":
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)), "utf-8")
        return
    writer = PipeWriter(1 if name == "stdout" else 2)
    text = io.TextIOWrapper(
        writer, "utf-8", "backslashreplace", newline="\n", write_through=True
    )
    text.mode = "w"
    writer.attach_text(text)
    setattr(sys, name, text)
    _writers.append(writer)
    del _writers[:-8]


# The latest binary layers, so that a forked child can forget what its parent has yet to write.
_writers: list[PipeWriter] = []


def forget_pending() -> None:
    """In a forked child: what is pending belongs to the parent."""
    for writer in _writers:
        writer.forget()


def flush() -> None:
    """Flushes what the cell calls stdout and stderr, and the kernel's own; never fails."""
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    for stream in {id(stream): stream for stream in streams}.values():
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:  # noqa: BLE001 - a cell may put anything in their place
            pass
