"""Where cells run: on the ground, with no frame of ours below them.

Whatever walks the stack (``sys._getframe``, warnings, logging, pdb, ``inspect.stack``, and
faulthandler, which is C) comes to its end at the cell, as in a program of plain Python. So nothing
of ours may be running while a cell does:

1. A forked child raises ``Reborn``. That is a SystemExit, it unwinds the forkserver to the last
   frame, and then Python asks it for its ``code``: a property in C, which iterates over it. The
   iterator is the child's life. When that is over the code is None, and Python ends as it always
   does: modules and objects go, files are written out.
2. A life is a generator. What a cell has to run it hands down with ``yield from call(...)`` and is
   suspended meanwhile; the call is made by C code alone, in the callback of a weak reference to
   what was yielded. What is raised there arrives in ``sys.unraisablehook``, which is ours for that
   moment only.
"""

from __future__ import annotations

import sys
from _collections import defaultdict, deque
from _functools import partial
from _weakref import ref

from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    Call = Generator[object, None, tuple[Any, BaseException | None]]

_HOOK = "unraisablehook"
_MISSING = object()


class Reborn(SystemExit):
    """Raised in a forked process: leaves everything below it, and lives its own life."""

    def __init__(self, life: Iterator[object]) -> None:
        super().__init__()
        self._life = life

    code = property(deque((), 0).extend)

    def __iter__(self) -> Iterator[object]:
        traceback = self.__traceback__
        while traceback is not None:
            # What the forkserver was doing is not the child's.
            traceback.tb_frame.clear()
            traceback = traceback.tb_next
        self.__traceback__ = None
        return self._life


# What was raised, as the hook is given it.
_raised: list[Any] = []
# What the steps below have found.
_left: list[Any] = []
_SET_PROFILER, _SET_TRACER = sys.setprofile, sys.settrace
_STEPS = (
    partial(sys.getprofile),
    partial(_SET_PROFILER, None),
    partial(sys.gettrace),
    partial(_SET_TRACER, None),
    partial(sys.__dict__.get, _HOOK, _MISSING),
    partial(sys.__dict__.__setitem__, _HOOK, _raised.append),
)


class _Steps:
    """Each iteration over it takes all the steps."""

    __slots__ = ()
    __iter__ = staticmethod(partial(map, partial.__call__, _STEPS))


class _Job(partial):
    """What is to be called; as it goes, trace functions stop and the hook becomes ours."""

    __slots__ = ()
    __del__ = staticmethod(partial(_left.extend, _Steps()))  # type: ignore[arg-type]


# A job that is taken out of this list is gone as soon as it was called.
_jobs: list[_Job] = []
# The C code of a missing key makes the call, and keeps its value under that key.
_values: Any = defaultdict(partial(next, map(partial.__call__, iter(_jobs.pop, 0))))
_make = _values.__missing__


def call(function: Callable[..., Any], *arguments: Any) -> Call:
    """Calls it with no frame below: its value, or what it has raised."""
    if _left:
        _put_back()
    if _raised:
        _sort_out()
    _jobs.append(_Job(function, *arguments))
    del arguments
    # Not a finalizer of an object of ours: Python takes such objects down with care for deep
    # structures, and what the cell itself takes down would wait for the cell's end.
    triggers = [partial(call)]
    key = ref(triggers[0], _make)
    # A key must have been hashed while what it refers to was there.
    hash(key)
    # Called before, since they are younger.
    befores = [_before(triggers[0], put) for put in _left_behind]
    yield triggers.pop()
    del befores
    _put_back()
    found = _sort_out() if _raised else None
    if key in _values:
        return _values.pop(key), None
    if found is None:
        # There was no memory left to hand it over with.
        return None, MemoryError()
    error = found.exc_value
    if error is None:
        error = found.exc_type()
    # Not by its own method, which may be the cell's.
    return None, BaseException.with_traceback(error, found.exc_traceback)


def _sort_out() -> Any:
    """What our own call has raised, of all that came to the hook while it was ours.

    Another thread may have been there in between: what it had to tell goes where it belongs.
    """
    found = None
    for raised in [_raised.pop(0) for _ in range(len(_raised))]:
        # From Python 3.14 on the callback stands in the message.
        message = getattr(raised, "err_msg", None) or ""
        if raised.object is _make or (raised.object is None and "weakref callback" in message):
            found = raised
            continue
        hook = sys.__dict__.get(_HOOK) or sys.__unraisablehook__
        try:
            hook(raised)
        except BaseException:  # noqa: BLE001 - a hook of the cell's may raise, as in Python itself
            pass
    return found


def _before(trigger: object, function: Callable[[], Any]) -> object:
    key = ref(trigger, defaultdict(function).__missing__)  # type: ignore[arg-type]
    hash(key)
    return key


# What sets the trace and profile functions again that were there as the last call ended: they rest
# between calls.
_left_behind: list[Any] = []


def forget_tracer() -> None:
    """The trace function was ours."""
    _left_behind[:] = [put for put in _left_behind if put.func is not _SET_TRACER]


def _put_back() -> None:
    """After a call, or before the next if an interrupt came in between."""
    if len(_left) < len(_STEPS):
        # There was no memory for them; then the hook is still the cell's.
        _left.clear()
        return
    profiler, _, tracer, _, hook, _ = _left[-len(_STEPS) :]
    _left.clear()
    module = sys.__dict__
    if hook is _MISSING:
        module.pop(_HOOK, None)
    else:
        module[_HOOK] = hook
    _left_behind.clear()
    if profiler is not None:
        _left_behind.append(partial(_SET_PROFILER, profiler))
    if tracer is not None:
        _left_behind.append(partial(_SET_TRACER, tracer))
