"""Which variables a cell has set and deleted, for the record of what a lost kernel held.

The names come from the stores in the cell's own code. A full look at the namespace, for what exec
or a function with ``global`` has done, costs 60 ns a name: a big one is looked at only when its
size or its last name says that there is something to find.
"""

from __future__ import annotations

try:
    # From 3.13 on the rest of opcode is for those who print code, and costs a millisecond.
    from _opcode_metadata import opmap  # type: ignore[import-not-found]
except ImportError:
    from opcode import opmap

from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

LIMIT = 200
EXTENDED_ARG = opmap["EXTENDED_ARG"]
# The manager remembers fewer names than this, the latest; what goes beyond needs no mention.
_DELETED = 2_000
# Any string can be a global name, of any length; more of it is not told.
NAME_CHARS = 100
# A namespace of this size is looked at whole after each cell.
_SMALL = 300
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
        # In the order in which they were bound.
        self._known: dict[str, None] = {}
        # The identity of each value, unlisted ones included, when it was last looked at.
        self._identities = {name: id(value) for name, value in namespace.items()}
        # Names and identities of all values when the namespace was last looked at whole, in order.
        self._seen: tuple[list[Any], list[int]] = ([], [])
        # Keys that are not listed: private ones, and injected ones that are still ours.
        self._unlisted = len(namespace)

    def changes(self, codes: list[CodeType]) -> dict[str, Any]:
        """What changed since the last call, the latest bound last."""
        namespace, known = self._namespace, self._known
        bound: list[tuple[str, str]] = []
        gone: list[str] = []
        for name in _stores(codes):
            if self._listed(name):
                self._bind(name, bound)
            elif name in known:
                self._forget(name, gone)
        size = len(namespace)
        if size <= _SMALL:
            values = list(map(id, namespace.values()))
            if values != self._seen[1] or list(namespace) != self._seen[0]:
                self._look_at_all(bound, gone)
                self._seen = (list(namespace), values)
        elif size != len(known) + self._unlisted or self._has_new_last():
            self._look_at_all(bound, gone)
        return {"set": bound[-LIMIT:], "del": gone[-_DELETED:], "total": len(known)}

    def unchanged(self) -> dict[str, Any]:
        """The record of a cell of which nothing is known."""
        return {"set": [], "del": [], "total": len(self._known)}

    def size(self) -> int:
        """How many globals there are, private ones included."""
        return len(self._namespace)

    def visible(self) -> list[tuple[str, Any]]:
        """The variables as they are now, the latest bound last; those of threads are the latest.

        Takes note of nothing, and looks nothing up: beside a key of a cell's make that runs code.
        """
        injected = self._injected
        found = {
            name: value
            for name, value in list(self._namespace.items())
            if type(name) is str
            and not name.startswith("_")
            and not (name in injected and injected[name] is value)
        }
        known = [(name, found.pop(name)) for name in self._known if name in found]
        return known + list(found.items())

    def _has_new_last(self) -> bool:
        """Whether the latest name is unknown: one came and one went, and the size is the same."""
        last = next(reversed(self._namespace), None)  # type: ignore[call-overload]
        return last not in self._known and self._listed(last)

    def _listed(self, name: object) -> bool:
        if type(name) is not str or name.startswith("_") or name not in self._namespace:
            return False
        return name not in self._injected or self._namespace[name] is not self._injected[name]

    def _bind(self, name: str, bound: list[tuple[str, str]]) -> None:
        value = self._namespace[name]
        self._known.pop(name, None)
        self._known[name] = None
        self._identities[name] = id(value)
        bound.append((name[:NAME_CHARS], type_name(value)))

    def _forget(self, name: str, gone: list[str]) -> None:
        del self._known[name]
        self._identities.pop(name, None)
        gone.append(name[:NAME_CHARS])

    def _look_at_all(self, bound: list[tuple[str, str]], gone: list[str]) -> None:
        namespace, injected, identities = self._namespace, self._injected, self._identities
        for name in [
            name
            for name in self._known
            if name not in namespace or (name in injected and not self._listed(name))
        ]:
            self._forget(name, gone)
        for name, value in list(namespace.items()):
            if identities.get(name) == id(value):
                continue
            if self._listed(name):
                self._bind(name, bound)
            else:
                identities[name] = id(value)
        self._unlisted = len(namespace) - len(self._known)


# What a metaclass cannot put anything in the place of.
_name_of = type.__dict__["__name__"].__get__


def type_name(value: object) -> str:
    """The name of a value's type; a hostile one cannot raise or be endless."""
    try:
        return _name_of(type(value))[:NAME_CHARS]
    except Exception:  # noqa: BLE001 - a metaclass may do anything
        return "?"


def _stores(codes: list[CodeType]) -> list[str]:
    """The names that the code stores or deletes, each once, in order of their last place in it."""
    found = {}
    for code in codes:
        instructions = code.co_code
        operations = instructions[::2]
        places = []
        for operation in _OPERATIONS:
            at = operations.find(operation)
            while at >= 0:
                places.append(at)
                at = operations.find(operation, at + 1)
        if len(places) > 1:
            places.sort()
        names = code.co_names
        for at in places:
            index = instructions[2 * at + 1]
            if at and operations[at - 1] == EXTENDED_ARG:
                index |= instructions[2 * at - 1] << 8
                if at > 1 and operations[at - 2] == EXTENDED_ARG:
                    index |= instructions[2 * at - 3] << 16
            if index < len(names):
                name = names[index]
                found.pop(name, None)
                found[name] = None
    return list(found)
