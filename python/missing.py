"""What can be told of a module that could not be imported; imported when that has happened.

Nothing here imports or runs anything of the user's: it looks at names of files, and at few of them.
"""

from __future__ import annotations

import sys

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A hint is not worth more: folders that are looked into, and how deep below the directory.
_MOST_FOLDERS = 200
_DEEPEST = 3
_HIGHEST = 3
_CHAIN = 20
_NO_PROJECT = {"node_modules", "site-packages", "dist-packages", "__pycache__"}


def facts(failure: Any) -> dict[str, Any] | None:
    """Of the exception, or of the first of those that it comes from which is of that kind."""
    for _ in range(_CHAIN):
        if failure is None:
            return None
        if issubclass(type(failure), ModuleNotFoundError) and type(failure.name) is str:
            return _of_module(failure.name[:500])
        if failure.__cause__ is None and not issubclass(type(failure), ImportError):
            return None
        failure = failure.__cause__ or failure.__context__
    return None


def _of_module(name: str) -> dict[str, Any]:
    top = name.partition(".")[0]
    loaded = MODULES.get(top)
    file = getattr(loaded, "__file__", None)
    return {
        "module": name,
        "python": sys.executable,
        "pip": _can_import("pip"),
        "ensurepip": _can_import("ensurepip"),
        "uv": _is_on_path("uv"),
        "managed": _is_managed(),
        # The package is there, and this part of it is not.
        "package": file if type(file) is str and top != name else None,
        "file": _in_project(top) if loaded is None and top.isidentifier() else None,
    }


def _can_import(name: str) -> bool:
    return any(_file_in(folder, name) for folder in sys.path if type(folder) is str)


def _file_in(folder: str, name: str) -> str | None:
    for file in (os.path.join(folder, name, "__init__.py"), os.path.join(folder, name + ".py")):
        if os.path.isfile(file):
            return file
    return None


def _is_on_path(program: str) -> bool:
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return any(os.access(os.path.join(it, program), os.X_OK) for it in folders if it)


def _is_managed() -> bool:
    """Whether pip would refuse, because the system's packages own this Python (PEP 668)."""
    if sys.prefix != sys.base_prefix:
        return False
    return os.path.isfile(os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED"))


def _in_project(name: str) -> str | None:
    """A file of this name that lies above, beside or below the working directory."""
    here = os.getcwd()
    above = here
    for _ in range(_HIGHEST):
        above = os.path.dirname(above)
        if above in ("/", "/tmp", os.path.expanduser("~")):
            break
        for folder in (above, os.path.join(above, "src"), os.path.join(above, "lib")):
            found = _file_in(folder, name)
            if found:
                return found
    todo = [(here, 0)]
    for looked, (folder, depth) in enumerate(todo):
        found = _file_in(folder, name)
        if found:
            return found
        if depth < _DEEPEST and looked < _MOST_FOLDERS:
            todo += [(below, depth + 1) for below in _folders_in(folder)]
        if looked >= _MOST_FOLDERS:
            return None
    return None


def _folders_in(folder: str) -> list[str]:
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= _MOST_FOLDERS:
                    break
                if entry.name[0] == "." or entry.name in _NO_PROJECT:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    continue
                # Not what is installed: it is on the path, or of another Python.
                if not os.path.isfile(os.path.join(entry.path, "pyvenv.cfg")):
                    found.append(entry.path)
    except OSError:
        pass
    return found
