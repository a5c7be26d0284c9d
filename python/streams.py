"""sys.stdout and sys.stderr of a kernel: pipes, in order, almost nothing lost by a kill.

Text goes straight to the pipe, so that what was printed before a kill is there and raw writes to
the descriptor keep their place. That costs a system call a print; after thousands of prints in a
fraction of a second the stream turns to block buffering, where no Python code runs per print, and
turns back when a block comes late. So a kill can lose at most the last 72 KiB of a flood.

A lock keeps the lines of threads whole. A process that is forked gets new ones, since its parent's
may be held by a thread that it does not have.
"""

from __future__ import annotations

import io as _io
import select
import sys
from _collections import deque
from _thread import RLock, get_ident
from _thread import _count as thread_count
from time import monotonic

from .alarm import prepare, ring_every, stop
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, copy_of, os
from .platform_calls import flush_c_stdout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from collections.abc import Callable
    from typing import Any
else:
    io = copy_of(_io)

BLOCK_BYTES = 65_536
# A print is two writes: the text and the line end.
FLOOD_WRITES = 5_000
FLOOD_SECONDS = 0.2
CALM_SECONDS = 0.03

# True while the main thread writes: an interrupt is not raised then, it waits for the end.
writing = False
after_write = None
# Waits until what was written is read; None where nobody sees both streams in one row.
in_order: Callable[[], None] | None = None
_main_thread = get_ident()
# The stream to which the main thread has written last in this cell, and how often that was another
# than before.
_last: PipeWriter | None = None
_switches = 0
MOST_SWITCHES = 1_000


class PipeWriter(io.BufferedIOBase):
    """The binary layer below a text stream; see the module."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = RLock()
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._text: io.TextIOWrapper | None = None
        self._flood = False
        self._forgetting = False
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
        if type(data) is not bytes:
            data = bytes(memoryview(data))
        if _last is not self:
            _switch(self)
        with self._lock:
            if self._flood:
                self._write_later(data)
                return len(data)
            self._count += 1
            if self._count >= FLOOD_WRITES:
                now = monotonic()
                if now - self._since < FLOOD_SECONDS and ring_every(CALM_SECONDS, look_for_calm):
                    self._keep(data)
                    self._turn(flood=True)
                    return len(data)
                self._count = 0
                self._since = now
            if self._pending:
                self._keep(data)
                self.flush()
            else:
                self._write_out(data)
        return len(data)

    def is_in_flood(self) -> bool:
        return self._flood

    def _write_later(self, data: bytes) -> None:
        if self._forgetting:
            return
        now = monotonic()
        late = now - self._since > CALM_SECONDS
        self._since = now
        self._keep(data)
        if late:
            self._turn(flood=False)
        elif self._pending_bytes >= BLOCK_BYTES:
            self.flush()
            # A reader that is slow makes the flood slow; that does not end it.
            self._since = monotonic()

    def _keep(self, data: bytes) -> None:
        global _waits
        _waits = True
        self._pending.append(data)
        self._pending_bytes += len(data)

    def flush(self) -> None:
        if not self._pending:
            return
        with self._lock:
            data = b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            self._write_out(data)

    def _write_out(self, data: bytes) -> None:
        global _waits, writing
        if "ctypes" in MODULES or "_cffi_backend" in MODULES:
            # C code may have begun a line.
            flush_c_stdout()
        main = get_ident() == _main_thread
        view = memoryview(data)
        if main:
            writing = True
        try:
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    # A child has made the pipe non-blocking.
                    _wait_writable(self._fd)
        except OSError:
            raise
        except BaseException:
            # A signal handler of the cell's has raised: the rest comes with the next write.
            _waits = True
            self._pending.appendleft(bytes(view))
            raise
        finally:
            if main:
                writing = False
        if main and after_write is not None:
            after_write()

    def start_anew(self) -> None:
        """In a forked child: what is pending belongs to the parent, the lock to its threads."""
        self._lock = RLock()
        if self._flood and self._text is not None:
            self._forgetting = True
            self._text.flush()
            self._forgetting = False
        self._pending.clear()
        self._pending_bytes = 0
        if self._flood:
            self._turn(flood=False)

    def _turn(self, *, flood: bool) -> None:
        """Into a flood, or out of it.

        An interrupt may be raised at any point: so the timer is set before the first step into a
        flood, and the mark of one goes last, or text would wait in a buffer that nobody looks at.
        """
        global _waits
        self._count = 0
        self._since = monotonic()
        if flood:
            self._flood = _waits = True
            # Once more: the main thread may have seen no flood just now, and stopped it.
            ring_every(CALM_SECONDS, look_for_calm)
        if self._text is not None:
            # Its own buffer mixes up the text of threads (CPython before 3.12.4).
            block = flood and thread_count() == 0
            self._text.reconfigure(line_buffering=False, write_through=not block)
        if not flood:
            self.flush()
            self._flood = False

    def end_flood(self, *, after: float) -> None:
        """Ends a flood if nothing came for so long, and this is not in the middle of a write."""
        if not self._flood or self._lock._is_owned():  # type: ignore[attr-defined]
            return
        if monotonic() - self._since >= after:
            with self._lock:
                self._turn(flood=False)


def begin_cell(wait: Callable[[], None] | None) -> None:
    """Nothing was written yet; with ``wait`` the two streams are read in the order of writing."""
    global _last, _switches, in_order
    _last, _switches, in_order = None, 0, wait


def _switch(writer: PipeWriter) -> None:
    """The main thread turns to the other stream: what it wrote before is read first.

    Two pipes cannot tell in which order they were written. It costs a way to the manager and back,
    so who does it without end is not waited for any more.
    """
    global _last, _switches
    if get_ident() != _main_thread:
        return
    before, _last = _last, writer
    if before is None or in_order is None or before.is_in_flood() or writer.is_in_flood():
        return
    _switches += 1
    if _switches <= MOST_SWITCHES:
        before.flush()
        in_order()


def look_for_calm() -> None:
    """Ends floods that are over: what is printed after one does not wait for the next block."""
    try:
        for writer in _writers:
            writer.end_flood(after=CALM_SECONDS)
        if not any([writer._flood for writer in _writers]):
            stop()
            # Another thread's may have begun in between.
            if any([writer._flood for writer in _writers]):
                ring_every(CALM_SECONDS, look_for_calm)
    except Exception:  # noqa: BLE001 - a stream that the cell has closed, in the middle of its code
        pass


def threads_begin() -> None:
    """A thread is about to start: see PipeWriter._turn. What it prints may become a flood too."""
    prepare()
    for writer in _writers:
        try:
            writer.end_flood(after=0)
        except Exception:  # noqa: BLE001 - a stream that the cell has closed or taken apart
            pass


def _wait_writable(fd: int) -> None:
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
        raw = io.BufferedReader(io.FileIO(0, "rb", closefd=False))
        sys.stdin = own[name] = io.TextIOWrapper(raw, "utf-8")
        return
    writer = PipeWriter(1 if name == "stdout" else 2)
    text = io.TextIOWrapper(writer, "utf-8", "backslashreplace", newline="\n", write_through=True)
    text.mode = "w"
    writer.attach_text(text)
    setattr(sys, name, text)
    own[name] = text
    _writers.append(writer)
    del _writers[:-8]


# Whether something may wait in ours: in a flood, or after a write that was broken off.
_waits = False
# The streams that the kernel has put in place, as it made them.
own: dict[str, Any] = {}
# The latest binary layers, so that a forked child can forget what its parent has yet to write.
_writers: list[PipeWriter] = []


def start_anew() -> None:
    """In a forked child; it has one thread, which is its main one."""
    global _main_thread, writing
    _main_thread = get_ident()
    writing = False
    begin_cell(None)
    for writer in _writers:
        try:
            writer.start_anew()
        except Exception:  # noqa: BLE001 - a stream that the cell has closed or taken apart
            pass


# What the flush() of a stream of the cell's raised.
unflushed: dict[str, str] = {}


def flush() -> bool:
    """Flushes what the cell calls stdout and stderr, and the kernel's own; never fails.

    True if nothing can have waited in them: then it took no time, and ran no code of a cell's.
    """
    global _waits
    module = sys.__dict__
    out: Any = module.get("stdout")
    error: Any = module.get("stderr")
    if (
        not _waits
        and out is module.get("__stdout__") is own["stdout"]
        and error is module.get("__stderr__") is own["stderr"]
        and out.write_through
        and error.write_through
    ):
        return True
    done: list[object] = [None]
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        stream: Any = module.get(name)
        # By identity: equality may be anything.
        if any([stream is it for it in done]):
            continue
        done.append(stream)
        flush_one(stream, name)
    _waits = any([writer._flood or writer._pending for writer in _writers])
    return False


def flush_one(stream: Any, name: str) -> None:
    """Flushes it, and notes if that fails."""
    try:
        # What print() is given need not have one.
        if hasattr(stream, "flush"):
            stream.flush()
    except BaseException as failure:  # noqa: BLE001 - a cell may put anything in its place
        unflushed[name] = f"flush() raises {type(failure).__name__}"
