"""Runs cells: compiles, executes, shows the last value, and says how it ended."""

from __future__ import annotations

import __future__
import builtins
import os
import sys
from _ast import Expr, Expression, ImportFrom

from . import children, names, streams
from .link import cut, without_surrogates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any

    from .descriptors import Guard
    from .interrupt import Interrupts
    from .link import Link

_ONLY_AST = 0x400
_TOP_LEVEL_AWAIT = 0x2000
_COROUTINE = 0x80
_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag
# Sources of cells kept for tracebacks; the oldest are forgotten beyond this.
_SOURCE_BYTES = 32 << 20


class Runner:
    """The cells of one kernel."""

    def __init__(
        self, main: ModuleType, link: Link, interrupts: Interrupts, guard: Guard, tools: Any
    ) -> None:
        self._globals = main.__dict__
        self._link = link
        self._interrupts = interrupts
        self._guard = guard
        self._tools = tools
        self._pid = os.getpid()
        self._count = 0
        self._future = 0
        self._names = names.Names(self._globals)
        self._sources: dict[str, tuple[int, None, list[str], str]] = {}
        self._source_bytes = 0
        self._loop: Any = None

    @property
    def sources(self) -> dict[str, tuple[int, None, list[str], str]]:
        """What linecache should know: the source of each cell under its name."""
        return self._sources

    def run(self, parent: bytes, content: dict[str, Any]) -> None:
        """One execute_request: runs it and sends result messages and the reply."""
        code = content.get("code", "")
        cell = (content.get("warmcell") or {}).get("cell", 0)
        self._count += 1
        filename = f"<cell {self._count}>"
        self._tools.current_cell.set(cell)
        os.environ["HERMES_RPC_CELL"] = str(cell)
        self._guard.make_blocking()
        _drop_finder_caches()
        self._interrupts.begin(cell)
        body = last = None
        syntax = False
        try:
            body, last = self._compile(code, filename)
        except BaseException as error:  # noqa: BLE001 - the compiler raises many kinds
            failure: BaseException | None = error
            syntax = isinstance(error, (SyntaxError, ValueError))
        else:
            failure = self._execute(body, last, parent)
        interrupted = isinstance(failure, KeyboardInterrupt) and self._interrupts.named()
        self._interrupts.end()
        if os.getpid() != self._pid:
            self._leave(failure)
        reply: dict[str, Any] = {"status": "ok", "execution_count": self._count}
        own: dict[str, Any] = {"cell": cell}
        if failure is not None:
            from . import failures

            failures.describe(failure, syntax, interrupted, reply, own)
            failure = None
        streams.flush()
        if "ctypes" in sys.modules or "_cffi_backend" in sys.modules:
            from .platform_calls import flush_c_streams

            flush_c_streams()
        warnings = self._guard.restore()
        children.reap_adopted()
        own["names"] = self._names.changes([code for code in (body, last) if code is not None])
        own["warnings"] = warnings
        reply["warmcell"] = own
        self._link.send("shell", "execute_reply", parent, reply)

    def _compile(self, code: str, filename: str) -> tuple[CodeType | None, CodeType | None]:
        """The statements, and apart from them the last one if it is an expression."""
        self._remember(filename, code)
        flags = self._future | _TOP_LEVEL_AWAIT
        tree: Any = compile(code, filename, "exec", flags | _ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], Expr):
            flags |= self._flags_of(tree)
            last = compile(Expression(tree.body.pop().value), filename, "eval", flags, True)
        body = compile(tree, filename, "exec", flags, True) if tree.body else None
        if body is not None:
            self._future |= body.co_flags & _FUTURE
        return body, last

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

    def _execute(
        self, body: CodeType | None, last: CodeType | None, parent: bytes
    ) -> BaseException | None:
        interrupts = self._interrupts
        try:
            try:
                if body is not None:
                    interrupts.arm(body)
                    self._evaluate(body)
                if last is not None:
                    interrupts.arm(last)
                    value = self._evaluate(last)
                    if value is not None:
                        self._show(value, parent)
            finally:
                interrupts.disarm()
        except BaseException as error:  # noqa: BLE001 - the cell may raise anything
            interrupts.disarm()
            return error
        return None

    def _evaluate(self, code: CodeType) -> Any:
        if not code.co_flags & _COROUTINE:
            # For code compiled in exec mode the value is None.
            return eval(code, self._globals)
        if self._loop is None:
            from .awaiting import Loop

            self._loop = Loop(self._interrupts)
        return self._loop.run(eval(code, self._globals))

    def _show(self, value: Any, parent: bytes) -> None:
        text = cut(without_surrogates(repr(value)))
        self._interrupts.disarm()
        builtins._ = value  # type: ignore[attr-defined]
        if os.getpid() != self._pid:
            return
        # What was printed before is shown before.
        streams.flush()
        content = {"execution_count": self._count, "data": {"text/plain": text}, "metadata": {}}
        self._link.send("iopub", "execute_result", parent, content)

    def _remember(self, filename: str, code: str) -> None:
        lines = code.splitlines(True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        entry = (len(code), None, lines, filename)
        self._sources[filename] = entry
        self._source_bytes += len(code)
        linecache = sys.modules.get("linecache")
        cache: Any = {} if linecache is None else linecache.cache
        cache[filename] = entry
        while self._source_bytes > _SOURCE_BYTES and len(self._sources) > 1:
            oldest = next(iter(self._sources))
            self._source_bytes -= self._sources.pop(oldest)[0]
            cache.pop(oldest, None)

    def _leave(self, failure: BaseException | None) -> None:
        """A child that the cell has forked and not ended: it leaves here, with its output."""
        code = 0
        if isinstance(failure, SystemExit):
            value = failure.code
            code = value & 255 if isinstance(value, int) else int(value is not None)
        elif failure is not None:
            code = 1
            from . import failures

            print("".join(failures.lines_of(failure)), end="", file=sys.stderr)
        streams.flush()
        os._exit(code)


def _drop_finder_caches() -> None:
    """A module made since the last cell can be imported; cheaper than invalidate_caches()."""
    for finder in list(sys.path_importer_cache.values()):
        forget = getattr(finder, "invalidate_caches", None)
        if forget is not None:
            forget()
