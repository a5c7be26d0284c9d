"""Carries the number of the running cell into threads, executors and pools.

A tool call belongs to the cell whose code asked for it. A context variable holds that cell's
number; here the standard ways of handing work on are taught to take it along. A thread that
outlives its cell keeps that cell's number and is refused later; a pool made in an earlier cell
works for the cell that gives it the task.
"""

from __future__ import annotations

from .hooks import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .hermes_tools import Carried  # type: ignore[attr-defined]

CELL_FUNCTION_HINT = (
    "multiprocessing's start method {method!r} starts a fresh interpreter, which cannot see {name}: "
    "it was defined in a cell. Use the default start method 'fork', or put it into a module file "
    "and import it"
)


def install(tools: Any) -> None:
    """Registers the hooks; each takes effect when its module is first imported."""
    variable = tools.current_cell
    carried: type[Carried] = tools.Carried

    def threading_loaded(module: Any) -> None:
        thread = module.Thread
        start, bootstrap = thread.start, getattr(thread, "_bootstrap_inner", None)
        if bootstrap is None:
            return

        def start_with_cell(self: Any) -> None:
            self._warmcell_cell = variable.get()
            start(self)

        def bootstrap_with_cell(self: Any) -> None:
            variable.set(getattr(self, "_warmcell_cell", 0))
            bootstrap(self)

        thread.start = _like(start_with_cell, start)
        thread._bootstrap_inner = _like(bootstrap_with_cell, bootstrap)

    def executor_loaded(name: str) -> Any:
        def loaded(module: Any) -> None:
            executor = getattr(module, name)
            submit = executor.submit

            def submit_with_cell(self: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
                return submit(self, carried(variable.get(), function), *args, **kwargs)

            executor.submit = _like(submit_with_cell, submit)

        return loaded

    def pool_loaded(module: Any) -> None:
        for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
            _wrap_pool(module.Pool, name, carried, variable)

    when_imported("threading", threading_loaded)
    when_imported("concurrent.futures.thread", executor_loaded("ThreadPoolExecutor"))
    when_imported("concurrent.futures.process", executor_loaded("ProcessPoolExecutor"))
    when_imported("multiprocessing.pool", pool_loaded)
    when_imported("multiprocessing.context", _fork_by_default)
    when_imported("multiprocessing.popen_spawn_posix", _refuse_cell_targets("spawn"))
    when_imported("multiprocessing.popen_forkserver", _refuse_cell_targets("forkserver"))


def _wrap_pool(pool: Any, name: str, carried: Any, variable: Any) -> None:
    method = getattr(pool, name, None)
    if method is None:
        return

    def with_cell(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        start_method = getattr(self._ctx, "get_start_method", lambda: "fork")()
        if start_method != "fork" and type(self) is pool:
            # A worker that cannot load the function dies and is replaced for ever.
            _check_importable(func, start_method)
        return method(self, carried(variable.get(), func), *args, **kwargs)

    setattr(pool, name, _like(with_cell, method))


def _fork_by_default(module: Any) -> None:
    """The kernel's cells are no file that a fresh interpreter could import: fork sees them."""
    default = getattr(module, "_default_context", None)
    contexts = getattr(module, "_concrete_contexts", {})
    if default is not None and "fork" in contexts and default._actual_context is None:
        default._default_context = contexts["fork"]


def _refuse_cell_targets(method: str) -> Any:
    def loaded(module: Any) -> None:
        launch = module.Popen._launch

        def launch_importable(self: Any, process: Any) -> Any:
            _check_importable(getattr(process, "_target", None), method)
            _check_importable(type(process), method)
            return launch(self, process)

        module.Popen._launch = _like(launch_importable, launch)

    return loaded


def _check_importable(function: Any, method: str) -> None:
    if getattr(function, "__module__", None) == "__main__":
        name = getattr(function, "__qualname__", repr(function))
        raise RuntimeError(CELL_FUNCTION_HINT.format(method=method, name=name))


def _like(function: Any, original: Any) -> Any:
    """Gives a wrapper the name and text of what it wraps."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        try:
            setattr(function, name, getattr(original, name))
        except (AttributeError, TypeError):
            pass
    return function
