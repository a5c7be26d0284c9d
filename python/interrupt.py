"""Interrupts that carry a cell number.

The manager writes the number of the cell it means into a page shared with the kernel, then sends
SIGINT. Only that cell is interrupted: a late signal cannot hit the next cell, and an early one is
found when the cell begins.
"""

from __future__ import annotations

import mmap
import sys
from _signal import SIGINT, default_int_handler
from _signal import getsignal as get_handler
from _signal import signal as set_handler
from _thread import get_ident
from struct import unpack_from

from . import children, ground, signals, streams
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

# So often a signal is put off: for a second, as signals come every 75 ms.
_PATIENCE = 13
# What cleans up after an interrupt has half a second before it is interrupted again.
_REST = 7
_IMPORT = "<frozen importlib._bootstrap>"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from .link import Link


def _trace_nothing(_frame: FrameType, _event: str, _argument: object) -> None:
    """New frames are not traced."""


class Interrupts:
    """The page, the signal handler, and what is running now."""

    def __init__(self, link: Link) -> None:
        self._page: Any = bytes(8)
        self._link = link
        self._main_thread = get_ident()
        self._cell = 0
        # True only while code of the cell runs, inside a try that catches what is raised.
        self._armed = False
        # A signal came and was heeded: the page alone does not interrupt the cell again.
        self._heeded = False
        # A signal came while bytes were on their way: _after_write looks at it.
        self._deferred = False
        # How often it was raised later, and whether it is yet to be.
        self._postponements = 0
        # So many signals are let pass while the cell cleans up.
        self._rest = 0
        # A cancellation is on its way to the loop: one that blocks never comes to it.
        self._cancelling = False
        self._tracing = False
        self._codes: tuple[CodeType, ...] = ()
        # What to cancel while the cell awaits; True before it is known.
        self._waiting: Any = None
        # One object, so that it can be told from another.
        self._handler = self._handle
        link.after_write = streams.after_write = self._after_write
        children.after_shell = self._after_shell

    def watch(self, page_fd: int) -> None:
        """The page that names the cell to interrupt."""
        self._page = mmap.mmap(page_fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(page_fd)

    def begin(self, cell: int) -> None:
        """A cell begins; nothing is raised before arm()."""
        self._cell = cell
        self._heeded = self._deferred = self._cancelling = False
        self._postponements = self._rest = 0
        set_handler(SIGINT, self._handler)

    def arm(self, code: CodeType) -> None:
        """Code of the cell starts now; raises if it was interrupted before it began."""
        self._codes += (code,)
        self._armed = True
        if unpack_from("<Q", self._page)[0] == self._cell and not self._heeded and self._cell:
            self._heeded = True
            raise KeyboardInterrupt
        signals.enter()

    def disarm(self) -> None:
        """Code of the cell no longer runs; nothing is raised from now on."""
        self._armed = False
        if self._tracing:
            self._stop_tracing()
        signals.leave()

    def end(self) -> None:
        """The cell is over: a signal that still comes is ignored."""
        self._armed = signals.inside = False
        self._cell = 0
        self._codes = ()
        if self._tracing:
            self._stop_tracing()
        # The cell may have put a handler of its own there, which would raise between cells.
        if get_handler(SIGINT) is not self._handler:
            set_handler(SIGINT, self._handler)

    def named(self) -> bool:
        """Whether the page names the cell that runs now."""
        cell = self._cell
        return cell != 0 and unpack_from("<Q", self._page)[0] == cell

    def was_heeded(self) -> bool:
        """Whether the cell that runs now has been told to end."""
        return self._heeded and self.named()

    def wait_begins(self) -> None:
        """From now on nothing is raised outside the cell's code; see wait_for()."""
        self._waiting = True

    def wait_for(self, loop: Any, task: Any) -> None:
        """An interrupt cancels this task where the cell's code is not running."""
        self._waiting = (loop, task)
        if self._deferred:
            self._deferred = False
            self._rest = _REST
            task.cancel()

    def wait_over(self) -> None:
        self._waiting = None

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del signum
        if not self._armed or not self.named():
            return
        if self._link.writing or (streams.writing and not self._deferred):
            # Half a message would be worse than a late interrupt. Output that waits for its reader
            # for longer than it takes to signal again is given up.
            self._deferred = True
            return
        self._deliver(frame)

    def _deliver(self, frame: FrameType | None) -> None:
        self._heeded = True
        waiting = self._waiting
        if waiting is None or self._on_stack(frame):
            self._raise(frame)
            return
        if waiting is True:
            self._deferred = True
            return
        self._deferred = False
        if self._cancelling:
            # The loop has not come to it: something that runs in it takes long.
            self._raise(frame)
        elif self._rest:
            # It may be cleaning up: that cannot be seen where it awaits.
            self._rest -= 1
        else:
            self._rest = _REST
            self._cancelling = True
            loop, task = waiting
            loop.call_soon_threadsafe(self._cancel, task)

    def _cancel(self, task: Any) -> None:
        self._cancelling = False
        task.cancel()

    def _raise(self, frame: FrameType | None) -> None:
        self._deferred = False
        if self._rest and _is_handling():
            self._rest -= 1
        elif not self._postponed(frame):
            self._rest = _REST
            raise KeyboardInterrupt

    def _postponed(self, frame: FrameType | None) -> bool:
        """Whether it is raised later, where what runs now returns to.

        Python swallows what is raised in a destructor, and an import that is broken off cannot be
        made again: modules stay half loaded. What takes long is interrupted all the same.
        """
        outside = None
        while frame is not None:
            code = frame.f_code
            if code.co_name == "__del__" or code.co_filename == _IMPORT:
                outside = frame.f_back
            frame = frame.f_back
        if outside is None or self._postponements >= _PATIENCE:
            return False
        if sys.gettrace() is not None and not self._tracing:
            # The cell traces itself.
            return False
        self._postponements += 1

        def interrupt(_frame: FrameType, _event: str, _argument: object) -> None:
            self._stop_tracing()
            if self._armed and self.named():
                self._rest = _REST
                raise KeyboardInterrupt

        outside.f_trace = interrupt
        self._tracing = True
        sys.settrace(_trace_nothing)
        return True

    def _stop_tracing(self) -> None:
        if self._tracing:
            self._tracing = False
            sys.settrace(None)
            ground.forget_tracer()

    def _after_write(self) -> None:
        if not self._deferred or get_ident() != self._main_thread:
            return
        self._deferred = False
        if self._armed and self.named():
            self._deliver(sys._getframe(1))

    def _after_shell(self) -> None:
        """os.system() has ended; while it runs the C library ignores SIGINT."""
        if self._armed and not self._heeded and get_ident() == self._main_thread and self.named():
            self._deliver(sys._getframe(1))

    def _on_stack(self, frame: FrameType | None) -> bool:
        while frame is not None:
            for code in self._codes:
                if frame.f_code is code:
                    return True
            frame = frame.f_back
        return False

    def forget(self) -> None:
        """In a forked child: interrupts are plain KeyboardInterrupts again."""
        self._armed = False
        self._cell = 0
        self._link.after_write = streams.after_write = None
        children.after_shell = None
        set_handler(SIGINT, default_int_handler)


def _is_handling() -> bool:
    """Whether what runs now is the cleaning up: ``except``, ``finally`` or ``__exit__``."""
    error = sys.exc_info()[1]
    for _ in range(16):
        if error is None:
            return False
        kind = type(error)
        if issubclass(kind, KeyboardInterrupt) or kind.__name__ == "CancelledError":
            return True
        error = error.__context__
    return False
