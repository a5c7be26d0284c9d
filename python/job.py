"""A job: the supervisor of one shell command.

Everything the command starts, daemons included, stays below this process. It tells when the
command itself has ended, lives on while leftovers live, and whoever ends it ends them all: they
then fall to the forkserver, which kills what it does not know.
"""

from __future__ import annotations

import _signal as signal
import os

from . import platform_calls
from .detaching import enter, leave
from .link import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def become(order: dict[str, Any], fds: list[int], inherited: list[int], parent: int) -> NoReturn:
    """Turns the freshly forked child into a job's supervisor; never returns."""
    try:
        output, status = fds
        leave(parent, inherited)
        (status,) = enter(order, {1: output, 2: output}, [status])
        platform_calls.name_process(b"warmcell-job")
        _supervise(order["argv"], status)
    finally:
        os._exit(70)


def _supervise(argv: list[str], status: int) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        # A group of its own: a command that signals its group must not end its supervisor.
        pid = os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            setpgroup=0,
            setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ),
        )
    except OSError as error:
        os.write(status, dumps({"errno": error.errno}))
        os._exit(0)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED)
        except ChildProcessError:
            os._exit(0)
        if ended is not None and ended.si_pid == pid:
            kind = "code" if ended.si_code == os.CLD_EXITED else "signal"
            os.write(status, dumps({kind: ended.si_status}))
            os.close(status)
            pid = 0
