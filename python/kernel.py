"""A kernel: the forked process that runs the cells of one session, on its one thread."""

from __future__ import annotations

import _signal as signal
import atexit
import faulthandler
import gc
import sys

from . import (
    alarm,
    asking,
    carry,
    children,
    comms,
    failures,
    frames,
    hooks,
    monitoring,
    platform_calls,
    reports,
    reserve,
    shadow,
    shown,
    signals,
    streams,
)
from .cell import Runner
from .descriptors import Guard
from .detaching import enter, leave
from .interrupt import Interrupts
from .link import Link, LinkLost
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import ModuleType
    from typing import Any

    from .link import Parts


def live(
    ordered: Callable[[], tuple[dict[str, Any], list[int]]],
    inherited: list[int],
    parent: int,
    kernel: Kernel,
) -> Iterator[object]:
    """The life of a forked child: becomes the kernel that is ordered, and runs it (ground.py).

    It returns only after an orderly end; then Python ends.
    """
    code = 70
    try:
        leave(parent, inherited)
        kernel.begin()
        kernel.enter(*ordered())
        code = yield from kernel.serve()
    except BaseException:  # noqa: BLE001 - nothing may unwind into the forkserver
        failures.print_error("".join(failures.lines_of(sys.exc_info()[1])))
        streams.flush()
    if code != 0:
        os._exit(code)


def made(tools: ModuleType) -> Kernel:
    """In the forkserver: what is the same in all kernels, so that no fork pays for it."""
    platform_calls.line_buffer_c_stdout()
    kernel = Kernel(_fresh_main(tools), tools)
    tools._load = shadow.load  # type: ignore[attr-defined]
    asking.install()
    comms.install()
    shown.install()
    carry.install(tools)
    frames.install()
    reports.install()
    monitoring.install()
    hooks.when_imported("linecache", lambda module: module.cache.update(failures.sources))
    signals.install(_tell)
    return kernel


def _tell(error: BaseException) -> None:
    failures.print_error("Exception in a signal handler, between cells:\n")
    failures.print_error("".join(failures.lines_of(error)))


def _fresh_main(tools: ModuleType) -> ModuleType:
    main = type(sys)("__main__")
    vars(main).update(__builtins__=MODULES["builtins"], __annotations__={})
    for name in tools.__all__:
        setattr(main, name, getattr(tools, name))
    for function in shown.INJECTED:
        setattr(main, function.__name__, function)
    return main


class Kernel:
    """Reads requests and answers them, one at a time."""

    def __init__(self, main: ModuleType, tools: ModuleType) -> None:
        self._main = main
        self._tools = tools
        self._link = Link()
        self._interrupts = Interrupts(self._link)
        asking.was_interrupted = self._interrupts.was_heeded
        self._guard = Guard()
        self._runner = Runner(main, self._link, self._interrupts, self._guard, tools)

    def begin(self) -> None:
        """In the forked child: what needs no order."""
        # The forkserver hides its memory; what a cell starts must be able to look at itself.
        platform_calls.hide_memory(False)
        MODULES["__main__"] = self._main
        shadow.begin(self._main.__dict__)
        children.install(self._in_child(), self._tools.current_cell.get)
        self._runner.begin()
        # The runner alone holds it from now on: at the end nothing must that stays.
        del self._main

    def enter(self, order: dict[str, Any], fds: list[int]) -> None:
        """Becomes what was ordered; from now on interrupts are heeded."""
        link, stdout, stderr, page = fds
        link, page = enter(order, {1: stdout, 2: stderr}, [link, page])
        platform_calls.name_process(b"warmcell-kernel")
        self._link.open(link)
        self._interrupts.watch(page)
        self._guard.keep()
        faulthandler.enable(file=self._guard.stderr_fd())
        self._tools._address = self._tools._from_environment()  # type: ignore[attr-defined]
        os.environ[children.CELL] = "0"
        shadow.look_before()
        sys.argv = order["argv"]
        sys.path.insert(0, "")
        self._interrupts.begin(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _in_child(self) -> Callable[[], None]:
        """What a process does first that a cell has forked.

        Python keeps it to its very end, so it must not hold what the cells have left.
        """
        link, interrupts = self._link, self._interrupts

        def begin() -> None:
            link.close()
            interrupts.forget()
            shown.forget()
            streams.start_anew()
            signals.inside = True
            children.started.clear()

        return begin

    def serve(self) -> Generator[object, None, int]:
        """Runs until the manager ends it; the exit code."""
        while True:
            try:
                parts = self._receive()
                channel, header, data, _more = parts
                # The manager writes headers without spaces, and its ids are no words.
                if channel == "shell" and b'"msg_type":"execute_request"' in header:
                    yield from self._runner.run(header, data)
                elif channel == "control" and b'"msg_type":"shutdown_request"' in header:
                    return self._shut_down(header)
                elif channel == "control" and b'"msg_type":"warmcell_variables_request"' in header:
                    self._runner.tell_variables(header)
                elif channel == "shell":
                    yield from self._runner.answer(parts)
            except LinkLost:
                return 72
            except KeyboardInterrupt:
                # A signal in the instant after a cell has ended: there is nothing to interrupt.
                continue

    def _receive(self) -> Parts:
        reserve.keep()
        try:
            return self._link.receive()
        except MemoryError:
            # An earlier cell has filled all that its limit allows.
            reserve.release()
            return self._link.receive()

    def _shut_down(self, header: bytes) -> int:
        """An orderly end: threads, atexit functions, temporary folders, output.

        Then Python's own end: nothing of ours may hold what the cells have left, or be taken apart
        while that is told to write itself out.
        """
        threading = MODULES.get("threading")
        for end in (
            self._runner.close_loop,
            getattr(threading, "_shutdown", None),
            atexit._run_exitfuncs,
        ):
            try:
                if end is not None:
                    end()
            except BaseException as error:  # noqa: BLE001 - a function of the cell's may raise
                # Python itself tells what an atexit function has raised.
                if end is not atexit._run_exitfuncs:
                    failures.print_error("".join(failures.lines_of(error)))
        streams.flush()
        platform_calls.flush_c_stdout()
        self._link.send("control", "shutdown_reply", header, {"status": "ok", "restart": False})
        alarm.end()
        shadow.forget()
        gc.unfreeze()
        for name in list(MODULES):
            if name.startswith("_warmcell"):
                del MODULES[name]
        return 0
