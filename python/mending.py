"""Puts sys.stdin, sys.stdout and sys.stderr right at the end of a cell that leaves them unusable.

A stream of the cell's own that works stays where it is: it is state, as in plain Python.
"""

from __future__ import annotations

import sys
from _weakref import ref

from . import streams
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = ("stdin", "stdout", "stderr")
_MISSING = object()
# Streams of cells that were seen to take text: each is tried once, since it may count its writes.
_tried: dict[str, Any] = {}


def mend() -> list[str]:
    """Replaces those that are of no use; a sentence for each."""
    if _are_ours():
        return []
    told = []
    module = sys.__dict__
    for name in _NAMES:
        stream = module.get(name, _MISSING)
        ours = streams.own[name]
        fault = _fault_of_ours(stream, name) if stream is ours else _fault(stream, name)
        if fault is None:
            continue
        if stream is not ours and _fault_of_ours(ours, name) is None:
            module[name] = ours
        else:
            streams.renew(name)
        original = module.get(f"__{name}__")
        if original is None or original is ours:
            module[f"__{name}__"] = module[name]
        # exit() and quit() close stdin as a matter of course.
        if fault == "closed" and name != "stdin":
            told.append(f"the cell closed sys.{name}; it was opened anew")
        elif fault != "closed":
            told.append(f"the cell left sys.{name} unusable ({fault}); it was put right")
    streams.unflushed.clear()
    return told


def _are_ours() -> bool:
    """Whether all three are as they were made; nearly always, and this is once a cell."""
    module, own = sys.__dict__, streams.own
    stdin, out, error = own["stdin"], own["stdout"], own["stderr"]
    try:
        return (
            module["stdout"] is out
            and module["stderr"] is error
            and module["stdin"] is stdin
            and not (out.closed or error.closed or stdin.closed)
            and len(out.__dict__) == len(error.__dict__) == 1
            and not streams.unflushed
        )
    except (KeyError, ValueError):
        return False


def _fault_of_ours(stream: Any, name: str) -> str | None:
    if _is_closed(stream):
        return "closed"
    if name != "stdin" and len(stream.__dict__) != 1:
        # The cell has put something over a method.
        streams.flush_one(stream, name)
        return _fault(stream, name)
    return None


def _fault(stream: Any, name: str) -> str | None:
    """Why it is of no use, in a word or two; None if it is."""
    fault = None
    if stream is _MISSING:
        fault = "deleted"
    elif stream is None:
        fault = "None"
    elif _is_closed(stream):
        fault = "closed"
    elif name != "stdin":
        fault = streams.unflushed.get(name) or _try(stream, name)
    return fault


def _try(stream: Any, name: str) -> str | None:
    known = _tried.get(name)
    if known is not None and known() is stream:
        return None
    try:
        stream.write("")
    except BaseException as error:  # noqa: BLE001 - a cell may put anything in its place
        return f"write() raises {type(error).__name__}"
    try:
        _tried[name] = ref(stream)
    except TypeError:
        _tried[name] = None
    return None


def _is_closed(stream: Any) -> bool:
    try:
        return bool(stream.closed)
    except ValueError:
        # Its lower half was detached.
        return True
    except BaseException:  # noqa: BLE001 - a cell may put anything in its place
        return False
