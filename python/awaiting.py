"""Top-level await: one event loop a kernel, driven only while a cell awaits.

It is the loop that ``asyncio.get_event_loop()`` gives in a plain cell, so what is made there can be
awaited later, and the other way round.
"""

from __future__ import annotations

from . import shadow
from .failures import traceback_of
from .ground import call
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from types import TracebackType
    from typing import Any

    from .interrupt import Interrupts


def settle(loop: Loop | None, interrupts: Interrupts) -> Loop | None:
    """Before a cell, once some cell has asked for a loop: ``asyncio.run()`` leaves none behind.

    In a program that is its end; here the next cell may ask for one, and gets that of the kernel.
    """
    local = getattr(shadow.load("asyncio").get_event_loop_policy(), "_local", None)
    if local is None or local._loop is not None or not local._set_called:
        return None
    loop = loop or Loop(interrupts)
    loop.offer()
    return loop


class Loop:
    """Drives the coroutine of a cell; tasks that it leaves behind go on in the next await."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._asyncio = shadow.load("asyncio")
        self._interrupts = interrupts
        self._loop: Any = None
        self._choose()

    def run(
        self, coroutine: Coroutine[Any, Any, Any]
    ) -> Generator[object, None, tuple[Any, BaseException | None]]:
        """Runs it to its end: its value, or what it has raised.

        That is a KeyboardInterrupt if it ended because the cell was interrupted.
        """
        interrupts = self._interrupts
        task = None
        try:
            interrupts.wait_begins()
            self._choose()
            loop = self._loop
            task = loop.create_task(coroutine)
            interrupts.wait_for(loop, task)
            value, failure = yield from self._drive(loop, task)
            if failure is None:
                return value, None
            if not issubclass(type(failure), self._asyncio.CancelledError):
                # Raised in a callback or in another task: this one must not go on in a later cell.
                yield from self._end(task)
            elif interrupts.named():
                failure = KeyboardInterrupt().with_traceback(_where(failure))
            return None, failure
        except BaseException as error:  # noqa: BLE001 - as above
            if task is None:
                coroutine.close()
            else:
                yield from self._end(task)
            return None, error
        finally:
            interrupts.wait_over()
            if task is not None and task.done() and not task.cancelled():
                # The loop would complain of an exception that nobody has looked at.
                task.exception()

    def _end(self, task: Any) -> Generator[object, None, None]:
        """Cancels until the task has ended; the kernel is killed if that takes too long."""
        while not task.done():
            try:
                task.cancel()
                _value, failure = yield from self._drive(self._loop, task)
            except KeyboardInterrupt:
                continue
            if failure is None or isinstance(
                failure, (KeyboardInterrupt, self._asyncio.CancelledError)
            ):
                # Another signal, or the cancelled task itself.
                continue
            # What was raised first is what counts.
            return

    def close(self) -> None:
        """Cancels what is left to be done, and closes the loop."""
        loop, asyncio = self._loop, self._asyncio
        if loop.is_closed():
            return
        try:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def offer(self) -> None:
        """From now on ``get_event_loop()`` gives it."""
        if self._loop.is_closed():
            self._loop = self._new_loop()
        self._asyncio.set_event_loop(self._loop)

    def _choose(self) -> None:
        """The loop that cells have by ``get_event_loop()``; if they have none it is this one."""
        try:
            theirs = self._asyncio.get_event_loop_policy()._local._loop
        except Exception:  # noqa: BLE001 - a policy of the cell's says nothing without making one
            theirs = None
        if theirs is not None and not theirs.is_closed():
            self._loop = theirs
            return
        if self._loop is None:
            self._loop = self._new_loop()
        try:
            self.offer()
        except Exception:  # noqa: BLE001 - the policy is the cell's
            pass

    def _new_loop(self) -> Any:
        try:
            return self._asyncio.new_event_loop()
        except Exception:  # noqa: BLE001 - the cell's policy fails, or its asyncio.py is in the way
            return self._asyncio.SelectorEventLoop()

    @staticmethod
    def _drive(loop: Any, task: Any) -> Generator[object, None, tuple[Any, BaseException | None]]:
        while True:
            value, failure = yield from call(loop.run_until_complete, task)
            if not issubclass(type(failure), RuntimeError) or task.done() or loop.is_closed():
                return value, failure
            # Somebody has stopped the loop, in this cell or at the end of an earlier one.


def _where(failure: BaseException | None) -> TracebackType | None:
    """Where the cell was when it was cancelled: before 3.11 that stands in what it comes from."""
    for _ in range(4):
        if failure is None:
            break
        first = step = traceback_of(failure)
        while step is not None:
            if step.tb_frame.f_code.co_filename.startswith("<cell "):
                return first
            step = step.tb_next
        failure = failure.__context__
    return None
