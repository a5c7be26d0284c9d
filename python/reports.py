"""What Python itself prints of exceptions, in threads and where they cannot be raised.

It is made in C, which looks for source in files: the lines of cells are shown only by the module
traceback.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from . import failures
from .hooks import when_imported
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_print_unraisable = sys.unraisablehook


def install() -> None:
    """Puts our hooks in the place of Python's; whoever sets another one has it."""
    sys.unraisablehook = unraisablehook
    if sys.version_info < (3, 13):
        when_imported("threading", _threading_loaded)


def unraisablehook(unraisable: Any, /) -> None:
    """Handle an unraisable exception."""
    try:
        text, found = unraisable.err_msg, unraisable.object
        if found is not None:
            text = f"{text or 'Exception ignored in'}: {_repr(found)}"
        elif text is not None and sys.version_info >= (3, 10):
            text += ":"
        lines = failures.lines_of_one(unraisable.exc_value, unraisable.exc_traceback)
        text = "".join([f"{text}\n" if text is not None else "", *lines])
    except BaseException:  # noqa: BLE001 - at the end of Python what this needs may be gone
        _print_unraisable(unraisable)
        return
    _write(sys.stderr, text)


def _threading_loaded(module: Any) -> None:
    original = module.excepthook

    def excepthook(args: Any, /) -> None:
        """Handle uncaught Thread.run() exception."""
        if args.exc_type is SystemExit:
            return
        try:
            stream = sys.stderr
            if stream is None and args.thread is not None:
                stream = args.thread._stderr
            name = get_ident() if args.thread is None else args.thread.name
            lines = failures.lines_of(args.exc_value, args.exc_traceback)
            text = "".join([f"Exception in thread {name}:\n", *lines])
        except BaseException:  # noqa: BLE001 - as above
            original(args)
            return
        _write(stream, text)

    module.excepthook = excepthook


def _repr(value: object) -> str:
    try:
        return repr(value)
    except BaseException:  # noqa: BLE001 - as Python itself does
        return "<object repr() failed>"


def _write(stream: Any, text: str) -> None:
    if stream is not None:
        stream.write(text)
        stream.flush()
