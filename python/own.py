"""Copies of what our code stands on and a cell can change: the builtins and ``os``.

A cell may delete builtins, replace ``print`` or leave a patched ``os.write`` behind. That is the
cell's own affair; the kernel must still be able to say how the cell ended. Each module here takes
``BUILTINS`` as its ``__builtins__``, and ``os`` and ``sys.modules`` from here.
"""

from __future__ import annotations

import builtins
import os as _os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

BUILTINS = dict(vars(builtins))
MODULES = sys.modules


def copy_of(module: ModuleType) -> ModuleType:
    """A module with the same contents, which changes to the original do not reach."""
    copied = type(module)(module.__name__)
    vars(copied).update(vars(module))
    return copied


if TYPE_CHECKING:
    import os
else:
    os = copy_of(_os)
