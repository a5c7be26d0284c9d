"""A timer that interrupts a sleep or a wait of the main thread, in no one's way.

It is a POSIX timer with a realtime signal of its own, so that ``signal.alarm`` and ``setitimer``
stay the cell's. Where it cannot be had, nothing rings.
"""

from __future__ import annotations

import _signal as signal
from struct import pack

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os
from .platform_calls import create_timer, set_timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CLOCK_MONOTONIC = 1
_TO_ONE_THREAD = 4
_SIGNAL = getattr(signal, "SIGRTMAX", 0) - 3

_timer: Any = None
_owner = 0
_ring: Callable[[], None] | None = None


def _handle(number: int, frame: Any) -> None:
    del number, frame
    if _ring is not None:
        _ring()


def prepare() -> None:
    """Makes the timer, on the main thread; then the others can have it ring too."""
    global _timer, _owner
    if _SIGNAL < 0 or _owner == os.getpid():
        return
    # A forked process has none of its parent's timers.
    _timer = None
    if signal.getsignal(_SIGNAL) in (signal.SIG_DFL, _handle):
        try:
            signal.signal(_SIGNAL, _handle)
        except ValueError:
            # Another thread's: the main one makes it when it needs it.
            return
        signal.siginterrupt(_SIGNAL, False)
        event = pack("@QiiiQQQQQ", 0, _SIGNAL, _TO_ONE_THREAD, os.getpid(), 0, 0, 0, 0, 0)
        _timer = create_timer(_CLOCK_MONOTONIC, event)
    _owner = os.getpid()


def ring_every(seconds: float, ring: Callable[[], None]) -> bool:
    """Has the function called on the main thread until `stop`; whether it will be.

    Again and again, not once: an interrupt may be raised before its first line.
    """
    global _ring
    _ring = ring
    prepare()
    if _owner != os.getpid() or _timer is None or signal.getsignal(_SIGNAL) is not _handle:
        return False
    set_timer(_timer, seconds)
    return True


def stop() -> None:
    """Nothing rings until it is asked for again."""
    if _owner == os.getpid() and _timer is not None:
        set_timer(_timer, 0)


def end() -> None:
    """Nothing rings any more: Python ends without its handlers, and the signal would kill."""
    if _owner == os.getpid() and signal.getsignal(_SIGNAL) is _handle:
        signal.signal(_SIGNAL, signal.SIG_IGN)
