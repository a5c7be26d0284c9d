"""At imports: functions that run when a module is first imported, and finders that look again."""

from __future__ import annotations

import sys

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_hooks: dict[str, list[Callable[[Any], None]]] = {}
# Those that are no part of the standard library.
_others: set[str] = set()
_STANDARD = os.path.dirname(os.__file__) + os.sep


def when_imported(name: str, hook: Callable[[Any], None], *, standard: bool = True) -> None:
    """Calls the hook with the module, now if it is loaded, and each time right after it was.

    If it is a standard module, files of the user's that bear its name are not meant.
    """
    if not standard:
        _others.add(name)
    module = MODULES.get(name)
    if module is not None and str(getattr(module, "__file__", _STANDARD)).startswith(_STANDARD):
        hook(module)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _hooks.setdefault(name, []).append(hook)


class _Finder:
    """Finds nothing itself: wraps the loader of the modules that are waited for."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _hooks:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if name not in _others and not str(spec.origin).startswith(_STANDARD):
                    # A file of the user's that bears the name.
                    return spec
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Steps aside before the module runs, so that the module sees its real loader."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # Each time: it may be reloaded, or taken out and imported again.
        for hook in _hooks.get(module.__name__, ()):
            hook(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class FreshFinders:
    """Finds nothing itself: at the first import of a cell it has the others look at the disk again.

    So a module that was made since the last cell is found, and a cell that imports nothing pays
    nothing. importlib.invalidate_caches() does more and can cost 50 ms.
    """

    def __init__(self) -> None:
        self.stale = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        del name, path, target
        if self.stale:
            self.stale = False
            for finder in list(sys.path_importer_cache.values()):
                forget = getattr(finder, "invalidate_caches", None)
                if forget is not None:
                    forget()
