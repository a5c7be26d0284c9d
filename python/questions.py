"""What a front end asks of a kernel between cells: completion, help, history, comms.

Imported when it is first asked. A question leaves no trace in the namespace, and whatever goes
wrong there is an answer: an empty one.
"""

from __future__ import annotations

from . import children, comms, failures, platform_calls, reserve, shadow, shown, streams
from .link import LinkLost, dumps, loads
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from .cell import Runner
    from .link import Parts

_COMMS = ("comm_open", "comm_msg", "comm_close")
# A reply is one piece of JSON.
_REPLY_BYTES = 3 << 20
_HISTORY_BYTES = 2 << 20
_IS_COMPLETE_BYTES = 1 << 20
_ONLY_AST, _TOP_LEVEL_AWAIT = 0x400, 0x2000
_ANSWERS = {
    "complete_request": (
        "complete_reply",
        {"matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}},
    ),
    "inspect_request": ("inspect_reply", {"found": False, "data": {}, "metadata": {}}),
    "history_request": ("history_reply", {"history": []}),
    "is_complete_request": ("is_complete_reply", {"status": "unknown"}),
    "comm_info_request": ("comm_info_reply", {"comms": {}}),
}


def answer(runner: Runner, parts: Parts) -> Generator[object, None, None]:
    """One request that is no cell; its reply ends it."""
    _channel, header, _data, more = parts
    try:
        msg_type, content, number, origin = _read(parts)
        reply_type, reply = _nothing(msg_type, content)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        # No request that is known here.
        return
    interrupts = runner.interrupts
    failure = None
    runner.prepare(0, "")
    shown.request = shown.Request(header, 0, origin=origin)
    interrupts.begin(number)
    try:
        interrupts.arm(_answer.__code__)
        if msg_type in _COMMS:
            failure = yield from comms.handle(msg_type, header, content, more)
        else:
            reply = _answer(runner, msg_type, content)
    except LinkLost:
        raise
    except BaseException as error:  # noqa: BLE001 - see the module
        interrupts.disarm()
        if isinstance(error, MemoryError):
            reserve.release()
    interrupts.end()
    if os.getpid() != runner.pid:
        runner.leave(failure)
    if failure is not None:
        failures.print_error("".join(failures.lines_of(failure)))
        yield failure
    streams.flush()
    platform_calls.flush_c_stdout()
    runner.link.send("shell", reply_type, header, reply)
    shown.request = None
    children.reap_adopted()


def _read(parts: Parts) -> tuple[str, dict[str, Any], int, Any]:
    _channel, header, data, more = parts
    asked = loads(more[0])["warmcell"] if more is not None else {}
    content = loads(data)
    content = content if type(content) is dict else {}
    return loads(header)["msg_type"], content, asked["question"], asked.get("origin")


def _nothing(msg_type: str, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type of the reply, and one that tells nothing."""
    if msg_type in _COMMS:
        return "warmcell_comm_reply", {}
    reply_type, empty = _ANSWERS[msg_type]
    reply = {"status": "ok", **empty}
    position = content.get("cursor_pos")
    if msg_type == "complete_request" and type(position) is int and position >= 0:
        reply["cursor_start"] = reply["cursor_end"] = position
    return reply_type, reply


def _answer(runner: Runner, msg_type: str, content: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any]
    if msg_type == "is_complete_request":
        reply = _is_complete(str(content.get("code", "")))
    elif msg_type == "history_request":
        reply = {"status": "ok", "history": _history(runner, content)}
    elif msg_type == "comm_info_request":
        reply = comms.info(content)
    else:
        from . import introspect

        code, position = str(content.get("code", "")), content.get("cursor_pos")
        if type(position) is not int or not 0 <= position <= len(code):
            position = len(code)
        if msg_type == "complete_request":
            reply = introspect.complete(code, position, runner.namespace)
        else:
            detail = content.get("detail_level")
            reply = introspect.inspect(code, position, 1 if detail == 1 else 0, runner.namespace)
    if len(dumps(reply)) > _REPLY_BYTES:
        raise ValueError("the reply is too long")
    return reply


# Whether code is a whole cell.


def _is_complete(code: str) -> dict[str, Any]:
    if len(code) > _IS_COMPLETE_BYTES:
        return {"status": "unknown"}
    last = _last_line(code)
    try:
        whole = not last.endswith("\\") and _compiles(code)
    except (SyntaxError, OverflowError, ValueError):
        return {"status": "invalid"}
    if not whole:
        deeper = "    " if last.partition("#")[0].rstrip().endswith(":") else ""
        return {"status": "incomplete", "indent": _indentation(last) + deeper}
    # A blank line ends a block, as in Python's own console.
    end = code.rpartition("\n")[2]
    if "\n" in code.rstrip() and end.strip() and _ends_in_block(code):
        return {"status": "incomplete", "indent": _indentation(end)}
    return {"status": "complete"}


def _compiles(code: str) -> bool:
    """Whether it is whole; SyntaxError if nothing can make it so."""
    codeop, warnings = shadow.load("codeop"), shadow.load("warnings")
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= _TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiler(code, "<is it complete>", "exec") is not None


def _ends_in_block(code: str) -> bool:
    """Whether the last line stands in the body of a compound statement."""
    tree = compile(code, "<is it complete>", "exec", _ONLY_AST | _TOP_LEVEL_AWAIT, True)
    last = tree.body[-1] if tree.body else None
    if not hasattr(last, "body") and not hasattr(last, "cases"):
        return False
    # A body of one line is at its end: `if x: y`.
    return _indentation(code.rpartition("\n")[2]) != ""


def _last_line(code: str) -> str:
    return code.rstrip().rpartition("\n")[2]


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


# What earlier cells were.

_SESSION = 1


def _history(runner: Runner, content: dict[str, Any]) -> list[Any]:
    """Of this kernel alone: its number as a session is 1, and 0 means this one too."""
    kind = content.get("hist_access_type")
    cells = runner.history()
    if kind == "range":
        if content.get("session", 0) not in (0, _SESSION):
            return []
        start, stop = _whole(content.get("start"), 0), _whole(content.get("stop"), None)
        if start < 0:
            # Counted from the end, as in IPython.
            start += (cells[-1][0] if cells else 0) + 1
        cells = [cell for cell in cells if cell[0] >= start and (stop is None or cell[0] < stop)]
    elif kind == "search":
        fnmatch = shadow.load("fnmatch")
        pattern = str(content.get("pattern") or "*")
        cells = [cell for cell in cells if fnmatch.fnmatchcase(cell[1], pattern)]
        if content.get("unique"):
            latest = {code: number for number, code in cells}
            cells = [cell for cell in cells if latest[cell[1]] == cell[0]]
    if kind in ("tail", "search"):
        n = _whole(content.get("n"), None)
        if n is not None:
            cells = cells[-n:] if n > 0 else []
    return _within_bytes(cells, runner.outputs if content.get("output") else None)


def _whole(value: Any, otherwise: Any) -> Any:
    return value if type(value) is int else otherwise


def _within_bytes(cells: list[tuple[int, str]], outputs: dict[int, str] | None) -> list[Any]:
    """The latest of them that fit into a reply."""
    entries: list[Any] = []
    room = _HISTORY_BYTES
    for number, code in reversed(cells):
        text: Any = code if outputs is None else (code, outputs.get(number))
        room -= len(dumps(text)) + 30
        if room < 0:
            break
        entries.append((_SESSION, number, text))
    entries.reverse()
    return entries
