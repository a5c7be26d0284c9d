"""Host tools for code in a cell: every function here asks the manager and returns a dict.

A failure is a value: the dict then has ``error``, a sentence, and ``error_class``. Each thread and
each child process has a connection of its own, so calls run side by side. A call is never sent
twice.
"""

from __future__ import annotations

import contextvars
import os
import sys
from _thread import _local

__all__ = ["json_parse", "retry", "shell_quote"]

current_cell: contextvars.ContextVar[int] = contextvars.ContextVar("warmcell_cell", default=0)
_connection = _local()
_MAX_REQUEST_BYTES = 64 << 20
_MAX_REPLY_BYTES = 64 << 20

# How modules are imported when they are needed; a kernel has a way that no file of the user's is in.
_load = __import__

if "_warmcell" not in sys.modules:
    # A program that a cell has started: the whole process works for that cell.
    try:
        _PROCESS_CELL = int(os.environ.get("HERMES_RPC_CELL", "0"))
    except ValueError:
        _PROCESS_CELL = 0
else:
    _PROCESS_CELL = 0


class Carried:
    """A function that runs for the cell that handed it on, in whatever thread or process.

    ``__call__`` is a property that hands back the bare function, so that no frame of ours stands in
    a traceback; and in another process only the bare function arrives.
    """

    def __init__(self, cell: int, function: object) -> None:
        self.cell = cell
        self.function = function

    @property
    def __call__(self) -> object:
        current_cell.set(self.cell)
        return self.function

    def __reduce__(self) -> tuple:
        return _arrive, (self.cell, self.function)


def _arrive(cell: int, function: object) -> object:
    current_cell.set(cell)
    return function


def _call(tool: str, arguments: dict, unknown: dict, keys: tuple) -> dict:
    """One call: asks, and gives a failure the keys that the tool's results have."""
    result = _ask(tool, arguments, unknown)
    if "error" in result:
        for key in keys:
            result.setdefault(key)
    return result


def _ask(tool: str, arguments: dict, unknown: dict) -> dict:
    """Sends a call on this thread's connection and waits for the answer to it."""
    cell = current_cell.get() or _PROCESS_CELL
    if cell == 0:
        return _failure(
            "refused",
            tool + ": this code belongs to no cell (a thread made with _thread or by C code); "
            "call it from threading.Thread or from the cell itself",
        )
    json = _load("json")
    arguments.update(unknown)
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = "/"
    try:
        request = {"id": _next_id(), "cell": cell, "tool": tool, "args": arguments, "cwd": cwd}
        data = json.dumps(request, ensure_ascii=False, allow_nan=False).encode(
            "utf-8", "surrogateescape"
        )
        data.decode()
    except (TypeError, ValueError, RecursionError) as error:
        return _failure("usage", f"{tool}: the arguments cannot be sent as JSON: {error}")
    if len(data) > _MAX_REQUEST_BYTES:
        return _failure(
            "usage", f"{tool}: the arguments have {len(data)} bytes, the limit is 64 MiB"
        )
    try:
        sock = _connect()
        sock.sendall(len(data).to_bytes(4, "little") + data)
        reply = json.loads(_receive(sock), strict=False)
        if reply.get("id") != request["id"]:
            raise OSError("the answer belongs to another call")
        return reply["result"]
    except (OSError, ValueError) as error:
        _drop()
        return _failure("unavailable", f"{tool}: the manager did not answer: {error}")
    except BaseException:
        # Interrupted in mid-call: whatever comes now would answer the wrong call.
        _drop()
        raise


def _failure(kind: str, sentence: str) -> dict:
    return {"error": sentence, "error_class": kind}


def _next_id() -> int:
    _connection.serial = serial = getattr(_connection, "serial", 0) + 1
    return serial


def _connect():  # noqa: ANN202 - a socket; naming its type would import the module
    """This thread's connection, in this process."""
    if getattr(_connection, "pid", None) == os.getpid():
        return _connection.sock
    socket = _load("socket")

    path, token = os.environ.get("HERMES_RPC_SOCKET"), os.environ.get("HERMES_RPC_TOKEN")
    if not path or not token:
        raise OSError("HERMES_RPC_SOCKET and HERMES_RPC_TOKEN are not set")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
        hello = b'{"hello":1,"token":"%s"}' % token.encode()
        sock.sendall(len(hello).to_bytes(4, "little") + hello)
    except BaseException:
        sock.close()
        raise
    _connection.sock, _connection.pid = sock, os.getpid()
    return sock


def _drop() -> None:
    if getattr(_connection, "pid", None) == os.getpid():
        _connection.pid = None
        _connection.sock.close()


def _receive(sock) -> bytes:  # noqa: ANN001
    size = int.from_bytes(_exactly(sock, 4), "little")
    if size > _MAX_REPLY_BYTES:
        raise OSError(f"an answer of {size} bytes")
    return _exactly(sock, size)


def _exactly(sock, size: int) -> bytes:  # noqa: ANN001
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            raise OSError("the connection was closed")
        data += part
    return bytes(data)


def json_parse(text: object) -> object:
    """Reads JSON from str or bytes; a byte order mark and raw control characters are accepted."""
    json = _load("json")
    if isinstance(text, (bytes, bytearray, memoryview)):
        text = bytes(text).decode("utf-8-sig")
    if not isinstance(text, str):
        raise TypeError(
            f"json_parse needs a str or bytes, got {type(text).__name__}"
            + ("; tools return dicts, not JSON text" if isinstance(text, dict) else "")
        )
    return json.loads(text.lstrip("\ufeff"), strict=False)


def shell_quote(text: object) -> str:
    """The text as one word of a POSIX shell."""
    return _load("shlex").quote(str(text))


def retry(function, max_attempts: int = 3, delay: float = 2):  # noqa: ANN001, ANN201
    """Calls the function until it succeeds; waits delay, 2 x delay, ... between attempts.

    After the last attempt its exception is raised.
    """
    import time

    if max_attempts < 1:
        raise ValueError(f"retry needs at least 1 attempt, got {max_attempts}")
    for attempt in range(max_attempts):
        try:
            return function()
        except Exception:
            if attempt == max_attempts - 1:
                raise
            time.sleep(delay * 2**attempt)
    return None


def __getattr__(name: str) -> object:
    sentence = f"there is no tool {name!r}; hermes_tools has " + ", ".join(sorted(__all__))
    if not name.startswith("_") and _asked_by_import(sys._getframe(1)):
        raise ImportError(sentence, name="hermes_tools")
    raise AttributeError(sentence)


def _asked_by_import(frame) -> bool:  # noqa: ANN001
    """Whether it is ``from hermes_tools import name``, which would hide an AttributeError's text."""
    from opcode import opmap

    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == opmap["IMPORT_FROM"]
