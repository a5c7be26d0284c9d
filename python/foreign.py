"""What a Python kernel that is not ours is given before its first cell, as source.

Its namespace gets the tools, until it has something else of the name. Before each cell it is told
the cell's number, so that tool calls are made for the right one; after each it tells what the cell
has bound. The bridge hands in ``_user``, the namespace, and ``_tools``, the file of the tools.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    _user: dict[str, Any] = {}
    _tools = ""

_MOST_NAMES = 200
_MOST_GONE = 1_000
_NAME_CHARS = 100
_TYPE_CHARS = 100
# As in asking.py, of our own kernels.
_NOBODY = (
    "{name}() cannot be answered: nobody is at the keyboard of this cell. "
    "Put the value into the code, or read it from a file or an environment variable"
)
# The number of the cell that runs, whether it may ask for input, and what was bound when the last
# one had ended.
_state: dict[str, Any] = {"cell": 0, "input": True, "known": {}}
_nothing = object()


class Report:
    """What a cell has bound; shown as JSON."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def __repr__(self) -> str:
        return dumps(self._content)


def begin(cell: int, directory: object, allows_input: bool) -> None:
    """Before a cell: whose calls these are from now on, where it is to run, whether it may ask."""
    _state["cell"] = cell
    _state["input"] = allows_input
    os.environ["HERMES_RPC_CELL"] = str(cell)
    _variable.set(cell)
    for finder in list(sys.path_importer_cache.values()):
        invalidate = getattr(finder, "invalidate_caches", None)
        if invalidate is not None:
            invalidate()
    if directory is not None:
        os.chdir(directory)  # type: ignore[arg-type]
        if isinstance(directory, str):
            os.environ["PWD"] = directory


def report(namespace: dict[str, Any]) -> Report:
    """After a cell: what has been bound and is gone, the latest last. Values are not kept."""
    known = _state["known"]
    now = {}
    for name, value in list(namespace.items()):
        if type(name) is not str or name.startswith("_") or _first.get(name, _nothing) is value:
            continue
        now[name[:_NAME_CHARS]] = (id(value), type(value).__name__[:_TYPE_CHARS])
    changed = [[name, it[1]] for name, it in now.items() if known.get(name) != it]
    gone = [name for name in known if name not in now]
    _state["known"] = now
    return Report({"set": changed[-_MOST_NAMES:], "del": gone[:_MOST_GONE], "total": len(now)})


def _release_descriptors() -> None:
    """What is written to descriptors 1 and 2 goes where it went before the kernel took them.

    ipykernel puts pipes there, shows what comes and writes it on to where they led before: all of
    it would come twice, what is no UTF-8 changed, and what a kernel that dies or is stuck has not
    read yet not at all. The one way that is left loses nothing; ``fileno()`` has always named it.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            copy = stream._original_stdstream_copy  # type: ignore[union-attr]
            if os.path.sameopenfile(copy, number):
                continue
            thread = stream.watch_fd_thread  # type: ignore[union-attr]
            # With the next byte it ends, and does not write it on.
            stream._should_watch = False  # type: ignore[union-attr]
            os.write(number, b"\n")
            thread.join(1)
            os.dup2(copy, number)
        except (AttributeError, OSError, RuntimeError, TypeError, ValueError):
            # It is another kernel, or keeps its descriptors another way: it writes nothing twice.
            continue


def _print_before_children() -> None:
    """What was printed is on its way before a child begins, which writes to the descriptors."""
    import subprocess
    from contextlib import suppress

    def flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            # It may be anything of the cell's own.
            with suppress(Exception):
                stream.flush()

    system, handles = os.system, getattr(subprocess.Popen, "_get_handles", None)

    def system_after_prints(command: Any) -> int:
        flush()
        return system(command)

    def handles_after_prints(self: Any, *args: Any, **kwargs: Any) -> Any:
        flush()
        return handles(self, *args, **kwargs)  # type: ignore[misc]

    system_after_prints.__name__ = system_after_prints.__qualname__ = "system"
    os.system = system_after_prints
    if handles is not None:
        # Where it fails to start there is no frame of this in its traceback.
        subprocess.Popen._get_handles = handles_after_prints  # type: ignore[attr-defined]


def _load() -> Any:
    spec = spec_from_file_location("hermes_tools", _tools)
    module = module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules["hermes_tools"] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    # Its own, whatever a cell does with its environment.
    module._address = (  # type: ignore[attr-defined]
        os.environ.get("HERMES_RPC_SOCKET"),
        os.environ.get("HERMES_RPC_TOKEN"),
    )
    for name in module.__all__:
        _user.setdefault(name, getattr(module, name))
    return module


def _follow_cells() -> None:
    """The cell's own context has its number: what it starts takes that along."""
    find = _user.get("get_ipython")
    if find is not None:
        # Of silent cells too.
        find().events.register("pre_execute", _cell_begins)


def _cell_begins() -> None:
    _variable.set(_state["cell"])
    if not _state["input"]:
        import builtins
        import getpass

        # The kernel has put its own there for this cell, and takes them back after it.
        builtins.input = _nobody("input")
        getpass.getpass = _nobody("getpass")


def _nobody(name: str) -> Any:
    def ask(*_prompt: object, **_more: object) -> str:
        raise EOFError(_NOBODY.format(name=name))

    ask.__name__ = ask.__qualname__ = name
    return ask


def _carry() -> None:
    """Threads and executors work for the cell that gave them the task."""
    import threading
    from concurrent.futures import thread as executors

    thread, item = threading.Thread, executors._WorkItem
    start, bootstrap = thread.start, thread._bootstrap_inner  # type: ignore[attr-defined]
    init, run = item.__init__, item.run

    def start_with_cell(self: Any) -> None:
        self._warmcell_cell = _variable.get()
        start(self)

    def bootstrap_with_cell(self: Any) -> None:
        cell = getattr(self, "_warmcell_cell", 0)
        _variable.set(cell)
        if sys.version_info >= (3, 14):
            # There a thread runs in a context object of its own.
            self._context.run(_variable.set, cell)
        bootstrap(self)

    def init_with_cell(self: Any, *args: Any, **kwargs: Any) -> None:
        self._warmcell_cell = _variable.get()
        init(self, *args, **kwargs)

    def run_with_cell(self: Any, *args: Any) -> None:
        token = _variable.set(self._warmcell_cell)
        try:
            run(self, *args)
        finally:
            _variable.reset(token)

    thread.start = start_with_cell  # type: ignore[method-assign]
    thread._bootstrap_inner = bootstrap_with_cell  # type: ignore[attr-defined]
    item.__init__, item.run = init_with_cell, run_with_cell  # type: ignore[method-assign]


_release_descriptors()
_print_before_children()
_variable = _load().current_cell
_follow_cells()
_carry()
# Of the kernel itself, and ours, as long as it is still that.
_first = dict(_user)
_module = type(sys)("_warmcell_bridge")
_module.begin, _module.report = begin, report  # type: ignore[attr-defined]
sys.modules["_warmcell_bridge"] = _module
