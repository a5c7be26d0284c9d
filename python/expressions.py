"""What a front end wants to know after a cell: expressions, each evaluated by itself."""

from __future__ import annotations

from . import display, failures
from .ground import call
from .link import dumps
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from .interrupt import Interrupts

_NAME = "<user expression>"
# The reply holds them all, and is one piece of JSON.
_ALL_BYTES = 2 << 20
_EXPRESSIONS = 1_000


def evaluate(
    wanted: Any, namespace: dict[str, Any], interrupts: Interrupts
) -> Generator[object, None, dict[str, Any]]:
    """For each name the data of its value, or how it failed; an interrupt ends all of them."""
    found: dict[str, Any] = {}
    size = 0
    if type(wanted) is not dict:
        return found
    for name, source in list(wanted.items())[:_EXPRESSIONS]:
        one, failure = yield from _evaluate(source, namespace, interrupts)
        if failure is not None:
            one = _failure(failure)
            if issubclass(type(failure), KeyboardInterrupt):
                found[name] = one
                break
        size += len(dumps(one)) + len(name)
        if size > _ALL_BYTES:
            found[name] = _failure(ValueError("the values are too long for one reply"))
            break
        found[name] = one
    return found


def _evaluate(
    source: Any, namespace: dict[str, Any], interrupts: Interrupts
) -> Generator[object, None, tuple[Any, BaseException | None]]:
    try:
        code = compile(source.strip(), _NAME, "eval", 0, True)
    except BaseException as error:  # noqa: BLE001 - the compiler raises many kinds
        return None, error
    try:
        interrupts.arm(code)
        value, failure = yield from call(eval, code, namespace)
        if failure is None:
            bundle, failure = yield from display.on_ground(value)
    except BaseException as error:  # noqa: BLE001 - an interrupt may come at any moment
        failure = error
    finally:
        interrupts.disarm()
    if failure is not None:
        return None, failure
    data = {} if bundle is None else bundle.data
    metadata = {} if bundle is None else bundle.metadata
    return {"status": "ok", "data": data, "metadata": metadata}, None


def _failure(failure: BaseException) -> dict[str, Any]:
    told: dict[str, Any] = {}
    failures.describe(failure, False, False, told, {})
    return {
        "status": "error",
        "ename": told.get("ename", "SystemExit"),
        "evalue": told.get("evalue", ""),
        "traceback": told.get("traceback", []),
    }
