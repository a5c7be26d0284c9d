"""The variables of a kernel with type and size, for those who look at a session between cells.

No code of a cell's runs for it: a value is asked for nothing, what a type holds is read from its
own dictionaries, and only C code or pandas itself measures. What cannot be measured has no size.
"""

from __future__ import annotations

import sys

# Taken now: a cell may put another in its place.
from sys import getsizeof

from .names import LIMIT, NAME_CHARS, type_name
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .names import Names

# A namespace of more names is not looked at: the manager tells what it knows of it.
_NAMES = 100_000
# Numpy's most, and more than anybody reads.
_DIMENSIONS = 64
# By identity: a metaclass may say what a type is equal to.
_CONTAINERS = frozenset(map(id, (str, bytes, bytearray, list, tuple, dict, set, frozenset)))
# What a metaclass cannot put anything in the place of.
_mro_of, _dict_of, _module_of, _name_of = (
    type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__module__", "__name__")
)
_METHOD = type(object.__dict__["__sizeof__"])
_GETTER = type(type.__dict__["__dict__"])
_MODULE = type(sys)


def content(names: Names) -> dict[str, Any]:
    """The answer: for each variable name, type, size in bytes, length or shape; the latest last."""
    if names.size() > _NAMES:
        return {}
    visible = names.visible()
    shown = visible[-LIMIT:]
    return {"variables": [_entry(*pair) for pair in shown], "total": len(visible)}


def _entry(name: str, value: object) -> list[Any]:
    size = extent = None
    try:
        size, extent = _measure(value)
    except Exception:  # noqa: BLE001 - a memoryview that was released, pandas in another version
        pass
    return [name[:NAME_CHARS], type_name(value), size, extent]


def _measure(value: Any) -> tuple[int | None, Any]:
    """The size in bytes, and the length or shape; None for what cannot be had."""
    kind = type(value)
    if id(kind) in _CONTAINERS:
        return getsizeof(value), len(value)
    classes = _mro_of(kind)
    held = [_dict_of(it) for it in classes]
    for own in held:
        for key in own:
            # To look for something beside such a key may be to compare with it.
            if type(key) is not str:
                return None, None
    if _is_of_pandas(kind):
        return _measure_pandas(value)
    array = _array_of(classes, held)
    if array is not None:
        shape = array["shape"].__get__(value)
        return array["nbytes"].__get__(value), list(shape)[:_DIMENSIONS]
    for own in held:
        if "__sizeof__" in own:
            return (getsizeof(value) if type(own["__sizeof__"]) is _METHOD else None), None
    return None, None


def _array_of(classes: Any, held: list[Any]) -> Any:
    """What numpy's own class of arrays holds, if it is among these."""
    for klass, own in zip(classes, held):
        if (
            _name_of(klass) == "ndarray"
            and _is_named(_module_of(klass), "numpy")
            # Only C has such, and they refuse what is of another type.
            and type(own.get("nbytes")) is type(own.get("shape")) is _GETTER
        ):
            return own
    return None


def _is_named(module: object, name: str) -> bool:
    return type(module) is str and module == name


def _is_of_pandas(kind: type) -> bool:
    """Whether the type is one of pandas' own, and not one that says so."""
    module = _module_of(kind)
    if type(module) is not str or module.partition(".")[0] != "pandas":
        return False
    loaded = MODULES.get(module)
    return type(loaded) is _MODULE and loaded.__dict__.get(_name_of(kind)) is kind


def _measure_pandas(value: Any) -> tuple[int | None, Any]:
    """Without memory_usage(), which makes an object a column and keeps it."""
    if _name_of(type(value)) not in ("DataFrame", "Series"):
        return _bytes_of(value), len(value)
    axes = value._mgr.axes
    for axis in axes:
        _bytes_of(axis)
    # Rows first, and only their labels are counted, as pandas does.
    shape = [len(axis) for axis in reversed(axes)]
    return sum(map(_bytes_of, value._mgr.arrays)) + _bytes_of(axes[-1]), shape


def _bytes_of(part: Any) -> int:
    kind = type(part)
    classes = _mro_of(kind)
    array = _array_of(classes, [_dict_of(it) for it in classes])
    if array is not None:
        return array["nbytes"].__get__(part)
    if not _is_of_pandas(kind):
        raise TypeError
    if _name_of(kind) == "MultiIndex":
        # Its nbytes asks the names of its levels, which are anybody's.
        return sum(map(_bytes_of, part.codes))
    return int(part.nbytes)
