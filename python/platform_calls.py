"""The few calls of the C library that Python does not offer, without importing all of ctypes.

Where ``_ctypes`` is missing every call reports failure and kernels run all the same; then daemons
may survive the kernel that started them.
"""

from __future__ import annotations

from struct import pack

from .own import BUILTINS as __builtins__  # noqa: F401

try:
    import _ctypes
except ImportError:
    _ctypes = None  # type: ignore[assignment]

_SET_PDEATHSIG = 1
_SET_DUMPABLE = 4
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_LINE_BUFFERED = 1
_fflush = 0
_flushed: tuple[object, ...] = ()

if _ctypes is not None:
    _library = _ctypes.dlopen(None, 0)

    class _Pointer(_ctypes._SimpleCData):
        _type_ = "P"

    def _call(name: str, *arguments: object) -> int:
        try:
            return _ctypes.call_function(_ctypes.dlsym(_library, name), arguments)
        except OSError:
            return -1

else:

    def _call(name: str, *arguments: object) -> int:
        del name, arguments
        return -1


def available() -> bool:
    """Whether the calls below can work at all."""
    return _ctypes is not None


def adopt_orphans() -> bool:
    """Makes this process the parent of its descendants' orphans."""
    return _call("prctl", _SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent() -> bool:
    """Ends this process when its parent (a single-threaded one) ends."""
    return _call("prctl", _SET_PDEATHSIG, _SIGKILL, 0, 0, 0) == 0


def hide_memory(hidden: bool) -> bool:
    """Whether other processes of the user may read this one through /proc."""
    return _call("prctl", _SET_DUMPABLE, 0 if hidden else 1, 0, 0, 0) == 0


def name_process(name: bytes) -> bool:
    """The name that ps and top show; at most 15 bytes."""
    return _call("prctl", _SET_NAME, name[:15], 0, 0, 0) == 0


def line_buffer_c_stdout() -> None:
    """Makes C code's stdout come out line by line, in order with Python's, not at exit."""
    global _flushed, _fflush
    if _ctypes is not None:
        try:
            stdout = _Pointer(_Pointer.from_address(_ctypes.dlsym(_library, "stdout")).value)
            _fflush = _ctypes.dlsym(_library, "fflush")
        except OSError:
            return
        _flushed = (stdout,)
        _call("setvbuf", stdout, None, _LINE_BUFFERED, 0)


def flush_c_stdout() -> None:
    """Writes out what C code has printed and not flushed.

    Of stdout alone: a thread may wait for input on another stream, and hold its lock.
    """
    if _fflush:
        _ctypes.call_function(_fflush, _flushed)


def create_timer(clock: int, event: bytes) -> object | None:
    """A POSIX timer that does what the ``sigevent`` says; None where there is none."""
    if _ctypes is None:
        return None
    timer = _Pointer()
    made = _call("timer_create", clock, event, _ctypes.byref(timer)) == 0
    return timer if made else None


def set_timer(timer: object, seconds: float) -> None:
    """Lets the timer fire every so many seconds; no more with 0."""
    every = divmod(int(seconds * 1e9), 1_000_000_000)
    _call("timer_settime", timer, 0, pack("@qqqq", *every, *every), None)
