"""The processes that a cell starts: output in order before each, and no zombies left.

The standard ways of starting one are wrapped, never watched by an audit hook: a hook cannot be
removed and slows every other event.
"""

from __future__ import annotations

# Loaded before the fork: finding and loading it takes milliseconds.
import _posixsubprocess
import os as _os
from _functools import partial

from . import platform_calls, streams
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Children that the cell's own code has started, and may want to wait for.
started: set[int] = set()
# What to do when os.system() has ended.
after_shell: Callable[[], None] | None = None
# Whether any process was begun in the ways that are wrapped here.
_began = False

# The variable that tells a program for which cell it works, and where the environment stands among
# the arguments of what starts programs.
CELL = "HERMES_RPC_CELL"
_FORK_EXEC_ENVIRONMENT = 5
_SPAWN_ENVIRONMENT = 2


def tell_cell(cell: int) -> None:
    """Lets the environment name the cell, unless the cells have taken the variable out of it."""
    if CELL in os.environ:
        os.environ[CELL] = str(cell)


def install(in_child: Callable[[], None], cell: Callable[[], int]) -> None:
    """Wraps what starts processes; in_child runs in what is forked, cell tells whose code runs."""

    def begin_child() -> None:
        in_child()
        if _os.environ.get(CELL, str(cell())) != str(cell()):
            _os.environ[CELL] = str(cell())

    os.register_at_fork(before=_flush, after_in_child=begin_child)
    for name in ("fork", "forkpty"):
        _wrap(_os, name, _recording)
    for name in ("posix_spawn", "posix_spawnp"):
        _wrap(_os, name, partial(_spawning, cell, _SPAWN_ENVIRONMENT))
    _wrap(_posixsubprocess, "fork_exec", partial(_spawning, cell, _FORK_EXEC_ENVIRONMENT))
    _wrap(_os, "system", partial(_shell, cell))
    # From 3.11 on it takes its own reference when it is loaded.
    subprocess = MODULES.get("subprocess")
    if hasattr(subprocess, "_fork_exec"):
        subprocess._fork_exec = _posixsubprocess.fork_exec  # type: ignore[union-attr]


def _wrap(module: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = getattr(module, name, None)
    if original is not None:
        wrapper = wrap(original)
        wrapper.__name__, wrapper.__doc__ = original.__name__, original.__doc__
        setattr(module, name, wrapper)


def _flush() -> None:
    global _began
    _began = True
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

    return start


def _spawning(cell: Callable[[], int], place: int, function: Any) -> Any:
    record = _recording(function)

    def spawn(*args: Any, **kwargs: Any) -> Any:
        if len(args) > place:
            environment = _for_cell(args[place], cell())
            if place == _FORK_EXEC_ENVIRONMENT and isinstance(environment, dict):
                environment = [
                    os.fsencode(name) + b"=" + os.fsencode(value)
                    for name, value in environment.items()
                ]
            args = (*args[:place], environment, *args[place + 1 :])
        return record(*args, **kwargs)

    return spawn


def _for_cell(environment: Any, cell: int) -> Any:
    """The environment of a program, with the number of the cell whose code starts it.

    The kernel's own environment names the cell that runs now; a thread that an earlier cell has
    left starts programs too, and an environment may have been copied in an earlier cell.
    """
    number = str(cell)
    if environment is None or environment is _os.environ:
        if _os.environ.get(CELL, number) == number:
            return environment
        return {**_os.environ, CELL: number}
    if isinstance(environment, list):
        head = CELL.encode() + b"="
        return [
            head + number.encode() if entry.startswith(head) else entry for entry in environment
        ]
    for name in environment:
        if os.fsencode(name) == CELL.encode():
            return {**environment, name: number}
    return environment


def _shell(cell: Callable[[], int], function: Any) -> Any:
    def system(command: Any) -> int:
        _flush()
        number = str(cell())
        if _os.environ.get(CELL, number) != number:
            command = f"export {CELL}={number}\n".encode() + os.fsencode(command)
        status = function(command)
        if after_shell is not None:
            after_shell()
        return status

    return system


def reap_adopted() -> None:
    """Reaps dead daemons that fell to the kernel; children of the cell's code are left to it."""
    if not _began and "ctypes" not in MODULES and "_cffi_backend" not in MODULES:
        # No cell has started anything yet, and nobody else's orphans fall to us.
        return
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
