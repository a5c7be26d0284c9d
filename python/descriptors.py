"""Keeps descriptors 0 to 2 what they are, whatever a cell does with them."""

from __future__ import annotations

import fcntl
import resource

from . import mending
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

fstat = os.fstat
LOWEST = 64
HIGHEST = 1_024


def high(fd: int) -> int:
    """Moves a descriptor up, out of the way of code that closes or overwrites low numbers."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Not higher: each fork copies the table up to the highest number, and to list the open ones
    # the system looks at all below it.
    if soft == resource.RLIM_INFINITY or soft > HIGHEST:
        soft = HIGHEST
    lowest = max(LOWEST, soft - 32)
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
    except OSError:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    return moved


def move_high(fd: int) -> int:
    """Like high(), and the old number is free."""
    moved = high(fd)
    os.close(fd)
    return moved


def _identity(fd: int) -> tuple[int, ...]:
    return fstat(fd)[1:3]


class Guard:
    """Duplicates of stdin, stdout and stderr, and the check whether 0 to 2 are still the same."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, tuple[int, ...]]] = []

    def keep(self) -> None:
        """From now on they are what they are to be."""
        self._kept = [(fd, high(fd), _identity(fd)) for fd in (0, 1, 2)]

    def stderr_fd(self) -> int:
        """A stderr that no cell closes, for the report of a crash."""
        return self._kept[2][1]

    def make_blocking(self) -> None:
        """A child can have made the pipes non-blocking for everyone."""
        for fd in (1, 2):
            try:
                if not os.get_blocking(fd):
                    os.set_blocking(fd, True)
            except OSError:
                pass

    def restore(self) -> list[str]:
        """Puts 0 to 2 right; a sentence for each that was not."""
        warnings = []
        for fd, kept, identity in self._kept:
            try:
                # Inode and device; by number, which is quicker, and this is once a cell.
                if fstat(fd)[1:3] == identity:
                    continue
            except OSError:
                pass
            name = ("stdin", "stdout", "stderr")[fd]
            try:
                os.dup2(kept, fd)
            except OSError:
                warnings.append(f"the cell closed or moved descriptor {fd} ({name}) for good")
                continue
            warnings.append(f"the cell closed or moved descriptor {fd} ({name}); it was put right")
        return warnings + mending.mend()
