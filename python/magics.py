"""What to do instead of what only IPython understands; imported when a cell has failed so."""

from __future__ import annotations

from .own import BUILTINS as __builtins__  # noqa: F401

_COMMANDS = 'terminal("...") or subprocess runs commands'
_INSTEAD = {
    "cd": "os.chdir(...) goes to a directory",
    "matplotlib": "leave this line out, plt.show() shows the figures",
    **dict.fromkeys(("time", "timeit"), "timeit.timeit(lambda: ..., number=1) measures"),
    **dict.fromkeys(("bash", "conda", "ls", "pip", "sh", "sx", "system", "uv"), _COMMANDS),
}
_OTHERWISE = f"there are no magics here; {_COMMANDS}, help(...) shows help"
_HELP = "help(...) shows help"
_INSTALLS = (["pip", "install"], ["conda", "install"])


def advice(wrong: str, code: str) -> list[str]:
    """A sentence on the line that is wrong, or on the first, which may change the whole cell."""
    for line in (wrong.strip(), code.strip().partition("\n")[0].strip()):
        found = _advice(line)
        if found:
            return [f"[this is IPython, not Python: {found}; ipykernel takes it as it is]"]
    return []


def _advice(line: str) -> str | None:
    _name, equals, value = line.partition("=")
    # ``files = !ls`` too.
    word = (value if equals and value.lstrip()[:1] in ("!", "%") else line).strip()
    if (len(word) > 1 and word[0] == "!") or word.split()[:2] in _INSTALLS:
        return _COMMANDS
    name = word.split()[0] if word else ""
    magic = name.lstrip("%")
    if magic.isidentifier() and 0 < len(name) - len(magic) < 3:
        return _INSTEAD.get(magic, _OTHERWISE)
    if len(line) > 1 and (line[0] == "?" or line[-1] == "?"):
        return _HELP
    return None
