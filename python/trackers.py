"""The resource trackers of multiprocessing, which put away what a kernel has left in /dev/shm.

Such a process ends when all who could use what it tracks have ended, and needs a few milliseconds
then. It falls to the forkserver as any orphan does, and would be killed before.
"""

from __future__ import annotations

from time import monotonic

from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

# Milliseconds on a calm machine; on a busy one it has to wait for its turn more than once.
_SECONDS = 1.0
_COMMAND = b"from multiprocessing.resource_tracker import main;main("
_COMMAND_BYTES = 65_536


class Trackers:
    """Those that are given time, and until when.

    Anybody can look like one. So each kernel that ends is good for one of them, for a moment.
    """

    def __init__(self) -> None:
        self._deadlines: dict[int, float] = {}
        self._owed: list[float] = []

    def kernel_has_ended(self) -> None:
        """One of them may have its time now."""
        now = monotonic()
        self._owed = [it for it in self._owed if it > now]
        self._owed.append(now + _SECONDS)

    def is_new(self, pid: int) -> bool:
        """Whether it is one of them, and not known yet."""
        return pid not in self._deadlines and _is_tracker(pid)

    def admit(self, pid: int) -> None:
        """It is given time, if there is a kernel whose tracker it can be."""
        self._deadlines[pid] = self._owed.pop() if self._owed else 0

    def has_time(self, pid: int) -> bool:
        """Whether it may end by itself."""
        deadline = self._deadlines.get(pid)
        if deadline is None:
            return False
        try:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            ended = True
        if ended or monotonic() >= deadline:
            self._deadlines[pid] = 0
            return False
        return True

    def forget(self, pid: int) -> None:
        """It is gone."""
        self._deadlines.pop(pid, None)

    def next_deadline(self) -> float | None:
        """When the next one will have had its time."""
        return min((it for it in self._deadlines.values() if it), default=None)


def _is_tracker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"\0" + _COMMAND in file.read(_COMMAND_BYTES)
    except OSError:
        return False
