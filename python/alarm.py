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


def ring_in(seconds: float, ring: Callable[[], None]) -> None:
    """Has the function called once on the main thread, which must be the caller's."""
    global _timer, _owner, _ring
    if _SIGNAL < 0:
        return
    _ring = ring
    if _owner != os.getpid():
        # A forked process has none of its parent's timers.
        _owner = os.getpid()
        if signal.getsignal(_SIGNAL) not in (signal.SIG_DFL, _handle):
            _timer = None
            return
        signal.signal(_SIGNAL, _handle)
        signal.siginterrupt(_SIGNAL, False)
        event = pack("@QiiiQQQQQ", 0, _SIGNAL, _TO_ONE_THREAD, _owner, 0, 0, 0, 0, 0)
        _timer = create_timer(_CLOCK_MONOTONIC, event)
    if _timer is not None and signal.getsignal(_SIGNAL) is _handle:
        set_timer(_timer, seconds)


def end() -> None:
    """Nothing rings any more: Python ends without its handlers, and the signal would kill."""
    if _owner == os.getpid() and signal.getsignal(_SIGNAL) is _handle:
        signal.signal(_SIGNAL, signal.SIG_IGN)
