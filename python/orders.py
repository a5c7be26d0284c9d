"""Messages with descriptors: how a manager orders kernels, and a forkserver hands orders on."""

from __future__ import annotations

from _socket import SCM_RIGHTS, SOL_SOCKET
from struct import calcsize, pack, unpack

from .link import loads
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

_MAX_BYTES = 65_536
_INT_BYTES = calcsize("i")


def receive(control: socket) -> tuple[bytes, list[int]]:
    """The next message and its descriptors; no bytes at the end."""
    try:
        data, ancillary, _flags, _address = control.recvmsg(_MAX_BYTES, 256)
    except OSError:
        return b"", []
    fds: list[int] = []
    for level, kind, payload in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            count = len(payload) // _INT_BYTES
            fds += unpack(f"{count}i", payload[: count * _INT_BYTES])
    return data, fds


def hand_on(control: socket, data: bytes, fds: list[int]) -> bool:
    """Sends a message on as it came; false if nobody is there."""
    rights = pack(f"{len(fds)}i", *fds)
    try:
        control.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, rights)] if fds else [])
    except OSError:
        return False
    return True


def read(message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """The whole order; takes the descriptor of the file away that holds a long one."""
    if message.get("elsewhere"):
        # What is too long for a message stands in a file.
        fd = fds.pop()
        os.lseek(fd, 0, os.SEEK_SET)
        with os.fdopen(fd, "rb") as file:
            message = loads(file.read())
    if isinstance(message["cwd"], list):
        message["cwd"] = bytes(message["cwd"])
    return message
