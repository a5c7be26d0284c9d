"""Another program in the place of a kernel: the bridge to one that is not ours."""

from __future__ import annotations

import _signal as signal
import os

from .detaching import enter, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def become(order: dict[str, Any], fds: list[int], inherited: list[int], parent: int) -> NoReturn:
    """Turns the freshly forked child into the program that is ordered; never returns.

    It has the link as its stdin. What a kernel is to its forkserver it is too: it ends with it, and
    adopts its own orphans; both outlast the change of the program.
    """
    try:
        link, stdout, stderr = fds
        leave(parent, inherited)
        enter(order, {0: link, 1: stdout, 2: stderr}, [])
        # An interrupt may come before the program can handle it; it comes again then.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        program = order["program"]
        if isinstance(program, list):
            program = bytes(program)
        os.execve(program, order["argv"], os.environ)
    except OSError as error:
        os.write(2, f"{order['program']} cannot be run: {error.strerror}\n".encode())
    finally:
        os._exit(70)
