"""The processes that a cell starts: output in order before each, and no zombies left.

The standard ways of starting one are wrapped, never watched by an audit hook: a hook cannot be
removed and slows every other event.
"""

from __future__ import annotations

import os as _os
import sys

from . import platform_calls, streams
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Children that the cell's own code has started, and may want to wait for.
started: set[int] = set()


def install(in_child: Callable[[], None]) -> None:
    """Wraps what starts processes; in_child runs in each that is forked."""
    os.register_at_fork(before=_flush, after_in_child=in_child)
    import _posixsubprocess

    for module, name in (
        (_os, "fork"),
        (_os, "forkpty"),
        (_os, "posix_spawn"),
        (_os, "posix_spawnp"),
        (_posixsubprocess, "fork_exec"),
    ):
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _recording(original))
    _os.system = _flushing(_os.system)
    # From 3.12 on it takes its own reference when it is loaded.
    subprocess = MODULES.get("subprocess")
    if hasattr(subprocess, "_fork_exec"):
        subprocess._fork_exec = _posixsubprocess.fork_exec  # type: ignore[union-attr]


def _flush() -> None:
    streams.flush()
    platform_calls.flush_c_stdout()


def _recording(function: Any) -> Any:
    def start(*args: Any, **kwargs: Any) -> Any:
        _flush()
        result = function(*args, **kwargs)
        pid = result[0] if isinstance(result, tuple) else result
        if pid:
            started.add(pid)
        return result

    start.__name__, start.__doc__ = function.__name__, function.__doc__
    return start


def _flushing(function: Any) -> Any:
    def start(*args: Any, **kwargs: Any) -> Any:
        _flush()
        return function(*args, **kwargs)

    start.__name__, start.__doc__ = function.__name__, function.__doc__
    return start


def reap_adopted() -> None:
    """Reaps dead daemons that fell to the kernel; children of the cell's code are left to it."""
    try:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        started.clear()
        return
    if dead is None:
        return
    alive = set()
    for pid in _children():
        if pid in started:
            alive.add(pid)
            continue
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            pass
    started.intersection_update(alive)


def _children() -> list[int]:
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        return []
    pids = []
    for task in tasks:
        try:
            with open(f"/proc/self/task/{task}/children", "rb") as file:
                pids += [int(pid) for pid in file.read().split()]
        except OSError:
            continue
    return pids
