"""Runs cells: compiles, executes, shows the last value, and says how it ended."""

from __future__ import annotations

import builtins
import sys

from . import (
    children,
    detaching,
    failures,
    hooks,
    names,
    platform_calls,
    reserve,
    shadow,
    shown,
    streams,
    variables,
)
from .awaiting import Loop, settle
from .compiling import COROUTINE, VALUE, Compiler
from .ground import call
from .link import LinkLost, cut, exact, loads, without_surrogates
from .own import BUILTINS as __builtins__
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import CodeType, ModuleType
    from typing import Any

    from .descriptors import Guard
    from .interrupt import Interrupts
    from .link import Link, Parts


# What history keeps of what cells have shown: so many of the latest, so much of each.
_OUTPUTS = 200
_OUTPUT_CHARS = 1_000
# Values whose repr() and end run no code of a cell's.
_PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))
# By whose names alone people leave a front end.
_QUITTERS = frozenset(id(__builtins__[it]) for it in ("exit", "quit") if it in __builtins__)


class Runner:
    """The cells of one kernel."""

    def __init__(
        self, main: ModuleType, link: Link, interrupts: Interrupts, guard: Guard, tools: Any
    ) -> None:
        self._main = main
        self.namespace = main.__dict__
        self.link = link
        self.interrupts = interrupts
        self._guard = guard
        self._tools = tools
        self.pid = 0
        # Cells that history keeps; others since the last of these.
        self._count = self._unstored = 0
        # What the latest of them have shown, for history.
        self.outputs: dict[int, str] = {}
        # What the value of the last expression asks of the front end.
        self._said: dict[str, Any] = {}
        self._compiler = Compiler()
        failures.sources = self._compiler.sources
        self._names = names.Names(self.namespace)
        self._loop: Loop | None = None
        self._finders = hooks.FreshFinders()
        sys.meta_path.insert(0, self._finders)  # type: ignore[arg-type]

    def begin(self) -> None:
        """In the process that is the kernel."""
        self.pid = os.getpid()
        shown.begin(self.link, self._tools.current_cell.get)

    def run(self, parent: bytes, data: bytes) -> Generator[object, None, None]:
        """One execute_request: runs it and sends result messages and the reply."""
        try:
            reply = yield from self._run(parent, loads(data))
        except LinkLost:
            raise
        except BaseException as error:  # noqa: BLE001 - see below
            # What a cell leaves behind can fail in our own code: memory that is gone, a recursion
            # limit of ten, a trace function that raises. Without a reply the cell would never end.
            interrupted = self.interrupts.named()
            self.interrupts.end()
            if os.getpid() != self.pid:
                self.leave(error)
            if isinstance(error, MemoryError):
                reserve.release()
            reply = self._bare_reply(error)
            if interrupted:
                reply["warmcell"]["interrupted"] = True
        try:
            self.link.send("shell", "execute_reply", parent, reply)
        except MemoryError as error:
            reserve.release()
            self.link.send("shell", "execute_reply", parent, self._bare_reply(error))
        shown.request = None
        # Nobody waits for this.
        _quietly(children.reap_adopted)
        _quietly(self._guard.make_blocking)

    def answer(self, parts: Parts) -> Generator[object, None, None]:
        """One question of a front end; it is no cell either."""
        from . import questions

        return questions.answer(self, parts)

    def history(self) -> list[tuple[int, str]]:
        """The cells whose sources are there still, by number."""
        found = []
        for filename, (_size, _time, lines, _name) in list(self._compiler.sources.items()):
            number = filename[len("<cell ") : -1]
            if number.isdigit():
                found.append((int(number), "".join(lines)[:-1]))
        return found

    def tell_variables(self, parent: bytes) -> None:
        """One request for the variables; it is no cell, and leaves no trace."""
        found = _quietly(variables.content, self._names) or {}
        try:
            self.link.send("control", "warmcell_variables_reply", parent, found)
        except MemoryError:
            reserve.release()
            self.link.send("control", "warmcell_variables_reply", parent, {})

    def _run(
        self, parent: bytes, content: dict[str, Any]
    ) -> Generator[object, None, dict[str, Any]]:
        code = content.get("code", "")
        asked = content.get("warmcell") or {}
        cell = asked.get("cell", 0)
        if "cwd" in asked:
            refusal = self._enter(asked["cwd"], cell)
            if refusal is not None:
                return refusal
        silent = content.get("silent") is True
        filename = self._number(stored=not silent and content.get("store_history") is not False)
        shown.request = shown.Request(
            parent,
            cell,
            origin=asked.get("origin"),
            silent=silent,
            allows_input=content.get("allow_stdin") is True,
        )
        self.prepare(cell, code)
        self.interrupts.begin(cell)
        body = last = None
        syntax = False
        try:
            body, last = self._compiler.compile(code, filename)
        except BaseException as error:  # noqa: BLE001 - the compiler raises many kinds
            failure: BaseException | None = error
            syntax = True
        else:
            failure = yield from self._execute(body, last, shown.request)
        wanted = content.get("user_expressions")
        found = None
        if wanted and failure is None:
            found = yield from self._evaluate(wanted)
        # Asked for while code of the cell ran; what became of it is another matter.
        interrupted = self.interrupts.named()
        self.interrupts.end()
        if os.getpid() != self.pid:
            self.leave(failure)
        reply: dict[str, Any] = {"status": "ok", "execution_count": self._count}
        if found is not None:
            reply["user_expressions"] = found
        own: dict[str, Any] = {"cell": cell, **self._said}
        if interrupted:
            own["interrupted"] = True
        if failure is not None:
            if issubclass(type(failure), MemoryError):
                reserve.release()
            raised = interrupted and issubclass(type(failure), KeyboardInterrupt)
            failures.describe(failure, syntax, raised, reply, own)
            # What goes with it goes on the ground too: that may run code, or warn of what it was.
            last_holder = [failure]
            failure = None
            yield last_holder.pop()
        streams.flush()
        platform_calls.flush_c_stdout()
        own["warnings"] = _quietly(self._guard.restore) or []
        if detaching.not_given:
            own["limits"] = detaching.not_given
        codes = [code for code in (body, last) if code is not None]
        own["names"] = _quietly(self._names.changes, codes) or self._names.unchanged()
        reply["warmcell"] = own
        return reply

    def _number(self, *, stored: bool) -> str:
        """The next cell's name; one that history does not keep has no number of its own."""
        if stored:
            self._count += 1
            self._unstored = 0
            return f"<cell {self._count}>"
        self._unstored += 1
        return f"<cell {self._count}.{self._unstored}>"

    def _enter(self, directory: str | list[int], cell: int) -> dict[str, Any] | None:
        """The caller has gone to another directory, and so does the kernel.

        The reply in place of the cell's if it cannot: the cell does not run where it was not meant.
        """
        try:
            path = bytes(directory) if isinstance(directory, list) else directory
            os.chdir(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return {
                "status": "error",
                "execution_count": self._count,
                "ename": names.type_name(error),
                "evalue": reason,
                "traceback": [],
                "warmcell": {
                    "cell": cell,
                    "warnings": [],
                    "names": self._names.unchanged(),
                    "error": {"class": "usage", "line": reason, "place": None},
                },
            }
        # As at the start. sys.path names the directory that is in force, whichever that is.
        _quietly(os.environ.__setitem__, "PWD", os.fsdecode(path))
        shadow.moved()
        return None

    def _bare_reply(self, error: BaseException) -> dict[str, Any]:
        kind = names.type_name(error)
        _quietly(streams.flush)
        return {
            "status": "error",
            "execution_count": self._count,
            "ename": kind,
            "evalue": "",
            "traceback": [kind],
            "warmcell": {
                "warnings": _quietly(self._guard.restore) or [],
                "names": self._names.unchanged(),
                "error": {
                    "class": "limit" if kind == "MemoryError" else "exception",
                    "line": kind,
                    "place": None,
                },
            },
        }

    def prepare(self, cell: int, code: str) -> None:
        self._tools.current_cell.set(cell)
        _quietly(children.tell_cell, cell)
        self._said = {}
        request = shown.request
        is_watched = request is not None and request.is_watched()
        streams.begin_cell(shown.wait_until_read if is_watched else None)
        self._finders.stale = True
        asyncio_events = MODULES.get("asyncio.events")
        if getattr(asyncio_events, "_event_loop_policy", None) is not None:
            self._loop = _quietly(settle, self._loop, self.interrupts) or self._loop
        _quietly(shadow.look, code)
        if "__main__" not in MODULES:
            MODULES["__main__"] = self._main
            MODULES["hermes_tools"] = self._tools

    def _execute(
        self, body: CodeType | None, last: CodeType | None, request: shown.Request
    ) -> Generator[object, None, BaseException | None]:
        failure = yield from self._execute_code(body, last, request)
        if not request.is_watched() or "matplotlib.pyplot" not in MODULES:
            return failure
        if failure is not None:
            _quietly(self._tell_first, failure)
        drawn = yield from self._show_figures()
        return drawn if failure is None else failure

    def _tell_first(self, failure: BaseException) -> None:
        """What the cell has drawn comes after its error, as in a notebook."""
        from . import packages

        if not packages.will_show() or issubclass(type(failure), SystemExit):
            return
        from . import display

        raised = self.interrupts.named() and issubclass(type(failure), KeyboardInterrupt)
        told: dict[str, Any] = {}
        failures.describe(failure, False, raised, told, {})
        del told["status"]
        display.publish_error(told)

    def _execute_code(
        self, body: CodeType | None, last: CodeType | None, request: shown.Request
    ) -> Generator[object, None, BaseException | None]:
        interrupts = self.interrupts
        try:
            try:
                for code in (body, last):
                    if code is None:
                        continue
                    interrupts.arm(code)
                    # For code compiled in exec mode the value is None.
                    value, failure = yield from call(eval, code, self.namespace)
                    if failure is None and code.co_flags & COROUTINE:
                        if self._loop is None:
                            try:
                                self._loop = Loop(interrupts)
                            except BaseException:
                                # Interrupted: Python would complain that it was never awaited.
                                value.close()
                                raise
                        value, failure = yield from self._loop.run(value)
                    if failure is not None:
                        return failure
                if self._compiler.keeps_value:
                    value = self.namespace.pop(VALUE, None)
                elif last is None:
                    value = None
                if value is not None and not request.silent:
                    return (yield from self._display(value, request.header))
            finally:
                interrupts.disarm()
        except BaseException as error:  # noqa: BLE001 - an interrupt may come at any moment
            interrupts.disarm()
            return error
        return None

    def _show_figures(self) -> Generator[object, None, BaseException | None]:
        """A notebook shows at the end of a cell what it has drawn."""
        from . import packages

        try:
            self.interrupts.arm(packages.end_cell.__code__)
            _nothing, failure = yield from call(packages.end_cell)
            return failure
        except BaseException as error:  # noqa: BLE001 - an interrupt may come at any moment
            return error
        finally:
            self.interrupts.disarm()

    def _display(
        self, value: object, parent: bytes
    ) -> Generator[object, None, BaseException | None]:
        text: Any
        bundle = failure = None
        if type(value) in _PLAIN:
            text = repr(value)
        elif shown.is_rich(value):
            from . import display

            bundle, failure = yield from display.on_ground(value)
            text = None
        else:
            request = shown.request
            if id(value) in _QUITTERS:
                self._said = {"asks_exit": True}
                if request is not None and request.origin is not None:
                    # Who leaves need not be told how.
                    return None
            text, failure = yield from call(repr, value)
        if failure is not None:
            return failure
        self.interrupts.disarm()
        if type(builtins.__dict__.get("_")) in _PLAIN:
            builtins.__dict__["_"] = value
        else:
            # As what `_` was goes, code of the cell's may run.
            yield from call(builtins.__dict__.__setitem__, "_", value)
        if bundle is not None:
            self._show_rich(bundle, parent)
        elif text is not None:
            self._show(text, parent)
        return None

    def _show(self, text: str, parent: bytes) -> None:
        text = without_surrogates(cut(exact(text)))
        if os.getpid() != self.pid:
            return
        self._remember(text)
        # What was printed before is shown before.
        nothing_waits = streams.flush()
        platform_calls.flush_c_stdout()
        content = {"execution_count": self._count, "data": {"text/plain": text}, "metadata": {}}
        # Between here and the reply is nothing that takes time, unless a cell has put a stream of
        # its own in place: then the value is not to wait for that one's flush().
        tell = self.link.hold if nothing_waits else self.link.send
        tell("iopub", "execute_result", parent, content)

    def _show_rich(self, bundle: Any, parent: bytes) -> None:
        if os.getpid() != self.pid:
            return
        from .display import metadata_of

        self._remember(bundle.plain())
        streams.flush()
        platform_calls.flush_c_stdout()
        content = {
            "execution_count": self._count,
            "data": bundle.data,
            "metadata": bundle.metadata,
        }
        more = metadata_of(bundle), bundle.buffers
        self.link.send("iopub", "execute_result", parent, content, more)

    def _remember(self, text: str) -> None:
        if self._unstored:
            return
        self.outputs[self._count] = text[:_OUTPUT_CHARS]
        if len(self.outputs) > _OUTPUTS:
            del self.outputs[next(iter(self.outputs))]

    def _evaluate(self, wanted: Any) -> Generator[object, None, dict[str, Any]]:
        """The expressions that a front end wants to know after a cell."""
        from . import expressions

        try:
            return (yield from expressions.evaluate(wanted, self.namespace, self.interrupts))
        except BaseException:  # noqa: BLE001 - an interrupt may come at any moment
            return {}
        finally:
            self.interrupts.disarm()

    def close_loop(self) -> None:
        """An orderly end: tasks that cells have left are cancelled, as asyncio.run() does."""
        if self._loop is not None:
            self._loop.close()

    def leave(self, failure: BaseException | None) -> None:
        """A child that the cell has forked and not ended: it leaves here, with its output."""
        code = 0
        if issubclass(type(failure), SystemExit):
            code, text, _number = failures.exit_of(failure)
            code = code and (code & 255 or 1)
            if text is not None:
                failures.print_error(text + "\n")
        elif failure is not None:
            code = 1
            failures.print_error("".join(failures.lines_of(failure)))
        streams.flush()
        platform_calls.flush_c_stdout()
        os._exit(code)


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Housekeeping that must not cost a cell its result."""
    try:
        return function(*arguments)
    except BaseException:  # noqa: BLE001 - a cell can break what it stands on in any way
        return None
