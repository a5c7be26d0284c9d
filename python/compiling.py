"""Compiles cells, and keeps their sources for tracebacks."""

from __future__ import annotations
import __future__

import sys
from _ast import Assign, Expr, Expression, ImportFrom, Name, Store

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

COROUTINE = 0x80
VALUE = "__value_of_the_cell__"
_ONLY_AST = 0x400
_TOP_LEVEL_AWAIT = 0x2000
_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag
# Sources of cells kept for tracebacks; the oldest are forgotten beyond this.
_SOURCE_BYTES = 32 << 20
# What one takes beside its text.
_ENTRY_BYTES = 500
# Before 3.11 a syntax tree that is too deep overflows the C stack when Python sees it, where plain
# compile() raises RecursionError. It takes this much source to be that deep.
_DEEP_BYTES = 32_768


class Compiler:
    """The cells of one kernel, as source and as code."""

    def __init__(self) -> None:
        self.sources: dict[str, tuple[int, None, list[str], str]] = {}
        self._bytes = 0
        self._future = 0
        self._latest = ""
        # Whether the statements leave the value of the last expression under the name VALUE.
        self.keeps_value = False

    def compile(self, code: str, filename: str) -> tuple[CodeType | None, CodeType | None]:
        """The statements, and apart from them the last one if it is an expression."""
        self.keeps_value = False
        if code.startswith("\ufeff"):
            code = code[1:]
        self._remember(filename, code)
        flags = self._future | _TOP_LEVEL_AWAIT
        if sys.version_info < (3, 11) and len(code) > _DEEP_BYTES:
            self._check_depth(code, filename, flags)
        if _is_one_statement(code):
            # Without the detour over a syntax tree, which costs as much again.
            name, sign, value = code.partition("=")
            if not sign or value[:1] == "=" or not name.strip().isidentifier():
                try:
                    return None, compile(code, filename, "eval", flags, True)
                except SyntaxError:
                    pass
            body = compile(code, filename, "exec", flags, True)
            self._future |= body.co_flags & _FUTURE
            return body, None
        tree: Any = compile(code, filename, "exec", flags | _ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], Expr) and not self._is_hushed(tree, filename):
            flags |= self._flags_of(tree)
            shown = tree.body.pop()
            last = compile(Expression(shown.value), filename, "eval", flags, True)
        body = compile(tree, filename, "exec", flags, True) if tree.body else None
        if body is not None and last is not None and (body.co_flags | last.co_flags) & COROUTINE:
            # All of it needs the running loop: a task is made before the await, or after it.
            tree.body.append(_kept(shown))
            body, last = compile(tree, filename, "exec", flags, True), None
            self.keeps_value = True
        if body is not None:
            self._future |= body.co_flags & _FUTURE
        return body, last

    def _is_hushed(self, tree: Any, filename: str) -> bool:
        """Whether a semicolon ends the cell: its value is not to be shown, as in notebooks."""
        lines, last = self.sources[filename][2], tree.body[-1]
        rest = lines[last.end_lineno - 1].encode()[last.end_col_offset :].decode()
        # What follows an expression are brackets, comments and line ends; no sign in a text.
        rest = "".join([line.partition("#")[0] for line in (rest, *lines[last.end_lineno :])])
        return rest.rstrip().endswith(";")

    @staticmethod
    def _check_depth(code: str, filename: str, flags: int) -> None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, filename, "exec", flags, True)

    @staticmethod
    def _flags_of(tree: Any) -> int:
        """The future features that the cell itself asks for."""
        flags = 0
        for node in tree.body:
            if isinstance(node, ImportFrom) and node.module == "__future__":
                for alias in node.names:
                    feature = getattr(__future__, alias.name, None)
                    flags |= getattr(feature, "compiler_flag", 0)
        return flags

    def _remember(self, filename: str, code: str) -> None:
        # The lines that the compiler counts: other signs that splitlines() breaks at are no ends.
        text = code.replace("\r\n", "\n").replace("\r", "\n") if "\r" in code else code
        lines = [line + "\n" for line in text.split("\n")]
        if lines[-1] == "\n":
            lines.pop()
        entry = (len(code), None, lines, filename)
        # A file of the user's may bear the name.
        cache: Any = getattr(MODULES.get("linecache"), "cache", None)
        if not isinstance(cache, dict):
            cache = {}
        elif self._latest and self._latest not in cache:
            # Emptied, or loaded anew.
            cache.update(self.sources)
        self._latest = filename
        self.sources[filename] = cache[filename] = entry
        self._bytes += len(code) + _ENTRY_BYTES
        while self._bytes > _SOURCE_BYTES and len(self.sources) > 1:
            oldest = next(iter(self.sources))
            self._bytes -= self.sources.pop(oldest)[0] + _ENTRY_BYTES
            cache.pop(oldest, None)


def _kept(shown: Any) -> Any:
    """The last expression as a statement that keeps its value."""
    place = {
        name: getattr(shown, name)
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
    }
    return Assign([Name(VALUE, Store(), **place)], shown.value, **place)


def _is_one_statement(code: str) -> bool:
    """Whether it is surely a single statement, and an expression only if eval() takes it.

    A statement may show what eval() does not take: a tuple with a star.
    """
    return (
        len(code) < 1_000
        and not code[:1].isspace()
        and "\n" not in code.rstrip("\n")
        and ";" not in code
        and "*" not in code
        and "\\" not in code
        and "\r" not in code
    )
