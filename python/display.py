"""Makes the messages that show values; imported when a cell first has something to show.

Data of a value by MIME type: a value says what it has, by the methods that IPython has made known.
One that raises is left out, with its traceback on stderr; the text/plain form is the repr.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from . import failures, platform_calls, shadow, shown, streams
from .ground import call
from .link import cut, dumps, exact, without_surrogates
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    # What is to be called, and what it gave: user code runs where the driver of the steps says.
    Steps = Generator[
        "tuple[Callable[..., Any], tuple[Any, ...]]", "tuple[Any, BaseException | None]", Any
    ]

# Data of one message: beyond it there is a sentence in its place.
_LIMIT_BYTES = 64 << 20
# Data in one piece of JSON, and all of that in a message.
_INLINE_BYTES = 1 << 20
_ALL_INLINE_BYTES = 2 << 20
_METADATA_BYTES = 1 << 20
_CANARY = "_ipython_canary_method_should_not_exist_"


class Bundle:
    """Data of one value by MIME type, as it fits into a message."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        # Long ones, as JSON, and their types in the same order.
        self.buffers: list[bytes] = []
        self.in_buffers: list[str] = []
        self._bytes = 0
        self._inline = 0
        self._notes: list[str] = []

    def add(self, mime: str, value: Any) -> None:
        """Raises if the value cannot be written as JSON."""
        if type(mime) is not str:
            raise TypeError(f"a MIME type is a str, not {type(mime).__name__}")
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = shadow.load("binascii").b2a_base64(value, newline=False).decode()
        elif isinstance(value, str):
            value = without_surrogates(exact(value))
        encoded = dumps(value)
        size = len(encoded)
        self.remove(mime)
        if self._bytes + size > _LIMIT_BYTES:
            limit = f"{_LIMIT_BYTES >> 20} MiB of a message"
            self._notes.append(f"[{mime}: {size:,} bytes are more than the {limit}]")
            return
        self._bytes += size
        if size > _INLINE_BYTES or self._inline + size > _ALL_INLINE_BYTES:
            self.in_buffers.append(mime)
            self.buffers.append(encoded)
        else:
            self._inline += size
            self.data[mime] = value

    def remove(self, mime: str) -> None:
        self.data.pop(mime, None)
        if mime in self.in_buffers:
            at = self.in_buffers.index(mime)
            del self.in_buffers[at], self.buffers[at]

    def describe(self, mime: str, metadata: Any) -> None:
        """How data of that type is to be shown."""
        if len(dumps(metadata)) > _METADATA_BYTES:
            raise ValueError("metadata of more than 1 MiB")
        self.metadata[mime] = metadata

    def finish(self) -> None:
        """What had no room is told in words."""
        if self._notes and "text/plain" not in self.in_buffers:
            text = self.data.get("text/plain")
            lines = [text] if type(text) is str else []
            self.data["text/plain"] = "\n".join([*lines, *self._notes])
            self._notes = []

    def is_empty(self) -> bool:
        return not self.data and not self.in_buffers

    def plain(self) -> str:
        text = self.data.get("text/plain")
        if type(text) is str:
            return text
        return "[" + ", ".join([*self.data, *self.in_buffers]) + "]"


def on_ground(value: Any) -> Generator[object, None, tuple[Bundle | None, BaseException | None]]:
    """The data of a cell's value; code of it runs with no frame of ours below."""
    steps = _bundle(value, None, None)
    answer: tuple[Any, BaseException | None] | None = None
    try:
        while True:
            function, arguments = steps.send(answer)  # type: ignore[arg-type]
            answer = yield from call(function, *arguments)
    except StopIteration as end:
        return end.value, None
    except BaseException as error:  # noqa: BLE001 - what the value has raised is the cell's failure
        return None, error


def _here(steps: Steps) -> Any:
    answer: tuple[Any, BaseException | None] | None = None
    try:
        while True:
            function, arguments = steps.send(answer)  # type: ignore[arg-type]
            try:
                answer = function(*arguments), None
            except BaseException as error:  # noqa: BLE001 - the steps say what becomes of it
                answer = None, error
    except StopIteration as end:
        return end.value


def _bundle(value: Any, include: Any, exclude: Any) -> Steps:
    """The data of a value; None if the value has shown itself."""
    bundle = Bundle()
    if not isinstance(value, type) and shown.is_rich(value):
        method = yield from _method(value, "_ipython_display_")
        if method is not None:
            _result, failure = yield method, ()
            if failure is None:
                return None
            _skip(failure)
        yield from _add_forms(bundle, value, include, exclude)
    if "text/plain" not in bundle.data and "text/plain" not in bundle.in_buffers:
        text, failure = yield repr, (value,)
        if failure is not None:
            raise failure
        bundle.add("text/plain", cut(exact(text)))
    bundle.finish()
    return bundle


def _add_forms(bundle: Bundle, value: Any, include: Any, exclude: Any) -> Steps:
    made: dict[str, Any] = {}
    method = yield from _method(value, "_repr_mimebundle_")
    if method is not None:
        found, failure = yield _with_words, (method, include, exclude)
        if failure is not None:
            _skip(failure)
        elif found is not None:
            _take_all(bundle, found, made)
    for name, mime in shown.METHODS:
        if mime in made or (include and mime not in include) or (exclude and mime in exclude):
            continue
        method = yield from _method(value, name)
        if method is None:
            continue
        found, failure = yield method, ()
        if failure is not None:
            _skip(failure)
        elif found is not None:
            _take(bundle, mime, found)


def _with_words(method: Any, include: Any, exclude: Any) -> Any:
    return method(include=include, exclude=exclude)


def _take(bundle: Bundle, mime: str, found: Any) -> None:
    try:
        if type(found) is tuple and len(found) == 2 and isinstance(found[1], dict):
            found, metadata = found
            bundle.add(mime, found)
            bundle.describe(mime, metadata)
        else:
            bundle.add(mime, found)
    except Exception as error:  # noqa: BLE001 - no JSON
        bundle.remove(mime)
        _skip(error)


def _take_all(bundle: Bundle, found: Any, made: dict[str, Any]) -> None:
    try:
        metadata: Any = {}
        if type(found) is tuple and len(found) == 2:
            found, metadata = found
        for mime, data in dict(found).items():
            bundle.add(mime, data)
            made[mime] = True
        for mime, about in dict(metadata or {}).items():
            bundle.describe(exact(mime), about)
    except Exception as error:  # noqa: BLE001 - no dicts, or no JSON
        _skip(error)


def _method(value: Any, name: str) -> Steps:
    """The method of that name, if it is a real one and not what a proxy has for every name."""
    canary, failure = yield getattr, (value, _CANARY, None)
    if failure is not None or canary is not None:
        return None
    method, failure = yield getattr, (value, name, None)
    if failure is not None:
        _skip(failure)
        return None
    return method if callable(method) else None


def _skip(failure: BaseException) -> None:
    """One form cannot be had: that is told, and the others are shown."""
    if not isinstance(failure, Exception):
        raise failure
    if not isinstance(failure, NotImplementedError):
        failures.print_error("".join(failures.lines_of(failure)))


def _raw(data: Any) -> Bundle:
    if not isinstance(data, dict):
        raise TypeError(
            f"with raw=True display() takes dicts of data by MIME type, not {type(data).__name__}"
        )
    bundle = Bundle()
    for mime, value in data.items():
        bundle.add(mime, value)
    bundle.finish()
    return bundle


class DisplayHandle:
    """What is shown under a display_id, and can be changed."""

    def __init__(self, display_id: str | None = None) -> None:
        self.display_id = display_id or os.urandom(16).hex()

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj: Any, **more: Any) -> None:
        """Show a value under the same name once more."""
        shown.display(obj, display_id=self.display_id, **more)

    def update(self, obj: Any, **more: Any) -> None:
        """Show this value wherever the name is shown."""
        update_display(obj, self.display_id, more)


def display(objects: tuple[Any, ...], terms: dict[str, Any]) -> DisplayHandle | None:
    """See ``shown.display``."""
    update, display_id = bool(terms.get("update")), terms.get("display_id")
    raw = bool(terms.get("raw"))
    handle = None
    if display_id is not None and display_id is not False:
        if display_id is not True and not isinstance(display_id, str):
            raise TypeError(f"display_id is a str or True, not {type(display_id).__name__}")
        handle = DisplayHandle(None if display_id is True else exact(display_id))
    elif update:
        raise TypeError("display_id required for update_display")
    if terms.get("clear"):
        clear_output(wait=True)
    transient = terms.get("transient")
    if transient is not None and not isinstance(transient, dict):
        raise TypeError(f"transient is a dict, not {type(transient).__name__}")
    transient = dict(transient or {})
    if handle is not None:
        transient["display_id"] = handle.display_id
    if handle is not None and not objects:
        # A place that is filled later.
        objects, raw = ({},), True
    for value in objects:
        if raw:
            bundle = _raw(value)
        else:
            bundle = _here(_bundle(value, terms.get("include"), terms.get("exclude")))
        if bundle is not None:
            _publish_bundle(bundle, terms.get("metadata"), transient, update)
    return handle


def publish(
    data: Any, metadata: Any = None, *, transient: Any = None, update: bool = False, **_more: Any
) -> None:
    """Shows data by MIME type, as IPython's own functions hand it over."""
    _publish_bundle(_raw(data), metadata, dict(transient or {}), bool(update))


def _publish_bundle(bundle: Bundle, metadata: Any, transient: dict[str, Any], update: bool) -> None:
    for mime, about in dict(metadata or {}).items():
        bundle.describe(exact(mime), about)
    if len(dumps(transient)) > _METADATA_BYTES:
        raise ValueError("transient of more than 1 MiB")
    content = {"data": bundle.data, "metadata": bundle.metadata, "transient": transient}
    text = None if update or bundle.is_empty() else bundle.plain()
    _publish("update_display_data" if update else "display_data", content, bundle, text)


def publish_error(content: dict[str, Any]) -> None:
    """How code has failed, before its cell has come to its end: ``ename, evalue, traceback``."""
    _publish("error", content, None, None)


def update_display(obj: Any, display_id: Any, more: dict[str, Any]) -> None:
    """See ``shown.update_display``."""
    shown.display(obj, display_id=display_id, **{**more, "update": True})


def clear_output(wait: bool) -> None:
    """See ``shown.clear_output``."""
    _publish("clear_output", {"wait": bool(wait)}, None, None)


def metadata_of(bundle: Bundle | None, number: int | None = None) -> bytes:
    """What the manager needs to know of a message, beside what Jupyter knows."""
    own: dict[str, Any] = {}
    if number is not None:
        own["shown"] = number
    if bundle is not None and bundle.in_buffers:
        own["buffers"] = bundle.in_buffers
    return dumps({"warmcell": own}) if own else b"{}"


def _publish(
    msg_type: str, content: dict[str, Any], bundle: Bundle | None, text: str | None
) -> None:
    """Sends it in the name of the cell whose code calls.

    What comes from a child, or from a thread that an earlier cell has left, is printed: nobody can
    be shown it any more.
    """
    request = shown.request
    is_kernel = os.getpid() == shown.pid
    if request is None or not is_kernel or shown.cell_of_caller() != request.cell:
        if text is not None:
            sys.stdout.write(text + "\n")
        return
    if request.silent:
        return
    # What was printed before is shown before.
    streams.flush()
    platform_calls.flush_c_stdout()
    waits = get_ident() == shown.main_thread
    number = next(shown.numbers) if waits else None
    shown.link.send(
        "iopub",
        msg_type,
        request.header,
        content,
        (metadata_of(bundle, number), bundle.buffers if bundle is not None else ()),
    )
    if number is not None:
        # And what is printed next comes next: the manager says when it has read what was printed.
        shown.link.wait_for(b"warmcell_shown", number)
