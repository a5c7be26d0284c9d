"""What IPython, ipywidgets and matplotlib find in a kernel: ways to show that end in ours.

They ask the shell of IPython, which our kernels do not have; without it they print reprs, or
nothing. Each is bound right after a cell has imported it. Files of the user's may bear these names,
so what does not look like the package is left alone.
"""

from __future__ import annotations

from . import shadow, shown
from .carry import like
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from typing import Any

# Backends of matplotlib that draw, and have no window to show it in.
_WINDOWLESS = frozenset(("agg", "cairo", "pdf", "pgf", "ps", "svg", "template"))


def loaded(module: Any) -> None:
    """One of those named below was imported."""
    try:
        _BINDINGS[module.__name__](module)
    except Exception:  # noqa: BLE001 - another version, or no such package at all
        pass


# IPython.


def _bind_display(module: Any) -> None:
    """Its display functions; in old versions they are in IPython.core.display itself."""
    if "publish_display_data" not in module.__dict__:
        return
    from . import display as made

    handle_of = getattr(module, "DisplayHandle", made.DisplayHandle)

    def display(*objs: Any, **terms: Any) -> Any:
        handle = shown.display(*objs, **terms)
        return handle and handle_of(handle.display_id)

    def publish_display_data(data: Any, metadata: Any = None, **terms: Any) -> None:
        made.publish(data, metadata, **terms)

    _put(module, display)
    _put(module, publish_display_data)
    _put(module, shown.clear_output)

    def update_display(obj: Any, *, display_id: Any, **terms: Any) -> None:
        shown.display(obj, display_id=display_id, **{**terms, "update": True})

    _put(module, update_display)


def _put(module: Any, ours: Any) -> None:
    """In the place of the function of that name, unless a shell of the user's has the word."""
    theirs = getattr(module, ours.__name__)

    def function(*args: Any, **terms: Any) -> Any:
        return (theirs if _another_has_the_word() else ours)(*args, **terms)

    setattr(module, ours.__name__, like(function, theirs))


def _another_has_the_word() -> bool:
    """Whether there is a shell of IPython's that does more with what is shown than to print it."""
    shells = MODULES.get("IPython.core.interactiveshell")
    shell = getattr(getattr(shells, "InteractiveShell", None), "_instance", None)
    publisher = getattr(shell, "display_pub", None)
    return publisher is not None and type(publisher).__name__ != "DisplayPublisher"


def _bind_publisher(module: Any) -> None:
    """What a shell without a front end prints."""
    from . import display as made

    kind = module.DisplayPublisher
    theirs, clear = kind.publish, kind.clear_output

    def publish(self: Any, data: Any, metadata: Any = None, **terms: Any) -> None:
        if type(self) is not kind:
            theirs(self, data, metadata, **terms)
        else:
            made.publish(data, metadata, **terms)

    def clear_output(self: Any, wait: bool = False) -> None:
        if type(self) is not kind:
            clear(self, wait)
        else:
            shown.clear_output(wait)

    kind.publish, kind.clear_output = like(publish, theirs), like(clear_output, clear)


# ipywidgets.


def _bind_widgets(module: Any) -> None:
    """A front end that comes later asks for the widgets that there are."""
    module.register_comm_target()


# pandas.


def _bind_tables(module: Any) -> None:
    """As wide as in a notebook: without IPython's shell it takes its reader for a terminal."""
    request = shown.request
    if request is None or request.origin is None:
        return
    if module.get_option("display.max_columns") == 0:
        module.set_option("display.max_columns", 20)


# matplotlib.


def _bind_figures(module: Any) -> None:
    if not hasattr(module.Figure, "_repr_png_"):
        module.Figure._repr_png_ = _png_of


# Figures whose picture was made since the last cell has ended.
_pictured: set[int] = set()


def _png_of(self: Any) -> bytes | None:
    _pictured.add(id(self))
    # The first child is the background.
    if len(self.get_children()) <= 1:
        return None
    picture = shadow.load("io").BytesIO()
    self.canvas.print_figure(
        picture,
        format="png",
        dpi=self.dpi,
        facecolor=self.get_facecolor(),
        edgecolor=self.get_edgecolor(),
        bbox_inches="tight",
    )
    return picture.getvalue()


def _bind_show(module: Any) -> None:
    theirs = module.show

    def show(*args: Any, **terms: Any) -> Any:
        if module.get_backend().lower() not in _WINDOWLESS:
            return theirs(*args, **terms)
        _show_figures(module, frozenset())
        return None

    module.show = like(show, theirs)
    module.show._is_warmcells = True
    _bind_switches(module)


def end_cell() -> None:
    """Shows the figures that a notebook's cell leaves open and has not shown, and closes them."""
    if will_show():
        pyplot = MODULES["matplotlib.pyplot"]
        _show_figures(pyplot, _pictured | _kept_back)
    _pictured.clear()


def will_show() -> bool:
    """Whether there are figures that the end of a notebook's cell shows."""
    pyplot = MODULES["matplotlib.pyplot"]
    if not hasattr(pyplot.show, "_is_warmcells"):
        return False
    if not pyplot.get_fignums() or pyplot.get_backend().lower() not in _WINDOWLESS:
        return False
    return not all(id(it.canvas.figure) in _kept_back for it in _managers())


def _managers() -> list[Any]:
    return MODULES["matplotlib._pylab_helpers"].Gcf.get_all_fig_managers()


# Figures that were made while ``plt.ioff()`` was in force: only ``plt.show()`` shows them.
_kept_back: set[int] = set()
_is_off = False


def _bind_switches(module: Any) -> None:
    """``plt.ioff()`` and ``plt.ion()``: whether the end of a cell shows what is drawn."""

    def switch(off: bool, theirs: Any) -> Any:
        def function() -> Any:
            global _is_off
            stack = shadow.load("contextlib").ExitStack()
            stack.callback(back, _is_off, module.isinteractive())
            theirs()
            _is_off = off
            return stack

        return like(function, theirs)

    def back(was_off: bool, was_interactive: bool) -> None:
        global _is_off
        (theirs_on if was_interactive else theirs_off)()
        _is_off = was_off

    theirs_on, theirs_off, made = module.ion, module.ioff, module.new_figure_manager

    def new_figure_manager(*args: Any, **terms: Any) -> Any:
        manager = made(*args, **terms)
        if _is_off:
            _kept_back.add(id(manager.canvas.figure))
        else:
            _kept_back.discard(id(manager.canvas.figure))
        return manager

    module.ion, module.ioff = switch(False, theirs_on), switch(True, theirs_off)
    module.new_figure_manager = like(new_figure_manager, made)


def _show_figures(pyplot: Any, but: Set[int]) -> None:
    """Shows the figures that are open, and closes them."""
    managers = _managers()
    try:
        for manager in managers:
            if id(manager.canvas.figure) not in but:
                shown.display(manager.canvas.figure)
    finally:
        figures = [manager.canvas.figure for manager in managers]
        closed = [it for it in figures if not but or id(it) not in _kept_back]
        if closed == figures:
            closed = ["all"] if figures else []
        for figure in closed:
            pyplot.close(figure)
        if closed == ["all"]:
            _kept_back.clear()


_BINDINGS: dict[str, Callable[[Any], None]] = {
    "IPython.core.display_functions": _bind_display,
    "IPython.core.display": _bind_display,
    "IPython.core.displaypub": _bind_publisher,
    "ipywidgets": _bind_widgets,
    "matplotlib.figure": _bind_figures,
    "matplotlib.pyplot": _bind_show,
    "pandas": _bind_tables,
}
