"""Top-level await: one event loop a kernel, driven only while a cell awaits."""

from __future__ import annotations

from . import shadow
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from .interrupt import Interrupts


class Loop:
    """Drives the coroutine of a cell; tasks that it leaves behind go on in the next await."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._asyncio = shadow.load("asyncio")
        self._interrupts = interrupts
        self._loop = self._new_loop()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs it to its end; KeyboardInterrupt if it ended because the cell was interrupted."""
        cancelled = self._asyncio.CancelledError
        if self._loop.is_closed():
            self._loop = self._new_loop()
        loop = self._loop
        task = loop.create_task(coroutine)
        self._interrupts.wait_for(loop, task)
        try:
            try:
                return self._drive(loop, task)
            except cancelled:
                if self._interrupts.named():
                    raise KeyboardInterrupt from None
                raise
            except BaseException:
                # Raised in a callback or in another task: this one must not go on inside a later
                # cell.
                if not task.done():
                    task.cancel()
                    try:
                        loop.run_until_complete(task)
                    except (cancelled, Exception):  # noqa: BLE001
                        pass
                raise
        finally:
            self._interrupts.wait_over()
            if task.done() and not task.cancelled():
                # The loop would complain of an exception that nobody has looked at.
                task.exception()

    def _new_loop(self) -> Any:
        try:
            return self._asyncio.new_event_loop()
        except Exception:  # noqa: BLE001 - the cell's policy fails, or its asyncio.py is in the way
            return self._asyncio.SelectorEventLoop()

    @staticmethod
    def _drive(loop: Any, task: Any) -> Any:
        while True:
            try:
                return loop.run_until_complete(task)
            except RuntimeError:
                if task.done() or loop.is_closed():
                    raise
                # Somebody has stopped the loop, in this cell or at the end of an earlier one.
