"""A kernel: the forked process that runs the cells of one session, on its one thread."""

from __future__ import annotations

import _signal as signal
import atexit
import faulthandler
import gc
import resource
import sys
import time

from . import (
    carry,
    children,
    failures,
    frames,
    hooks,
    platform_calls,
    reports,
    reserve,
    shadow,
    signals,
    streams,
)
from .cell import Runner
from .descriptors import Guard, close_all_but, move_high
from .interrupt import Interrupts
from .link import Link, LinkLost
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import ModuleType
    from typing import Any

NO_INPUT = (
    "{name}() cannot be answered: nobody is at the keyboard of this cell. "
    "Put the value into the code, or read it from a file or an environment variable"
)


def live(
    request: dict[str, Any], fds: list[int], parent: int, tools: ModuleType
) -> Iterator[object]:
    """The life of a forked child: becomes the kernel that was asked for, and runs it (ground.py).

    It returns only after an orderly end; then Python ends.
    """
    code = 70
    try:
        kernel = _set_up(request, fds, parent, tools)
        code = yield from kernel.serve()
    except BaseException:  # noqa: BLE001 - nothing may unwind into the forkserver
        failures.print_error("".join(failures.lines_of(sys.exc_info()[1])))
        streams.flush()
    if code != 0:
        os._exit(code)


def detach(request: dict[str, Any], keep: dict[int, int], fds: list[int], parent: int) -> list[int]:
    """What every forked process does first: session, descriptors, signals, environment.

    ``keep`` maps 0, 1 and 2 to what they become; the other descriptors that are kept are moved up
    and returned.
    """
    os.setsid()
    platform_calls.die_with_parent()
    if os.getppid() != parent:
        os._exit(70)
    platform_calls.adopt_orphans()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    moved = [move_high(fd) for fd in fds]
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(keep.get(target, null), target)
    close_all_but({0, 1, 2, *moved})
    zone = os.environ.get("TZ")
    _enter_environment(request["env"])
    if os.environ.get("TZ") != zone:
        time.tzset()
    os.umask(request["umask"])
    for name, limits in request["rlimits"].items():
        try:
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), tuple(limits))
        except (OSError, ValueError):
            pass
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        os.write(2, f"cannot enter the working directory: {error}\n".encode())
        os._exit(71)
    return moved


def _enter_environment(wanted: dict[str, str]) -> None:
    """Only what differs: each change costs microseconds, more so in fresh copies of pages."""
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _set_up(request: dict[str, Any], fds: list[int], parent: int, tools: ModuleType) -> Kernel:
    link_fd, stdout, stderr, page = fds
    link_fd, page = detach(request, {1: stdout, 2: stderr}, [link_fd, page], parent)
    # The forkserver hides its memory; what a cell starts must be able to look at itself.
    platform_calls.hide_memory(False)
    platform_calls.name_process(b"warmcell-kernel")
    platform_calls.line_buffer_c_stdout()
    link = Link(link_fd)
    interrupts = Interrupts(page, link)
    guard = Guard()
    main = _fresh_main(tools)
    faulthandler.enable(file=guard.stderr_fd())
    runner = Runner(main, link, interrupts, guard, tools)
    kernel = Kernel(link, runner)
    shadow.begin(main.__dict__)
    tools._load = shadow.load  # type: ignore[attr-defined]
    tools._address = tools._from_environment()  # type: ignore[attr-defined]
    os.environ[children.CELL] = "0"
    sys.argv = request["argv"]
    sys.path.insert(0, "")
    _no_input()
    carry.install(tools)
    frames.install()
    reports.install()
    hooks.when_imported("linecache", lambda module: module.cache.update(failures.sources))

    def in_child() -> None:
        link.close()
        interrupts.forget()
        streams.start_anew()
        signals.inside = True
        children.started.clear()

    def tell(error: BaseException) -> None:
        failures.print_error("Exception in a signal handler, between cells:\n")
        failures.print_error("".join(failures.lines_of(error)))

    children.install(in_child, tools.current_cell.get)
    signals.install(tell)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.begin(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return kernel


def _fresh_main(tools: ModuleType) -> ModuleType:
    main = type(sys)("__main__")
    vars(main).update(__builtins__=MODULES["builtins"], __annotations__={})
    for name in tools.__all__:
        setattr(main, name, getattr(tools, name))
    MODULES["__main__"] = main
    return main


def _no_input() -> None:
    import builtins

    def input(prompt: object = "", /) -> str:
        del prompt
        raise EOFError(NO_INPUT.format(name="input"))

    def getpass_loaded(module: Any) -> None:
        def getpass(prompt: str = "", stream: Any = None, **more: Any) -> str:
            del prompt, stream, more
            raise EOFError(NO_INPUT.format(name="getpass"))

        module.getpass = getpass

    builtins.input = input
    hooks.when_imported("getpass", getpass_loaded)


class Kernel:
    """Reads requests and answers them, one at a time."""

    def __init__(self, link: Link, runner: Runner) -> None:
        self._link = link
        self._runner = runner

    def serve(self) -> Generator[object, None, int]:
        """Runs until the manager ends it; the exit code."""
        while True:
            try:
                channel, header, data = self._receive()
                # The manager writes headers without spaces, and its ids are no words.
                if channel == "shell" and b'"msg_type":"execute_request"' in header:
                    yield from self._runner.run(header, data)
                elif channel == "control" and b'"msg_type":"shutdown_request"' in header:
                    return self._shut_down(header)
            except LinkLost:
                return 72
            except KeyboardInterrupt:
                # A signal in the instant after a cell has ended: there is nothing to interrupt.
                continue

    def _receive(self) -> tuple[str, bytes, bytes]:
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
        shadow.forget()
        gc.unfreeze()
        for name in list(MODULES):
            if name.startswith("_warmcell"):
                del MODULES[name]
        return 0
