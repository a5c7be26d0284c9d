"""A kernel that was forked before anybody asked for it.

It has left the forkserver and made itself ready, up to what an order says: descriptors, directory,
environment. Most of what a fresh kernel costs is behind it then, the copying of memory pages above
all: a forked process copies each page that it touches first, and Python touches every object.
"""

from __future__ import annotations

import _signal as signal
from _socket import AF_UNIX, SOCK_SEQPACKET, socketpair

from . import orders, platform_calls
from .link import dumps, loads
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any


class Spare:
    """The way to it: made before the fork, kept by the forkserver."""

    def __init__(self) -> None:
        self.pid = 0
        self._ours, self._theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)

    def fileno(self) -> int:
        """The descriptor that is the child's."""
        return self._theirs.fileno()

    def forked(self, pid: int) -> None:
        """In the forkserver: the other end is the child's alone."""
        self.pid = pid
        self._theirs.close()

    def give(self, data: bytes, fds: list[int]) -> bool:
        """Hands an order on; false if it is gone."""
        given = orders.hand_on(self._ours, data, fds)
        self._ours.close()
        return given

    def close(self) -> None:
        """It is not needed: it ends when it sees this."""
        self._ours.close()

    def end(self) -> socket:
        """In the child: its end of the way. The other one is closed by its number."""
        self._ours.detach()
        return self._theirs


def wait(control: socket) -> tuple[dict[str, Any], list[int]]:
    """In the child: waits for the order. Without one it ends."""
    platform_calls.name_process(b"warmcell-spare")
    _warm_up()
    # Whoever ends it in good order need not be a kill.
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})
    data, fds = orders.receive(control)
    if not data:
        os._exit(0)
    control.close()
    return orders.read(loads(data), fds), fds


def _warm_up() -> None:
    """Does once what every first cell does, so that its pages are there."""
    namespace: dict[str, Any] = {}
    for code in ("x = 1", "import sys\nsys"):
        exec(compile(code, "<warm>", "exec"), namespace)
    repr(loads(dumps({"status": "ok", "names": [["x", "int"]]})))
