"""What a cell has to show beside its streams, and in whose name: ``display()`` and its like.

They stand in the namespace of every cell, and most cells never call them: what they do is in
``display.py``, which is imported when it is needed.
"""

from __future__ import annotations

from _thread import get_ident
from itertools import count

from . import hooks
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .link import Link

# Methods by which a value says how it is to be shown, and their MIME types.
METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)
_NAMES = (*(name for name, _mime in METHODS), "_repr_mimebundle_", "_ipython_display_")
# What has none of them, and whose types nobody can change.
_PLAIN = frozenset(map(id, (list, tuple, dict, set, frozenset, bytearray, range, type(len))))
_mro_of, _dict_of = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__"))
_attribute_of = object.__getattribute__


class Request:
    """What the kernel is asked to do now; what it shows meanwhile goes out in its name."""

    __slots__ = ("allows_input", "cell", "header", "origin", "silent")

    def __init__(
        self,
        header: bytes,
        cell: int,
        *,
        origin: Any = None,
        silent: bool = False,
        allows_input: bool = False,
    ) -> None:
        self.header = header
        self.cell = cell
        # The id of the front end's own message, if it is one's.
        self.origin = origin
        self.silent = silent
        self.allows_input = allows_input

    def is_watched(self) -> bool:
        """Whether it is a notebook's, and anything of it is shown."""
        return self.origin is not None and not self.silent


link: Link
# Of what is shown and waited for.
numbers = count(1)
# Which process is the kernel, and its main thread.
pid = 0
main_thread = 0
# The number of the cell whose code calls.
cell_of_caller: Callable[[], int] = int
request: Request | None = None


# Packages that have ways of their own to show something.
_PACKAGES = (
    "IPython.core.display_functions",
    "IPython.core.display",
    "IPython.core.displaypub",
    "ipywidgets",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "pandas",
)


def install() -> None:
    """In the forkserver: they are bound when a cell imports them."""
    for name in _PACKAGES:
        hooks.when_imported(name, _bind, standard=False)


def _bind(module: Any) -> None:
    from . import packages

    packages.loaded(module)


def begin(its_link: Link, its_cell_of_caller: Callable[[], int]) -> None:
    """In the process that is the kernel."""
    global cell_of_caller, link, main_thread, pid
    link, cell_of_caller = its_link, its_cell_of_caller
    pid, main_thread = os.getpid(), get_ident()


def forget() -> None:
    """In a process that a cell has forked."""
    global request
    request = None


def wait_until_read() -> None:
    """Until the manager has read what is in the pipes: what is written next comes next.

    Not in the midst of a message, nor while something else is waited for: a destructor or a signal
    handler may print there.
    """
    if request is None or link.writing or link.waiting or os.getpid() != pid:
        return
    try:
        number = next(numbers)
        about = b'{"warmcell":{"shown":%d}}' % number
        link.send("iopub", "warmcell_written", request.header, {}, (about, ()))
        link.wait_for(b"warmcell_shown", number)
    except Exception:  # noqa: BLE001 - then the order is what the pipes make of it
        pass


def is_rich(value: object) -> bool:
    """Whether it may have something to say about how it is shown. Hardly any code of it runs."""
    kind = type(value)
    if id(kind) in _PLAIN:
        return False
    for klass in _mro_of(kind):
        if klass is object:
            continue
        own = _dict_of(klass)
        if "__getattr__" in own:
            return True
        for name in _NAMES:
            if name in own:
                return True
    try:
        own = _attribute_of(value, "__dict__")
        return type(own) is dict and any(name in own for name in _NAMES)
    except BaseException:  # noqa: BLE001 - it has none
        return False


def display(*objects: Any, display_id: Any = None, raw: bool = False, **terms: Any) -> Any:
    """Show objects, each in the richest form it has.

    A value says how by methods like ``_repr_html_``; its repr is always sent along. With ``raw``
    the objects are dicts of data by MIME type. With ``display_id`` (a name, or True for a new one)
    the handle that is returned can change what is shown: ``handle.update(value)``. Other terms are
    those of IPython: ``include``, ``exclude``, ``metadata``, ``transient``, ``clear``.
    """
    from . import display as made

    return made.display(objects, {**terms, "display_id": display_id, "raw": raw})


def update_display(obj: Any, *, display_id: str, **more: Any) -> None:
    """Change what was shown under a display_id."""
    from . import display as made

    made.update_display(obj, display_id, more)


def clear_output(wait: bool = False) -> None:
    """Clear what the front end shows of this cell; with ``wait``, once there is something new.

    Results of cells keep all that was printed and shown.
    """
    from . import display as made

    made.clear_output(wait)


INJECTED = (display, update_display, clear_output)
