"""How a cell that failed is told: traceback without frames of ours, class, place and exit code.

The cell may have broken anything that this needs: the exception's own text, ``sys.stderr``, the
traceback module. Nothing that goes wrong here may keep the reply back, and nothing in the reply
may be too long for the link.
"""

from __future__ import annotations

import resource
import sys

from . import shadow
from .link import cut, exact, without_surrogates
from .names import type_name
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

# The package and, beside it, the folder of hermes_tools.
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LINE_BYTES = 2_000
_PROCESS_LIMIT = 11

# The lines of cells, as linecache has them.
sources: dict[str, Any] = {}


def describe(
    failure: BaseException,
    syntax: bool,
    interrupted: bool,
    reply: dict[str, Any],
    own: dict[str, Any],
) -> None:
    """Fills in the reply of a cell that ended with an exception."""
    lines: list[str]
    if issubclass(type(failure), SystemExit):
        exit_code, text, number = exit_of(failure)
        if exit_code == 0 and _by_name(failure):
            own["asks_exit"] = True
            return
        if text is not None:
            print_error(text + "\n")
            text = _short(text)
        # Also with code 0: for a notebook that is an error, for all others a success.
        own["exit"] = {"code": exit_code, "text": text, "number": number}
        kind, line, place = "exit", "", None
        argument = text_of(failure)
        lines = [type_name(failure) + (": " + argument if argument else "")]
    else:
        if syntax:
            _guarded(lambda: _show_line(failure), None)
        kind = _kind(failure, syntax, interrupted)
        lines, line = _lines_and_line(failure)
        place = _guarded(lambda: _place(failure), None)
    reply["status"] = "error"
    reply["ename"] = _short(type_name(failure))
    reply["evalue"] = _short(text_of(failure))
    reply["traceback"] = without_surrogates(cut("".join(lines))).rstrip("\n").split("\n")
    if syntax:
        reply["traceback"] += _guarded(lambda: _advice_on(failure), [])
    own["error"] = {"class": kind, "line": _short(line), "place": place and _short(place)}
    if issubclass(type(failure), ImportError) or _cause_of(failure) is not None:
        found = _guarded(lambda: _missing(failure), None)
        if found is not None:
            own["error"]["missing"] = found


def _advice_on(failure: Any) -> list[str]:
    """For who has written what only IPython understands."""
    from . import magics

    lines = sources[failure.filename][2]
    return magics.advice(lines[failure.lineno - 1], "".join(lines))


def _missing(failure: BaseException) -> dict[str, Any] | None:
    """What helps who has to install or find it."""
    from . import missing

    found = missing.facts(failure)
    if found is not None:
        for key, value in found.items():
            if type(value) is str:
                found[key] = _short(value)
    return found


def lines_of(failure: BaseException, traceback: TracebackType | None = None) -> list[str]:
    """The traceback as text, without frames of ours."""
    return _lines_and_line(failure, traceback)[0]


def lines_of_one(failure: BaseException, traceback: TracebackType | None) -> list[str]:
    """The same without what the exception comes from."""
    return _format(failure, traceback, chain=False)[0]


def exit_of(failure: SystemExit) -> tuple[int, str | None, str | None]:
    """What Python itself makes of the argument of ``sys.exit``: the code, and a text to print.

    The number is not cut. One that no reader of JSON could hold is what a system would make of it,
    and comes as words too.
    """
    try:
        code = failure.code
    except BaseException:  # noqa: BLE001 - it may be a property that raises
        # As Python does: then the exception itself is what it has to say.
        return 1, text_of(failure), None
    if code is None:
        return 0, None, None
    if not isinstance(code, int):
        return 1, text_of(code), None
    number = int.__index__(code)
    if -(2**63) <= number < 2**63:
        return number, None, None
    bits = number.bit_length()
    return number & 255 or 1, None, str(number) if bits < 200 else f"an int of {bits} bits"


def _by_name(failure: BaseException) -> bool:
    """Whether it was ``exit()`` or ``quit()``: what people at a prompt say to leave it."""
    traceback = traceback_of(failure)
    while traceback is not None:
        if traceback.tb_next is None:
            code = traceback.tb_frame.f_code
            return code.co_name == "__call__" and "_sitebuiltins" in code.co_filename
        traceback = traceback.tb_next
    return False


def print_error(text: str) -> None:
    """Writes to what the cell calls stderr, or to the real one."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - a cell may put anything in its place
        try:
            os.write(2, text.encode("utf-8", "backslashreplace"))
        except OSError:
            pass


def text_of(value: object) -> str:
    """``str(value)``, or nothing if that raises."""
    return _guarded(lambda: exact(str(value)), "")


# Not by the attribute, which a class of the cell's may put something else in the place of.
traceback_of: Any = BaseException.__dict__["__traceback__"].__get__
_cause_of: Any = BaseException.__dict__["__cause__"].__get__


def _kind(failure: BaseException, syntax: bool, interrupted: bool) -> str:
    if interrupted:
        return "interrupted"
    if issubclass(type(failure), MemoryError) and _memory_is_limited():
        return "limit"
    if syntax:
        return "syntax"
    if issubclass(type(failure), ModuleNotFoundError):
        return "missing_module"
    if _guarded(lambda: _is_process_limit(failure), False):
        return "limit"
    return "exception"


def _memory_is_limited() -> bool:
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _is_process_limit(failure: BaseException) -> bool:
    """Whether a process or thread could not be started because there are too many."""
    if issubclass(type(failure), RuntimeError):
        return str(failure) == "can't start new thread"
    traceback = traceback_of(failure)
    if not issubclass(type(failure), BlockingIOError) or traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    starter = traceback.tb_frame.f_code.co_filename
    return failure.errno == _PROCESS_LIMIT and starter == _OURS + "_warmcell/children.py"


def _lines_and_line(
    failure: BaseException, traceback: TracebackType | None = None
) -> tuple[list[str], str]:
    try:
        return _format(failure, traceback or traceback_of(failure))
    except BaseException:  # noqa: BLE001 - see the module
        return _guarded(lambda: _format_alone(failure), ([], type_name(failure)))


def _format(
    failure: BaseException, frames: TracebackType | None, chain: bool = True
) -> tuple[list[str], str]:
    traceback = shadow.load("traceback")
    if "linecache" not in MODULES or MODULES["linecache"] is not traceback.linecache:
        traceback.linecache.cache.update(sources)
    formatted = traceback.TracebackException(type(failure), failure, _skip_ours(frames))
    _hide_ours(formatted)
    with shadow.Standard():
        # It imports more while it formats.
        only = list(formatted.format_exception_only())
        lines = list(formatted.format(chain=chain))
    line = only[-1] if issubclass(type(failure), SyntaxError) else only[0]
    return lines, line.strip().partition("\n")[0]


def _format_alone(failure: BaseException) -> tuple[list[str], str]:
    """The plainest traceback, by nothing but our own means."""
    line = type_name(failure)
    text = text_of(failure)
    if text:
        line += ": " + text
    lines = ["Traceback (most recent call last):\n"]
    traceback = traceback_of(failure)
    while traceback is not None and len(lines) < 200:
        code = traceback.tb_frame.f_code
        if not is_ours(code.co_filename):
            number = traceback.tb_lineno
            lines.append(f'  File "{code.co_filename}", line {number}, in {code.co_name}\n')
            source = sources.get(code.co_filename)
            if source is not None and 0 < number <= len(source[2]):
                lines.append(f"    {source[2][number - 1].strip()}\n")
        traceback = traceback.tb_next
    return [*lines, line + "\n"], line.partition("\n")[0]


def _skip_ours(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and is_ours(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback


def _hide_ours(formatted: Any) -> None:
    """Removes our frames from a chain of exceptions."""
    todo, seen = [formatted], set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if one.stack is not None:
            one.stack[:] = [frame for frame in one.stack if not is_ours(frame.filename)]
            _cut_driver(one.stack)
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


def _cut_driver(stack: Any) -> None:
    """An awaited cell runs below asyncio: what lies above its first frame is not the cell's."""
    first = next((i for i, frame in enumerate(stack) if frame.filename.startswith("<cell ")), None)
    if first and all("asyncio" in frame.filename for frame in stack[:first]):
        del stack[:first]


def is_ours(filename: str) -> bool:
    """Whether this is a file of our own code."""
    return filename.startswith(_OURS)


def _show_line(failure: BaseException) -> None:
    """The later stages of the compiler look for the line in a file."""
    if issubclass(type(failure), SyntaxError) and failure.text is None:
        failure.text = sources[failure.filename][2][failure.lineno - 1]


def _place(failure: BaseException) -> str | None:
    """The innermost line of a cell that the exception went through."""
    place = None
    if issubclass(type(failure), SyntaxError) and str(failure.filename).startswith("<cell "):
        return f"{failure.filename}, line {failure.lineno}"
    traceback = traceback_of(failure)
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.startswith("<cell "):
            place = f"{filename}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _short(text: str) -> str:
    return without_surrogates(cut(text, _LINE_BYTES))


def _guarded(function: Any, otherwise: Any) -> Any:
    """What the function gives; it looks at an object of the cell's, which may do anything."""
    try:
        return function()
    except BaseException:  # noqa: BLE001 - see the module
        return otherwise
