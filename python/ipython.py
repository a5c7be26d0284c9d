"""``IPython.display`` in a kernel that is not IPython's.

Its ``display()`` and the like speak to IPython's own shell, and print where there is none. Ours
take their place when a cell, or a library that it uses, imports it; its classes (``HTML``,
``Image``, ...) say themselves how they are shown.
"""

from __future__ import annotations

from . import hooks, shown
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    """In the forkserver: nothing is imported before a cell does."""
    # Before IPython 7.23 they stood in the second one.
    for name in ("IPython.core.display_functions", "IPython.core.display"):
        hooks.when_imported(name, _loaded, standard=False)


def publish_display_data(
    data: dict[str, Any],
    metadata: dict[str, Any] | None = None,
    *,
    transient: dict[str, Any] | None = None,
    update: bool = False,
    **more: Any,
) -> None:
    """Show data by MIME type, as it is."""
    del more
    display_id = (transient or {}).get("display_id")
    shown.display(
        data,
        raw=True,
        metadata=metadata,
        transient=transient,
        update=update,
        display_id=display_id,
    )


_OURS = {function.__name__: function for function in (*shown.INJECTED, publish_display_data)}


def _loaded(module: Any) -> None:
    for name, ours in _OURS.items():
        if hasattr(module, name):
            setattr(module, name, ours)
