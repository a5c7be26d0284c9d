"""Tracebacks that a cell prints or logs itself show no frame of ours."""

from __future__ import annotations

from .failures import is_ours
from .hooks import when_imported
from .own import BUILTINS as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def install() -> None:
    """Takes effect when ``traceback`` is loaded."""
    when_imported("traceback", _traceback_loaded)


def _traceback_loaded(module: Any) -> None:
    summary = module.StackSummary
    # From 3.11 on everything comes through the second.
    for name in ("_extract_from_extended_frame_gen", "extract"):
        method = getattr(summary, name, None)
        if method is not None:
            break
    original = method.__func__

    def extract(klass: Any, frame_gen: Any, **more: Any) -> Any:
        return original(klass, _theirs(frame_gen), **more)

    extract.__name__, extract.__doc__ = name, original.__doc__
    setattr(summary, name, classmethod(extract))


def _theirs(frames: Any) -> Iterator[Any]:
    for item in frames:
        frame = item[0]
        filename = frame.f_code.co_filename
        if not is_ours(filename) and not (filename == "<string>" and frame.f_back is None):
            yield item
