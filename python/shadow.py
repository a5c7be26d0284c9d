"""Files in the working directory that bear the names of standard modules.

The cell's own ``import json`` sees a json.py that lies there, as plain Python would, although the
forkserver has loaded the standard one long ago; and our code never sees it.
"""

from __future__ import annotations

import sys
from _imp import is_frozen
from time import monotonic, time_ns

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The clock of file systems ticks this slowly: a younger directory may change and look the same.
_TICK_NS = 20_000_000

_preloaded: set[str] = set()
_namespace: dict[str, Any] = {}
_path: list[str] = []
_their_path: list[str] = []
_their_modules: dict[str, Any] = {}
_stamp: tuple[int, int, int] | None = None
_looked = 0.0
# What a cell that names no import may overlook is what others made within this time.
_RECENT = 0.05
_loaded: dict[str, Any] = {}


def install(path: list[str], theirs: dict[str, Any]) -> None:
    """In the forkserver: takes note of where it loads from, and what kernels are to see instead."""
    _path[:] = sys.path
    _their_path[:] = path
    _their_modules.update(theirs)


def preloaded(names: set[str]) -> None:
    """In the forkserver: takes note of what it has loaded for its kernels."""
    _preloaded.update(names)


def begin(namespace: dict[str, Any]) -> None:
    """In a new kernel: what is searched, and found already, is the user's from now on."""
    global _namespace
    _namespace = namespace
    sys.path[:] = _their_path
    _drop_those_before()
    for name in _their_modules:
        _forget(name)
    MODULES.update(_their_modules)


def look_before() -> None:
    """In a kernel that was forked ahead: others may have made files meanwhile."""
    _drop_those_before()


def look(code: str) -> None:
    """A cell begins: sees what the directory shadows."""
    global _looked
    now = monotonic()
    if now - _looked > _RECENT or "import" in code:
        drop_shadowed()
        _looked = now


def moved() -> None:
    """The kernel was brought to another directory: the next cell looks, whatever it says."""
    global _looked, _stamp
    _looked, _stamp = -1.0, None


def forget() -> None:
    """Lets the namespace go."""
    global _namespace
    _namespace = {}


def drop_shadowed() -> None:
    """Forgets the modules that we have loaded, not the cell, and that the directory shadows.

    Modules that a bare interpreter has loaded stay what they are, as in plain Python.
    """
    global _stamp
    try:
        found = os.stat(".")
        stamp = (found.st_dev, found.st_ino, found.st_mtime_ns)
        if stamp == _stamp:
            return
        _stamp = stamp if time_ns() - found.st_mtime_ns > _TICK_NS else None
    except OSError:
        return
    _drop_those_in(".")


def _drop_those_before() -> None:
    """Of the folders that the path names before the standard library."""
    for folder in _their_path:
        if folder in _path:
            break
        _drop_those_in(folder)


def _drop_those_in(folder: str) -> None:
    try:
        files = os.listdir(folder)
    except OSError:
        return
    for file in files:
        name, dot, ending = file.partition(".")
        if name not in _preloaded:
            continue
        if (
            ending in ("py", "pyc")
            or ending.endswith("so")
            or (not dot and os.path.exists(f"{folder}/{name}/__init__.py"))
        ):
            _drop(name)


def _drop(name: str) -> None:
    if name in sys.builtin_module_names or is_frozen(name):
        # No file comes before these.
        return
    _preloaded.discard(name)
    module = MODULES.get(name)
    if any(value is module for value in list(_namespace.values())):
        # The cell has imported it itself: it stays as it was, as in plain Python.
        return
    _forget(name)


def _forget(name: str) -> None:
    for loaded in list(MODULES):
        if loaded == name or loaded.startswith(name + "."):
            del MODULES[loaded]


class Standard:
    """Within it, imports find the standard library, whatever the cell has put in its place."""

    def __enter__(self) -> None:
        # What a module itself imports must be standard too.
        self._theirs = {name: it for name, it in list(MODULES.items()) if _is_theirs(it)}
        self._before, self._path = set(MODULES), sys.path
        sys.path = list(_path)
        for name in self._theirs:
            MODULES.pop(name, None)

    def __exit__(self, *error: object) -> None:
        global _stamp
        sys.path = self._path
        MODULES.update(self._theirs)
        added = set(MODULES) - self._before
        if added:
            _preloaded.update(added)
            _stamp = None
            _drop_those_before()


def load(name: str) -> Any:
    """A module of the standard library."""
    module = _loaded.get(name)
    if module is None:
        with Standard():
            __import__(name)
            _loaded[name] = module = MODULES[name]
    return module


def _is_theirs(module: object) -> bool:
    """Whether it came from a folder that was not searched when the kernel began."""
    try:
        file = module.__file__  # type: ignore[attr-defined]
        return type(file) is str and not file.startswith(tuple(_path))
    except BaseException:  # noqa: BLE001 - anything can stand in MODULES
        return False
