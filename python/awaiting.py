"""Top-level await: one event loop a kernel, driven only while a cell awaits."""

from __future__ import annotations

import asyncio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from .interrupt import Interrupts


class Loop:
    """Drives the coroutine of a cell; tasks that it leaves behind go on in the next await."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs it to its end; KeyboardInterrupt if it ended because the cell was interrupted."""
        if self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        task = loop.create_task(coroutine)
        self._interrupts.wait_for(loop, task)
        try:
            try:
                return loop.run_until_complete(task)
            except asyncio.CancelledError:
                if self._interrupts.named():
                    raise KeyboardInterrupt from None
                raise
            except KeyboardInterrupt:
                # Raised in the cell's own code, or in a callback: the task must not go on inside
                # a later cell.
                if not task.done():
                    task.cancel()
                    try:
                        loop.run_until_complete(task)
                    except (asyncio.CancelledError, Exception):  # noqa: BLE001
                        pass
                raise
        finally:
            self._interrupts.wait_over()
