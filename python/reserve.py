"""Address space set aside: under a memory limit, what the kernel's own work is done with.

A cell that has filled all that its limit allows must still get its result, and the next cell, which
may free something, must come to run. Nothing is ever written here, so it takes no memory.
"""

from __future__ import annotations

import mmap

from .own import BUILTINS as __builtins__  # noqa: F401

_BYTES = 4 << 20
_reserve: mmap.mmap | None = None


def keep() -> None:
    """Sets it aside, if it is not yet and if that can be had."""
    global _reserve
    if _reserve is None:
        try:
            _reserve = mmap.mmap(-1, _BYTES)
        except (OSError, MemoryError):
            pass


def release() -> bool:
    """Gives it back; false if there is none."""
    global _reserve
    if _reserve is None:
        return False
    _reserve.close()
    _reserve = None
    return True
