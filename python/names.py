"""Which variables a cell has set and deleted, for the record of what a lost kernel held.

The names come from the stores in the cell's own code. A full look at the namespace happens only
when its size says that something else (exec, a function with ``global``) has changed it.
"""

from __future__ import annotations

from opcode import EXTENDED_ARG, opmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

LIMIT = 200
_OPERATIONS = tuple(
    opmap[name]
    for name in ("STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL")
    if name in opmap
)


class Names:
    """The visible variables of one namespace: not private, not injected and still ours."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._injected = dict(namespace)
        self._known: dict[str, str] = {}
        # Keys that are not listed: private ones, and injected ones that are still ours.
        self._unlisted = len(namespace)

    def changes(self, codes: list[CodeType]) -> dict[str, Any]:
        """What changed since the last call, the latest bound last."""
        touched: dict[str, None] = {}
        for code in codes:
            for name in _stores(code):
                touched.pop(name, None)
                touched[name] = None
        namespace, known = self._namespace, self._known
        bound, gone = [], []
        for name in touched:
            if not self._listed(name):
                if known.pop(name, None) is not None:
                    gone.append(name)
            else:
                known.pop(name, None)
                known[name] = kind = type_name(namespace[name])
                bound.append((name, kind))
        if len(namespace) != len(known) + self._unlisted:
            self._look_at_all(bound, gone)
        return {"set": bound[-LIMIT:], "del": gone[:LIMIT], "total": len(known)}

    def _listed(self, name: object) -> bool:
        if type(name) is not str or name.startswith("_") or name not in self._namespace:
            return False
        return name not in self._injected or self._namespace[name] is not self._injected[name]

    def _look_at_all(self, bound: list[tuple[str, str]], gone: list[str]) -> None:
        namespace, known = self._namespace, self._known
        for name in [name for name in known if not self._listed(name)]:
            del known[name]
            gone.append(name)
        for name in list(namespace):
            if name not in known and self._listed(name):
                known[name] = kind = type_name(namespace[name])
                bound.append((name, kind))
        self._unlisted = len(namespace) - len(known)


def type_name(value: object) -> str:
    """The name of a value's type; a hostile one cannot raise or be endless."""
    try:
        return type.__dict__["__name__"].__get__(type(value))[:100]
    except Exception:  # noqa: BLE001 - a metaclass may do anything
        return "?"


def _stores(code: CodeType) -> list[str]:
    """The names that the code stores or deletes, in order of their place in it."""
    operations, arguments = code.co_code[::2], code.co_code[1::2]
    found = []
    for operation in _OPERATIONS:
        at = operations.find(operation)
        while at >= 0:
            index = arguments[at]
            if at and operations[at - 1] == EXTENDED_ARG:
                index |= arguments[at - 1] << 8
                if at > 1 and operations[at - 2] == EXTENDED_ARG:
                    index |= arguments[at - 2] << 16
            if index < len(code.co_names):
                found.append((at, code.co_names[index]))
            at = operations.find(operation, at + 1)
    found.sort()
    return [name for _at, name in found]
