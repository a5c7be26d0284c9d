"""Interrupts that carry a cell number.

The manager writes the number of the cell it means into a page shared with the kernel, then sends
SIGINT. Only that cell is interrupted: a late signal cannot hit the next cell, and an early one is
found when the cell begins.
"""

from __future__ import annotations

import mmap
from _signal import SIGINT, default_int_handler
from _signal import signal as set_handler
from struct import unpack_from

from . import signals, streams
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from .link import Link


class Interrupts:
    """The page, the signal handler, and what is running now."""

    def __init__(self, page_fd: int, link: Link) -> None:
        self._page = mmap.mmap(page_fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(page_fd)
        self._link = link
        self._cell = 0
        # True only while code of the cell runs, inside a try that catches what is raised.
        self._armed = False
        self._codes: tuple[CodeType, ...] = ()
        self._waiting: Any = None
        link.after_write = streams.after_write = self._after_write

    def begin(self, cell: int) -> None:
        """A cell begins; nothing is raised before arm()."""
        self._cell = cell
        set_handler(SIGINT, self._handle)

    def arm(self, code: CodeType) -> None:
        """Code of the cell starts now; raises if it was interrupted before it began."""
        self._codes += (code,)
        self._armed = True
        if self.named():
            raise KeyboardInterrupt
        signals.enter()

    def disarm(self) -> None:
        """Code of the cell no longer runs; nothing is raised from now on."""
        self._armed = False
        signals.leave()

    def end(self) -> None:
        """The cell is over: a signal that still comes is ignored."""
        self._armed = signals.inside = False
        self._cell = 0
        self._codes = ()

    def named(self) -> bool:
        """Whether the page names the cell that runs now."""
        cell = self._cell
        return cell != 0 and unpack_from("<Q", self._page)[0] == cell

    def wait_for(self, loop: Any, task: Any) -> None:
        """From now on an interrupt cancels this task where the cell's code is not running."""
        self._waiting = (loop, task)

    def wait_over(self) -> None:
        self._waiting = None

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del signum
        if not self._armed or not self.named():
            return
        if self._link.writing or streams.writing:
            # _after_write looks again: half a message would be worse than a late interrupt.
            return
        if self._waiting is not None and not self._on_stack(frame):
            loop, task = self._waiting
            loop.call_soon_threadsafe(task.cancel)
            return
        raise KeyboardInterrupt

    def _after_write(self) -> None:
        if self._armed and self._waiting is None and self.named():
            raise KeyboardInterrupt

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
        set_handler(SIGINT, default_int_handler)
