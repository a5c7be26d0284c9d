"""Completion and help over the live namespace; imported when it is first asked for.

Names are looked up and attributes are got, as the cell itself would; nothing is called, and no code
of a front end's is evaluated. What does not end is interrupted from outside.
"""

from __future__ import annotations

import sys

from . import shadow
from .link import cut, exact, without_surrogates
from .names import type_name
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_MATCHES = 1_000
_MATCH_CHARS = 200
# Tables of pandas, and so many of their columns.
_TABLES = frozenset(("DataFrame", "Series"))
_KEYS = 10_000
# Entries of folders that are looked at for modules.
_ENTRIES = 50_000
# Of the code before the cursor.
_CHARS = 20_000
_SCALARS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))
_CONTAINERS = frozenset(map(id, (list, tuple, dict, set, frozenset, bytearray)))
_MODULE = type(sys)


class _Unknown(Exception):
    """There is nothing of that name."""


def complete(code: str, position: int, namespace: dict[str, Any]) -> dict[str, Any]:
    """What may stand in the place of the word that ends at the cursor."""
    before = code[max(0, position - _CHARS) : position]
    prefix, matches = _candidates(before, namespace)
    return {
        "status": "ok",
        "matches": matches,
        "cursor_start": position - len(prefix),
        "cursor_end": position,
        "metadata": {},
    }


def _candidates(before: str, namespace: dict[str, Any]) -> tuple[str, list[str]]:
    key = _key(before, namespace)
    opened = _open_text(before) if key is None else None
    if key is not None or opened is not None:
        return key or _paths(opened or "")
    line = before.rpartition("\n")[2].rpartition(";")[2].lstrip()
    # What begins with these is no Python; what IPython makes of it is not known here.
    return ("", []) if line[:1] in ("!", "%") else _in_code(before, line, namespace)


def _in_code(before: str, line: str, namespace: dict[str, Any]) -> tuple[str, list[str]]:
    words = line.split()
    if words and words[0] in ("from", "import") and line[len(words[0]) :][:1].isspace():
        found = _in_import(line, words)
        if found is not None:
            return found
    word = _word_at_end(before)
    parts = word.split(".")
    prefix = parts[-1]
    if not prefix and len(parts) == 1:
        return "", []
    if len(parts) == 1:
        keyword = shadow.load("keyword")
        names: list[Any] = [*namespace, *_builtins(), *keyword.kwlist]
        return prefix, _matching(names, prefix)
    try:
        value = _resolve(parts[:-1], namespace)
    except _Unknown:
        return prefix, []
    return prefix, _matching(_dir(value), prefix)


def _matching(names: Iterable[Any], prefix: str) -> list[str]:
    """Each once, in order; private ones only if they are asked for."""
    found = {
        name
        for name in names
        if type(name) is str
        and name.startswith(prefix)
        and (prefix or not name.startswith("_"))
        and len(name) <= _MATCH_CHARS
        and name.isidentifier()
    }
    return [without_surrogates(name) for name in sorted(found)[:_MATCHES]]


def _word_at_end(text: str) -> str:
    """The dotted name that the text ends with; none if something stands before its first dot."""
    start = len(text)
    while start and (text[start - 1] == "." or ("a" + text[start - 1]).isidentifier()):
        start -= 1
    word = text[start:]
    return word if word[:1].isidentifier() else ""


def _builtins() -> dict[str, Any]:
    return MODULES["builtins"].__dict__


def _resolve(parts: list[str], namespace: dict[str, Any]) -> Any:
    first, *rest = parts
    for names in (namespace, _builtins()):
        if first in names:
            value = names[first]
            break
    else:
        raise _Unknown
    for name in rest:
        try:
            value = getattr(value, name)
        except Exception:  # noqa: BLE001 - a property may raise anything
            raise _Unknown from None
    return value


def _dir(value: Any) -> list[Any]:
    try:
        return dir(value)
    except Exception:  # noqa: BLE001 - its __dir__ may raise anything
        return list(object.__dir__(value))


# Inside of a text.


def _open_text(before: str) -> str | None:
    """What stands between an opening quote and the cursor; None if that is not in a text."""
    quote, start, at = "", 0, 0
    while at < len(before):
        sign = before[at]
        if not quote:
            if sign == "#":
                end = before.find("\n", at)
                if end < 0:
                    return before[at:]
                at = end
            elif sign in "'\"":
                quote = sign * 3 if before.startswith(sign * 3, at) else sign
                at += len(quote) - 1
                start = at + 1
        elif sign == "\\":
            at += 1
        elif before.startswith(quote, at):
            at += len(quote) - 1
            quote = ""
        elif sign == "\n" and len(quote) == 1:
            quote = ""
        at += 1
    if not quote:
        return None
    opened = before[start:]
    kind = before[: start - len(quote)][-2:].lower()
    is_code = "f" in kind and opened.replace("{{", "").rfind("{") > opened.rfind("}")
    return None if is_code else opened


def _paths(opened: str) -> tuple[str, list[str]]:
    """The files and folders whose paths begin so."""
    if "\\" in opened or "\n" in opened or "\0" in opened:
        return "", []
    folder, slash, prefix = opened.rpartition("/")
    found = []
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:
            for _, entry in zip(range(_ENTRIES), entries):
                name = entry.name
                if name.startswith(prefix) and (prefix or not name.startswith(".")):
                    found.append(name + "/" if entry.is_dir() else name)
    except OSError:
        pass
    fits = [name for name in sorted(found) if len(name) <= _MATCH_CHARS]
    return prefix, [without_surrogates(name) for name in fits[:_MATCHES]]


# Keys of a dict.


def _key(before: str, namespace: dict[str, Any]) -> tuple[str, list[str]] | None:
    """What completes ``name["ke``; None if that is not where the cursor stands."""
    at = before.rfind("[")
    if at < 0 or "]" in before[at:] or "\n" in before[at:]:
        return None
    opened = before[at + 1 :].lstrip()
    quote = opened[:1]
    if quote not in ("'", '"') or quote in opened[1:]:
        return None
    word = _word_at_end(before[:at])
    if not word:
        return None
    prefix = opened[1:]
    try:
        value = _resolve(word.split("."), namespace)
        keys = _keys_of(value)
    except Exception:  # noqa: BLE001 - as the value likes
        return prefix, []
    found = sorted(
        {
            key
            for key in keys
            if type(key) is str
            and key.startswith(prefix)
            and len(key) <= _MATCH_CHARS
            and not any(sign in key for sign in (quote, "\\", "\n"))
        }
    )
    return prefix, [without_surrogates(key) for key in found[:_MATCHES]]


def _keys_of(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value)
    if type_name(value) in _TABLES and str(type(value).__module__).startswith("pandas."):
        # As IPython does, for these alone: their keys are the names of their columns.
        return [key for _, key in zip(range(_KEYS), value.keys())]
    method = getattr(type(value), "_ipython_key_completions_", None)
    return [] if method is None else list(method(value))


# Modules.


def _in_import(line: str, words: list[str]) -> tuple[str, list[str]] | None:
    if words[0] == "import":
        last = line.rpartition(",")[2] if "," in line else line[len("import") :]
        last = last.lstrip()
        if last.split()[1:] or (last and last[-1:].isspace()):
            # After ``as``.
            return None
        return _of_module_path(last)
    rest = line[len("from") :].lstrip()
    path, space, names = rest.partition(" ")
    if not space:
        return _of_module_path(path)
    names = names.lstrip()
    if not names.startswith("import") or names == "import":
        return names, ["import"] if "import".startswith(names) else []
    last = names[len("import") :].rpartition(",")[2].lstrip(" \t(")
    return None if last.split()[1:] else _of_module(path, last)


def _of_module(path: str, last: str) -> tuple[str, list[str]]:
    if path.startswith("."):
        return last, []
    module = MODULES.get(path)
    known = [] if module is None else dir(module)
    return last, _matching([*known, *_submodules(path)], last)


def _of_module_path(path: str) -> tuple[str, list[str]]:
    package, dot, prefix = path.rpartition(".")
    if dot:
        return prefix, _matching(_submodules(package), prefix)
    return prefix, _matching(_top_modules(), prefix)


def _top_modules() -> list[str]:
    found = list(sys.builtin_module_names)
    found += [name for name in list(MODULES) if type(name) is str and "." not in name]
    return found + _modules_in(sys.path)


def _submodules(package: str) -> list[str]:
    module = MODULES.get(package)
    if module is not None:
        return _modules_in(getattr(module, "__path__", None) or ())
    inside = package.replace(".", "/")
    folders = [f"{it or '.'}/{inside}" for it in list(sys.path) if type(it) is str]
    return _modules_in(folders)


def _modules_in(folders: Iterable[Any]) -> list[str]:
    found = []
    entries = 0
    for folder in list(folders)[:200]:
        if type(folder) is not str:
            continue
        try:
            files = os.listdir(folder or ".")
        except (OSError, ValueError):
            continue
        entries += len(files)
        if entries > _ENTRIES:
            break
        for file in files:
            name, dot, ending = file.partition(".")
            if not name.isidentifier():
                continue
            is_module = ending in ("py", "pyc") or ending.endswith("so")
            if is_module or (not dot and os.path.exists(f"{folder or '.'}/{name}/__init__.py")):
                found.append(name)
    return [name for name in found if name != "__init__"]


# Help.


def inspect(code: str, position: int, detail: int, namespace: dict[str, Any]) -> dict[str, Any]:
    """What is known of the object whose name the cursor stands on, or whose call it stands in."""
    reply: dict[str, Any] = {"status": "ok", "found": False, "data": {}, "metadata": {}}
    word = _word_at(code, position)
    if not word:
        return reply
    try:
        value = _resolve(word.split("."), namespace)
    except _Unknown:
        return reply
    text = cut("\n".join(_described(word, value, detail)))
    return {**reply, "found": True, "data": {"text/plain": without_surrogates(text)}}


def _word_at(code: str, position: int) -> str:
    start, end = max(0, position - _CHARS), position
    while end < len(code) and ("a" + code[end]).isidentifier():
        end += 1
    word = _word_at_end(code[start:end])
    if word:
        return word.rstrip(".")
    # Inside the brackets of a call.
    depth = 0
    for at in range(position - 1, start - 1, -1):
        sign = code[at]
        if sign in ")]}":
            depth += 1
        elif sign in "([{":
            if depth == 0:
                return _word_at_end(code[start:at].rstrip()) if sign == "(" else ""
            depth -= 1
    return ""


def _described(word: str, value: Any, detail: int) -> list[str]:
    module = shadow.load("inspect")
    kind = type(value)
    lines = []
    if callable(value):
        signature = _try(lambda: exact(str(module.signature(value))))
        if signature:
            lines.append(f"Signature: {word.rpartition('.')[2]}{signature}")
    lines.append(f"Type:      {type_name(value)}")
    if id(kind) in _SCALARS:
        lines.append(f"String form: {cut(repr(value), 500)}")
    elif id(kind) in _CONTAINERS:
        lines.append(f"Length:    {len(value)}")
    file = _try(lambda: exact(module.getfile(module.unwrap(value))))
    if file:
        lines.append(f"File:      {file}")
    if detail:
        source = _try(lambda: exact(module.getsource(module.unwrap(value))))
        if source:
            return [*lines, "Source:", source.rstrip("\n")]
    doc = _try(lambda: exact(module.getdoc(value)))
    if doc and "\n" in doc:
        return [*lines, "Docstring:", doc]
    return [*lines, f"Docstring: {doc or '<no docstring>'}"]


def _try(function: Any) -> str | None:
    """What an object says of itself, if it can."""
    try:
        return function()
    except Exception:  # noqa: BLE001 - it may raise anything
        return None
