"""How a cell that failed is told: traceback without frames of ours, class, place and exit code."""

from __future__ import annotations

import os
import sys

from .link import cut, without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def describe(
    failure: BaseException,
    syntax: bool,
    interrupted: bool,
    reply: dict[str, Any],
    own: dict[str, Any],
) -> None:
    """Fills in the reply of a cell that ended with an exception."""
    if isinstance(failure, SystemExit):
        exit_code, text = _exit(failure)
        own["exit"] = {"code": exit_code, "text": text}
        if exit_code == 0:
            return
        if text is not None:
            print(text, file=sys.stderr)
        kind, lines, line, place = "exit", [], "", None
    else:
        kind = _kind(failure, syntax, interrupted)
        try:
            lines, line = _format(failure)
        except Exception as error:  # noqa: BLE001 - __str__ of the exception may do anything
            line = f"{type(failure).__name__}: (its text cannot be shown: {type(error).__name__})"
            lines = [line]
        place = _place(failure)
    reply["status"] = "error"
    reply["ename"] = type(failure).__name__
    reply["evalue"] = cut(without_surrogates(_text(failure)), 2_000)
    reply["traceback"] = cut(without_surrogates("".join(lines))).rstrip("\n").split("\n")
    own["error"] = {"class": kind, "line": cut(without_surrogates(line), 2_000), "place": place}


def lines_of(failure: BaseException) -> list[str]:
    """The traceback as text, without frames of ours."""
    return _format(failure)[0]


def _exit(failure: SystemExit) -> tuple[int, str | None]:
    code = failure.code
    if code is None:
        return 0, None
    if isinstance(code, int):
        return (code if -(2**31) <= code < 2**31 else code & 0x7FFFFFFF or 1), None
    return 1, _text(code)


def _kind(failure: BaseException, syntax: bool, interrupted: bool) -> str:
    if syntax:
        return "syntax"
    if interrupted:
        return "interrupted"
    if isinstance(failure, ModuleNotFoundError):
        return "missing_module"
    if isinstance(failure, MemoryError):
        import resource

        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            return "limit"
    return "exception"


def _format(failure: BaseException) -> tuple[list[str], str]:
    import traceback

    shown = _skip_ours(failure.__traceback__)
    formatted = traceback.TracebackException(type(failure), failure, shown)
    _hide_ours(formatted, set())
    only = list(formatted.format_exception_only())
    line = only[-1] if isinstance(failure, SyntaxError) else only[0]
    return list(formatted.format()), line.strip()


def _skip_ours(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and _is_ours(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def _hide_ours(formatted: Any, seen: set[int]) -> None:
    """Removes our frames from a chain of exceptions."""
    todo = [formatted]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one.stack is not None:
            one.stack[:] = [frame for frame in one.stack if not _is_ours(frame.filename)]
            _cut_driver(one.stack)
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


def _cut_driver(stack: Any) -> None:
    """An awaited cell runs below asyncio: what lies above the cell's first frame is not the cell's."""
    first = next((i for i, frame in enumerate(stack) if frame.filename.startswith("<cell ")), None)
    if first and all("asyncio" in frame.filename for frame in stack[:first]):
        del stack[:first]


def _is_ours(filename: str) -> bool:
    return filename.startswith(_OURS)


def _place(failure: BaseException) -> str | None:
    """The innermost line of a cell that the exception went through."""
    place = None
    if isinstance(failure, SyntaxError) and str(failure.filename).startswith("<cell "):
        return f"{failure.filename}, line {failure.lineno}"
    traceback = failure.__traceback__
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.startswith("<cell "):
            place = f"{filename}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - __str__ may do anything
        return ""
