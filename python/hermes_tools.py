"""Host tools for code in a cell: every function here asks the manager and returns a dict.

A failure is a value: the dict then has ``error``, a sentence, and ``error_class``. Each thread and
each child process has a connection of its own, so calls run side by side. A call is never sent
twice.
"""

from __future__ import annotations

import os
import sys
from _contextvars import ContextVar
from _json import encode_basestring, make_encoder, make_scanner
from _socket import AF_UNIX, MSG_NOSIGNAL, SOCK_STREAM, socket
from _thread import _local

# Everything above is C or loaded in any interpreter: a json.py or socket.py that lies beside the
# program of a cell's child, or in the working directory, must not be able to break a call.

__all__ = ["json_parse", "retry", "shell_quote"]

current_cell: ContextVar[int] = ContextVar("warmcell_cell", default=0)
_MAX_REQUEST_BYTES = 64 << 20
_MAX_REPLY_BYTES = 64 << 20
_RECEIVE_BYTES = 64 << 10

# How modules are imported when they are needed; in a kernel no file of the user's is in the way.
_load = __import__

if "_warmcell" not in sys.modules:
    # A program that a cell has started: the whole process works for that cell.
    try:
        _PROCESS_CELL = int(os.environ.get("HERMES_RPC_CELL", "0"))
    except ValueError:
        _PROCESS_CELL = 0
else:
    _PROCESS_CELL = 0


class _Required:
    """Stands for an argument that was left out, so that the tool itself can say which."""

    def __repr__(self) -> str:
        return "<required>"


_REQUIRED = _Required()


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


# Calls.


def _call(tool: str, arguments: dict, unknown: dict, keys: tuple) -> dict:
    """One call: asks, and gives a failure the keys that the tool's results have."""
    given = {name: value for name, value in arguments.items() if value is not _REQUIRED}
    given.update(unknown)
    result = _ask(tool, given)
    if "error" in result:
        for key in keys:
            result.setdefault(key)
    return result


def _ask(tool: str, arguments: dict) -> dict:
    """Sends a call on this thread's connection and waits for the answer to it."""
    cell = current_cell.get() or _PROCESS_CELL
    if cell == 0:
        return _failure(
            "refused",
            tool + ": this code belongs to no cell (a thread made with _thread or by C code); "
            "call it from threading.Thread or from the cell itself",
        )
    try:
        data = _dumps({"cell": cell, "tool": tool, "args": arguments, "cwd": _directory()})
    except (TypeError, ValueError, RecursionError) as error:
        return _failure("usage", _unsendable(tool, arguments, error))
    if len(data) > _MAX_REQUEST_BYTES:
        return _failure("usage", _too_long(tool, arguments))
    # Taken out while it is in use: a call that is interrupted, or made by a signal handler in the
    # middle of another, can never read the answer to the other one.
    connection = _held.__dict__.pop("connection", None)
    try:
        if connection is None or not connection.is_usable():
            connection = _Connection()
        result = connection.call(data)
    except (OSError, ValueError) as error:
        if connection is not None:
            connection.close()
        return _failure("unavailable", f"{tool}: the manager did not answer: {error}")
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    _held.connection = connection
    return result


def _failure(kind: str, sentence: str) -> dict:
    return {"error": sentence, "error_class": kind}


def _directory() -> object:
    """Where relative paths begin; as bytes if it is not UTF-8, None if it is gone."""
    try:
        directory = os.getcwd()
    except OSError:
        return None
    try:
        directory.encode()
    except UnicodeEncodeError:
        return list(os.getcwdb())
    return directory


def _unsendable(tool: str, arguments: dict, error: Exception) -> str:
    """Which argument is no JSON, and why."""
    for name, value in arguments.items():
        try:
            if isinstance(value, str):
                value.encode()
            _dumps(value)
        except UnicodeEncodeError as fault:
            code = ord(fault.object[fault.start])
            return (
                f"{tool}: {name!r} holds a lone surrogate (U+{code:04X} at index {fault.start}), "
                "which is not text; replace it, or use open() in the cell for bytes and for names "
                "of files that are not UTF-8"
            )
        except RecursionError:
            return f"{tool}: {name!r} cannot be sent: it is nested too deeply"
        except (TypeError, ValueError) as fault:
            return f"{tool}: {name!r} cannot be sent: {fault}"
    return f"{tool}: the arguments cannot be sent as JSON: {error}"


def _too_long(tool: str, arguments: dict) -> str:
    sizes = {name: len(_dumps(value)) for name, value in arguments.items()}
    name = max(sizes, key=lambda name: sizes[name])
    return (
        f"{tool}: {name!r} has {sizes[name]:,} bytes, a call has at most 64 MiB; "
        "give it in parts, or use open() in the cell"
    )


# The connection.

_held = _local()
# The descriptors of all connections of this process, and which file each is.
_open: dict = {}


# Socket and token, in a kernel: its own, whatever a cell does with its environment.
_address: tuple = ()


def _from_environment() -> tuple:
    return os.environ.get("HERMES_RPC_SOCKET"), os.environ.get("HERMES_RPC_TOKEN")


class _Connection:
    """A connection of one thread in one process."""

    __slots__ = ("_file", "_pid", "_serial", "_sock")

    def __init__(self) -> None:
        self._pid = 0
        path, token = _address or _from_environment()
        if not path or not token:
            raise OSError("HERMES_RPC_SOCKET and HERMES_RPC_TOKEN are not set")
        sock = _high(socket(AF_UNIX, SOCK_STREAM))
        try:
            sock.connect(path)
            hello = b'{"hello":1,"token":"%s"}' % token.encode()
            sock.sendall(len(hello).to_bytes(4, "little") + hello, MSG_NOSIGNAL)
            self._file = _identity(sock.fileno())
        except BaseException:
            sock.close()
            raise
        self._sock = sock
        self._serial = 0
        _open[sock.fileno()] = self._file
        self._pid = os.getpid()

    def is_usable(self) -> bool:
        """Whether it is this process's own, and the cell's code has not closed its descriptor."""
        return self._pid == os.getpid() and _identity(self._sock.fileno()) == self._file

    def call(self, data: bytes) -> dict:
        """Sends a request and returns the result that the answer to it holds."""
        self._serial += 1
        # The number comes first; the data begins with a brace.
        number = b'{"id":%d,' % self._serial
        head = (len(number) + len(data) - 1).to_bytes(4, "little") + number
        try:
            if len(data) < _RECEIVE_BYTES:
                self._sock.sendall(head + data[1:], MSG_NOSIGNAL)
            else:
                self._sock.sendall(head, MSG_NOSIGNAL)
                self._sock.sendall(memoryview(data)[1:], MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            # Whoever was turned away was told why before the connection was closed.
            pass
        reply, _ = _scan(self._receive().decode(), 0)
        # A request that made no sense is answered without its number.
        if reply["id"] not in (self._serial, None):
            raise OSError("the answer belongs to another call")
        return reply["result"]

    def _receive(self) -> bytes:
        sock = self._sock
        data = sock.recv(_RECEIVE_BYTES)
        while len(data) < 4:
            data += _some(sock.recv(_RECEIVE_BYTES))
        size = int.from_bytes(data[:4], "little")
        if size > _MAX_REPLY_BYTES:
            raise OSError(f"an answer of {size} bytes")
        if len(data) == size + 4:
            return data[4:]
        whole = bytearray(data[4:])
        while len(whole) < size:
            whole += _some(sock.recv(min(size - len(whole), 1 << 20)))
        return bytes(whole)

    def close(self) -> None:
        """Ends it for all who hold its descriptor: what the call has started is stopped."""
        pid, self._pid = self._pid, 0
        if pid != os.getpid():
            # Of the process that this one was forked from; its descriptor was closed then.
            if pid:
                self._sock.detach()
            return
        number = self._sock.fileno()
        _open.pop(number, None)
        if _identity(number) != self._file:
            self._sock.detach()
            return
        try:
            self._sock.shutdown(2)
        except OSError:
            pass
        self._sock.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001 - at the end of the interpreter anything may be gone
            pass


def _some(data: bytes) -> bytes:
    if not data:
        raise OSError("the connection was closed")
    return data


def _high(sock: socket) -> socket:
    """Moves a socket out of the way of code that closes or overwrites low descriptors."""
    try:
        fcntl, resource = _load("fcntl"), _load("resource")
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = max(64, min(soft if soft > 0 else 65_536, 65_536) // 2)
        moved = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)
    except (ImportError, OSError):
        return sock
    sock.close()
    return socket(AF_UNIX, SOCK_STREAM, 0, moved)


def _identity(number: int) -> object:
    try:
        stat = os.fstat(number)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _forget_all() -> None:
    """In a forked child: the parent's connections are the parent's alone."""
    for number, file in list(_open.items()):
        if _identity(number) == file:
            os.close(number)
    _open.clear()


os.register_at_fork(after_in_child=_forget_all)


# JSON. The module of that name costs milliseconds to import and may be somebody else's.


class _Decoder:
    """What the C scanner wants to know of a decoder."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float

    def __init__(self) -> None:
        self.memo: dict = {}


def _plain(value: object) -> object:
    """What a value is sent as that is no JSON by itself: a path is."""
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes are not text; decode them first")
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


_scan = make_scanner(_Decoder())
_encode = make_encoder(None, _plain, encode_basestring, None, ":", ",", False, False, False)


def _dumps(value: object) -> bytes:
    return "".join(_encode(value, 0)).encode()


def json_parse(text: object) -> object:
    """Reads JSON from str or bytes; a byte order mark and raw control characters are accepted."""
    if isinstance(text, (bytes, bytearray, memoryview)):
        data = bytes(text)
        wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        text = data.decode("utf-16" if wide else "utf-8")
    if not isinstance(text, str):
        raise TypeError(
            f"json_parse needs a str or bytes, got {type(text).__name__}"
            + ("; tools return dicts, not JSON text" if isinstance(text, dict) else "")
        )
    text = text.strip("\ufeff \t\n\r")
    try:
        value, end = _scan(text, 0)
    except StopIteration as stop:
        raise _json_error("Expecting value", text, stop.value) from None
    except (ImportError, AttributeError, SystemError):
        raise _scan_error(text) from None
    if end != len(text):
        raise _json_error("Extra data", text, end)
    return value


def _scan_error(text: str) -> ValueError:
    """What is wrong with the text, where the C scanner could not say it.

    It looks for its exception in json.decoder, which may not be loaded, or be somebody else's.
    """
    try:
        _load("json").loads(text, strict=False)
    except ValueError as error:
        return error
    except Exception:  # noqa: BLE001 - somebody else's json module may do anything
        pass
    return _json_error("Not JSON", text, 0)


def _json_error(message: str, text: str, at: int) -> ValueError:
    try:
        return _load("json").JSONDecodeError(message, text, at)
    except Exception:  # noqa: BLE001 - somebody else's json module may do anything
        return ValueError(f"{message}: char {at}")


_UNQUOTED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def shell_quote(text: object) -> str:
    """The text (a str, bytes, a path, a number) as one word of a POSIX shell."""
    if isinstance(text, (bytes, os.PathLike)):
        text = os.fsdecode(text)
    word = str(text)
    if word and _UNQUOTED.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def retry(function, max_attempts: int = 3, delay: float = 2):  # noqa: ANN001, ANN201
    """Calls the function until it raises nothing; waits delay, 2 x delay, ... between attempts.

    After the last attempt its exception is raised. A failed tool call is a value, not an exception:
    raise one in the function to have it tried again.
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
    """Whether it is ``from hermes_tools import name``: that hides the text of an AttributeError."""
    try:
        from opcode import opmap
    except ImportError:
        return False
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == opmap.get("IMPORT_FROM")
