"""``input()`` and ``getpass()``: a question to whoever is at the keyboard of the cell."""

from __future__ import annotations

import builtins
import sys
from _thread import get_ident
from itertools import count

from . import hooks, platform_calls, shown, streams
from .link import cut, dumps, exact, without_surrogates
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOBODY = (
    "{name}() cannot be answered: nobody is at the keyboard of this cell. "
    "Put the value into the code, or read it from a file or an environment variable"
)
ELSEWHERE = (
    "{name}() cannot be answered: only the code of the cell itself can ask, in the kernel's main "
    "thread and process while the cell runs"
)
INTERRUPTED = "{name}() cannot be answered: the cell was interrupted, and is to end"
NO_ANSWER = "{name}() was not answered: the front end gave no input, or has gone away"

_numbers = count(1)
# Whether the cell that runs was interrupted: the kernel's.
was_interrupted: Callable[[], bool] = bool


def install() -> None:
    """In the forkserver: puts ours in the place of Python's."""

    def input(prompt: object = "", /) -> str:
        return _ask("input", prompt, password=False)

    def getpass_loaded(module: Any) -> None:
        def getpass(prompt: str = "Password: ", stream: Any = None, **more: Any) -> str:
            del stream, more
            return _ask("getpass", prompt, password=True)

        module.getpass = getpass

    builtins.input = input
    hooks.when_imported("getpass", getpass_loaded)


def _ask(name: str, prompt: object, *, password: bool) -> str:
    request = shown.request
    if request is None or not request.allows_input:
        raise EOFError(NOBODY.format(name=name))
    if (
        os.getpid() != shown.pid
        or get_ident() != shown.main_thread
        or shown.cell_of_caller() != request.cell
    ):
        raise EOFError(ELSEWHERE.format(name=name))
    if was_interrupted():
        # A debugger catches the interrupt and asks again: then the cell would never end, and its
        # kernel would be killed for it.
        raise EOFError(INTERRUPTED.format(name=name))
    text = without_surrogates(cut(exact(str(prompt))))
    # What was printed before is shown before.
    streams.flush()
    platform_calls.flush_c_stdout()
    number = next(_numbers)
    shown.link.send(
        "stdin",
        "input_request",
        request.header,
        {"prompt": text, "password": password},
        (dumps({"warmcell": {"number": number}}), ()),
    )
    value = shown.link.wait_for(b"input_reply", number).get("value")
    if type(value) is not str:
        raise EOFError(NO_ANSWER.format(name=name))
    sys.audit("builtins.input/result", value)
    return value
