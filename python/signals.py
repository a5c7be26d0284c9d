"""Keeps what the signal handlers of a cell raise out of our own code.

While the cell's code runs that is the cell's business, as in plain Python. Between cells and while
we answer, it would take the kernel's own work apart: handlers then run, and what they raise is told
on stderr. (Trace and profile functions rest then: see ground.py.)
"""

from __future__ import annotations

from .hooks import when_imported
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Whether what runs now is the cell's code, or may be treated as such.
inside = False
_tell: Callable[[BaseException], None] | None = None
# Told once until the next cell: an alarm that rings often leaves no time to tell it each time.
_told = False


def enter() -> None:
    """The cell's code begins."""
    global inside, _told
    inside, _told = True, False


def leave() -> None:
    """The cell's code is over."""
    global inside
    inside = False


class Handler:
    """A handler of the cell's, as Python is given it.

    ``__call__`` is a property that hands back the bare handler, so that no frame of ours stands in
    a traceback between the cell's code and its handler.
    """

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    @property
    def __call__(self) -> Any:
        return self.handler if inside else self._outside

    def _outside(self, number: int, frame: Any) -> None:
        global _told
        try:
            self.handler(number, frame)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not for our code
            if _tell is not None and not _told:
                _told = True
                _tell(error)


def install(tell: Callable[[BaseException], None]) -> None:
    """Wraps the setting of handlers; ``tell`` is given what one raises outside of a cell."""
    global _tell
    _tell = tell
    when_imported("signal", _signal_loaded)


def _signal_loaded(signal: Any) -> None:
    set_handler, get_handler = signal.signal, signal.getsignal

    def signal_(signalnum: Any, handler: Any) -> Any:
        if callable(handler) and not isinstance(handler, (Handler, signal.Handlers)):
            handler = Handler(handler)
        return _bare(set_handler(signalnum, handler))

    def getsignal(signalnum: Any) -> Any:
        return _bare(get_handler(signalnum))

    for wrapper, original in ((signal_, set_handler), (getsignal, get_handler)):
        wrapper.__name__ = wrapper.__qualname__ = original.__name__
        wrapper.__doc__, wrapper.__module__ = original.__doc__, original.__module__
    signal.signal, signal.getsignal = signal_, getsignal


def _bare(handler: Any) -> Any:
    return handler.handler if isinstance(handler, Handler) else handler
