"""Comms: objects of a cell's that talk with objects of a front end, as of the package ``comm``.

Without that package nothing in a kernel has any: then what a front end opens is closed again.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from . import failures, hooks, platform_calls, shown, streams
from .ground import call
from .link import cut, dumps, exact, loads, without_surrogates
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import MODULES, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

# Data of a message that stands in JSON; binary data has buffers.
_DATA_BYTES = 3 << 20
_BUFFER_BYTES = 64 << 20
_TYPES = ("comm_open", "comm_msg", "comm_close")

# What holds the comms of the package, once it was imported.
_manager: Any = None


def install() -> None:
    """In the forkserver: the package is bound to the link when a cell imports it."""
    hooks.when_imported("comm", _loaded, standard=False)


def _loaded(module: Any) -> None:
    global _manager
    base = sys.modules.get("comm.base_comm")
    if base is None or not hasattr(module, "create_comm"):
        # A file of the user's that bears the name.
        return
    manager = base.CommManager()

    class Comm(base.BaseComm):  # type: ignore[misc,name-defined]
        """A comm of this kernel."""

        kernel = _Kernel()

        def publish_msg(
            self,
            msg_type: str,
            data: Any = None,
            metadata: Any = None,
            buffers: Any = None,
            **keys: Any,
        ) -> None:
            _publish(msg_type, {"comm_id": self.comm_id, **keys}, data, metadata, buffers)

    module.create_comm = Comm
    module.get_comm_manager = lambda: manager
    _manager = manager


class _Kernel:
    """What widgets ask a kernel of Jupyter's: whose output it is that one of them captures."""

    iopub_socket = None

    def get_parent(self, channel: Any = None) -> dict[str, Any]:
        """The request that is being answered."""
        del channel
        request = shown.request
        if request is None:
            return {}
        header = loads(request.header)
        # As the front end knows it.
        return {"header": {**header, "msg_id": request.origin or header["msg_id"]}}

    def send_response(self, stream: Any, msg_type: str, content: Any, **_more: Any) -> None:
        """How code failed whose output is captured."""
        del stream
        if msg_type != "error":
            return
        request = shown.request
        is_main = get_ident() == shown.main_thread
        if request is None or request.origin is None or not is_main:
            failures.print_error("\n".join(map(str, content["traceback"])).rstrip("\n") + "\n")
            return
        from . import display

        words = {name: cut(exact(str(content.get(name, "")))) for name in ("ename", "evalue")}
        lines = "\n".join(map(str, content["traceback"])).rstrip("\n")
        display.publish_error({**words, "traceback": cut(lines).split("\n")})


def _publish(
    msg_type: str, content: dict[str, Any], data: Any, metadata: Any, buffers: Any
) -> None:
    if msg_type not in _TYPES:
        raise ValueError(f"{msg_type!r} is no type of a comm's messages")
    request = shown.request
    if request is None or os.getpid() != shown.pid:
        # Nobody is asking, so nobody can be answered.
        return
    content["data"] = {} if data is None else data
    size = len(dumps(content))
    if size > _DATA_BYTES:
        raise ValueError(
            f"a comm's message of {size:,} bytes; over 3 MiB its data must be in buffers"
        )
    parts = [bytes(memoryview(part).cast("B")) for part in buffers or ()]
    if sum(map(len, parts)) > _BUFFER_BYTES:
        raise ValueError("the buffers of a comm's message have more than 64 MiB")
    about = dict(metadata or {})
    # What was printed before comes before it, and what is printed next comes next: it may say who
    # gets that.
    streams.flush()
    platform_calls.flush_c_stdout()
    number = next(shown.numbers) if get_ident() == shown.main_thread else None
    if number is not None:
        about["warmcell"] = {"shown": number}
    encoded = dumps(about)
    if len(encoded) > _DATA_BYTES:
        raise ValueError("the metadata of a comm's message has more than 3 MiB")
    shown.link.send("iopub", msg_type, request.header, content, (encoded, parts))
    if number is not None:
        shown.link.wait_for(b"warmcell_shown", number)


def handle(
    msg_type: str, header: bytes, content: dict[str, Any], more: Any
) -> Generator[object, None, BaseException | None]:
    """A message of the front end's; what code of a cell's has raised in it."""
    manager = _manager
    if manager is None or "comm" not in MODULES:
        if msg_type == "comm_open":
            comm_id = without_surrogates(str(content.get("comm_id", "")))
            _publish("comm_close", {"comm_id": comm_id}, None, None, None)
        return None
    metadata, buffers = (loads(more[0]), more[1]) if more is not None else ({}, [])
    # The manager's own.
    metadata.pop("warmcell", None)
    message = {
        "header": loads(header),
        "parent_header": {},
        "metadata": metadata,
        "content": content,
        "buffers": buffers,
    }
    _value, failure = yield from call(getattr(manager, msg_type), None, None, message)
    return failure


def info(content: dict[str, Any]) -> dict[str, Any]:
    """The comms that are open, of one target or of all."""
    comms: dict[str, Any] = {}
    target = content.get("target_name")
    held = getattr(_manager, "comms", None)
    for comm_id, comm in list(held.items())[:1_000] if type(held) is dict else ():
        name = getattr(comm, "target_name", "")
        if target in (None, "", name):
            comms[str(comm_id)] = {"target_name": str(name)}
    return {"status": "ok", "comms": comms}
