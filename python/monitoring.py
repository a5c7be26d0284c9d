"""sys.monitoring (Python 3.12 and newer): what a cell has called for each event sees cells alone.

Trace and profile functions rest while our code runs (see ground.py). These callbacks do not rest:
they are called for all code, and what they raise is raised there. So each is given a door that is
closed while our code runs, and that switches an event off where it is in code of ours, if it can.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from . import signals
from .failures import is_ours
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# The events that a callback may switch off where they happen.
_LOCAL = (
    "PY_START",
    "PY_RESUME",
    "PY_RETURN",
    "PY_YIELD",
    "CALL",
    "LINE",
    "INSTRUCTION",
    "JUMP",
    "BRANCH",
    "BRANCH_LEFT",
    "BRANCH_RIGHT",
    "STOP_ITERATION",
)


def install() -> None:
    """Wraps the registration of callbacks, where there is such a thing."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return
    register = monitoring.register_callback
    local = 0
    for name in _LOCAL:
        local |= getattr(monitoring.events, name, 0)
    # What was registered, by the door in front of it.
    doors: dict[Any, Any] = {}

    def register_callback(tool_id: Any, event: Any, func: Any, /) -> Any:
        door = func
        if callable(func):
            may_stop = isinstance(event, int) and event & local
            door = _door(func, monitoring.DISABLE if may_stop else None)
        before = register(tool_id, event, door)
        if door is not func:
            doors[door] = func
        return doors.pop(before, before)

    register_callback.__doc__ = register.__doc__
    monitoring.register_callback = register_callback


def _door(function: Callable[..., Any], answer: object) -> Callable[..., Any]:
    main_thread = get_ident()

    def door(code: Any, *arguments: Any) -> Any:
        if is_ours(code.co_filename):
            return answer
        if not signals.inside and get_ident() == main_thread:
            # What our code has called.
            return None
        return function(code, *arguments)

    return door
