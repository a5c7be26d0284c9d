"""Carries the number of the running cell into threads, executors and pools.

A tool call belongs to the cell whose code asked for it. A context variable holds that cell's
number; here the standard ways of handing work on are taught to take it along. A thread that
outlives its cell keeps that cell's number and is refused later; a pool made in an earlier cell
works for the cell that gives it the task.
"""

from __future__ import annotations

import sys
from _functools import partial

from . import streams
from .hooks import when_imported
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CELL_FUNCTION_HINT = (
    "multiprocessing's start method {method!r} starts a fresh interpreter, which cannot see "
    "{name}: it was defined in a cell. Use the default start method 'fork', or put it into a "
    "module file and import it"
)


def install(tools: Any) -> None:
    """Registers the hooks; each takes effect when its module is first imported."""
    for name, hook in (
        ("threading", _threads),
        ("concurrent.futures._base", _futures),
        ("concurrent.futures.thread", _thread_executor),
        ("concurrent.futures.process", _process_executor),
        ("multiprocessing.pool", _pools),
    ):
        when_imported(name, partial(hook, tools.current_cell, tools.Carried))
    when_imported("multiprocessing.context", _fork_by_default)
    when_imported("multiprocessing.reduction", _check_processes)
    when_imported("multiprocessing.spawn", lambda module: _share_tools(module, tools))


def _share_tools(module: Any, tools: Any) -> None:
    """A fresh interpreter takes over our sys.path, which does not hold the tools."""
    get = module.get_preparation_data
    folder = os.path.dirname(tools.__file__)

    def get_with_tools(name: Any) -> Any:
        data = get(name)
        if "sys_path" in data:
            data["sys_path"] = [*data["sys_path"], folder]
        return data

    module.get_preparation_data = like(get_with_tools, get)


def _threads(variable: Any, _carried: Any, module: Any) -> None:
    thread = module.Thread
    start, bootstrap = thread.start, getattr(thread, "_bootstrap_inner", None)
    if bootstrap is None:
        return

    def start_with_cell(self: Any) -> None:
        self._warmcell_cell = variable.get()
        streams.threads_begin()
        start(self)

    def bootstrap_with_cell(self: Any) -> None:
        cell = getattr(self, "_warmcell_cell", 0)
        variable.set(cell)
        if sys.version_info >= (3, 14):
            # There a thread runs in a context object of its own.
            self._context.run(variable.set, cell)
        bootstrap(self)

    thread.start = like(start_with_cell, start)
    thread._bootstrap_inner = like(bootstrap_with_cell, bootstrap)


def _futures(variable: Any, _carried: Any, module: Any) -> None:
    future = module.Future
    add = future.add_done_callback

    def add_with_cell(self: Any, fn: Any) -> None:
        add(self, _callback(variable, fn))

    future.add_done_callback = like(add_with_cell, add)


def _thread_executor(variable: Any, _carried: Any, module: Any) -> None:
    item = module._WorkItem
    init, run = item.__init__, item.run

    def init_with_cell(self: Any, *args: Any, **kwargs: Any) -> None:
        self._warmcell_cell = variable.get()
        init(self, *args, **kwargs)

    def run_with_cell(self: Any, *args: Any) -> None:
        # Around the whole item: a traceback of the task does not come through here.
        token = variable.set(self._warmcell_cell)
        try:
            run(self, *args)
        finally:
            variable.reset(token)

    item.__init__, item.run = like(init_with_cell, init), like(run_with_cell, run)


def _process_executor(variable: Any, carried: Any, module: Any) -> None:
    item = module._WorkItem
    init = item.__init__

    def init_with_cell(self: Any, future: Any, fn: Any, *rest: Any) -> None:
        init(self, future, carried(variable.get(), fn), *rest)

    item.__init__ = like(init_with_cell, init)
    _check_submitted(module.ProcessPoolExecutor)


def _pools(variable: Any, carried: Any, module: Any) -> None:
    _check_tasks(module.Pool)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        _wrap_pool(module.Pool, name, carried, variable)
    result = module.ApplyResult
    init = result.__init__

    def init_with_cell(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        for name in ("_callback", "_error_callback"):
            callback = getattr(self, name, None)
            if callback is not None:
                setattr(self, name, _callback(variable, callback))

    result.__init__ = like(init_with_cell, init)


def _callback(variable: Any, function: Any) -> Any:
    """A callback that runs for the cell that adds it, in a thread that may belong to another."""
    cell = variable.get()

    def call(*args: Any) -> Any:
        token = variable.set(cell)
        try:
            return function(*args)
        finally:
            variable.reset(token)

    return call


def _check_submitted(executor: Any) -> None:
    submit = executor.submit

    def submit_importable(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = _start_method(self._mp_context)
        if method != "fork":
            _check_pickled(_pickled(fn), method)
        return submit(self, fn, *args, **kwargs)

    executor.submit = like(submit_importable, submit)


def _check_tasks(pool: Any) -> None:
    """A worker that cannot load its task dies and is replaced, and the task is lost for ever."""
    set_up = getattr(pool, "_setup_queues", None)
    if set_up is None:
        return

    def set_up_with_check(self: Any) -> None:
        set_up(self)
        method = _start_method(self._ctx)
        if method == "fork":
            return
        send = self._inqueue._writer.send_bytes

        def put_importable(task: Any) -> None:
            pickled = _pickled(task)
            _check_pickled(pickled, method)
            send(pickled)

        self._quick_put = put_importable

    pool._setup_queues = like(set_up_with_check, set_up)


def _wrap_pool(pool: Any, name: str, carried: Any, variable: Any) -> None:
    method = getattr(pool, name, None)
    if method is None:
        return

    def with_cell(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, carried(variable.get(), func), *args, **kwargs)

    setattr(pool, name, like(with_cell, method))


def _start_method(context: Any) -> str:
    return getattr(context, "get_start_method", lambda: "fork")()


def _fork_by_default(module: Any) -> None:
    """The kernel's cells are no file that a fresh interpreter could import: fork sees them."""
    default = getattr(module, "_default_context", None)
    contexts = getattr(module, "_concrete_contexts", {})
    if default is not None and "fork" in contexts and default._actual_context is None:
        default._default_context = contexts["fork"]


def _check_processes(module: Any) -> None:
    dump = module.dump

    def dump_importable(obj: Any, file: Any, protocol: Any = None) -> None:
        start = file.tell()
        dump(obj, file, protocol)
        from multiprocessing.context import get_spawning_popen

        popen = get_spawning_popen()
        if popen is not None and hasattr(file, "getvalue"):
            _check_pickled(file.getvalue()[start:], popen.method)

    module.dump = like(dump_importable, dump)


def _pickled(value: Any) -> bytes:
    from multiprocessing.reduction import ForkingPickler

    return bytes(ForkingPickler.dumps(value))


def _check_pickled(pickled: bytes, method: str) -> None:
    """Refuses what a fresh interpreter could not load because a cell has defined it."""
    if b"__main__" not in pickled:
        return
    import pickletools

    strings: list[str] = []
    for opcode, argument, _position in pickletools.genops(pickled):
        if opcode.name == "STACK_GLOBAL" and strings[-2:-1] == ["__main__"]:
            raise RuntimeError(CELL_FUNCTION_HINT.format(method=method, name=strings[-1]))
        if isinstance(argument, str):
            strings.append(argument)


def like(function: Any, original: Any) -> Any:
    """Gives a wrapper the name and text of what it wraps."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        try:
            setattr(function, name, getattr(original, name))
        except (AttributeError, TypeError):
            pass
    return function
