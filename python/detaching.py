"""What every forked process does first: it leaves the forkserver, and enters what it was made for.

The first half needs no order, so a spare kernel has it behind itself when one comes.
"""

from __future__ import annotations

import _signal as signal
import resource
import time

from . import platform_calls
from .descriptors import move_high
from .own import BUILTINS as __builtins__  # noqa: F401
from .own import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# What a session's secrets are called: they never are in a forkserver's own environment.
OF_ONE_SESSION = "HERMES_RPC_"

# Limits that could not be set as they were ordered: name, and what is in force in their place.
not_given: list[list[Any]] = []


def leave(parent: int, inherited: Iterable[int]) -> None:
    """A session of its own, that ends with its parent; the descriptors named here are closed."""
    os.setsid()
    platform_calls.die_with_parent()
    if os.getppid() != parent:
        os._exit(70)
    platform_calls.adopt_orphans()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for fd in inherited:
        try:
            os.close(fd)
        except OSError:
            pass


def enter(order: dict[str, Any], keep: dict[int, int], fds: list[int]) -> list[int]:
    """Descriptors, environment, limits, working directory.

    ``keep`` maps 0, 1 and 2 to what they become; the other descriptors are moved up and returned.
    """
    moved = [move_high(fd) for fd in fds]
    null = os.open("/dev/null", os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(keep.get(target, null), target)
    for fd in {null, *keep.values()}:
        if fd > 2:
            os.close(fd)
    enter_environment(order["env"])
    os.umask(order["umask"])
    try:
        os.chdir(order["cwd"])
    except OSError as error:
        os.write(2, f"cannot enter the working directory: {error}\n".encode())
        os._exit(71)
    for name, (soft, hard) in order["rlimits"].items():
        _limit(name, soft, hard)
    nice = order.get("nice")
    if nice is not None:
        _be_nice(nice)
    return moved


def _limit(name: str, soft: int, hard: int) -> None:
    """Sets a limit, or what comes nearest to it: nobody but root raises a hard one."""
    number = getattr(resource, "RLIMIT_" + name.upper(), None)
    if number is None:
        return
    try:
        resource.setrlimit(number, (soft, hard))
        return
    except (OSError, ValueError):
        pass
    _soft, most = resource.getrlimit(number)
    hard = _least(hard, most)
    try:
        resource.setrlimit(number, (_least(soft, hard), hard))
    except (OSError, ValueError):
        pass
    not_given.append([name, *resource.getrlimit(number)])


def _least(one: int, other: int) -> int:
    if resource.RLIM_INFINITY in (one, other):
        return other if one == resource.RLIM_INFINITY else one
    return min(one, other)


def _be_nice(wanted: int) -> None:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
    except OSError:
        had = os.getpriority(os.PRIO_PROCESS, 0)
        not_given.append(["nice_value", had, had])


def enter_environment(wanted: dict[str, str]) -> None:
    """Only what differs: each change costs microseconds, more so in fresh copies of pages."""
    environment = os.environ
    zone = environment.get("TZ")
    if len(environment) != len(wanted) or environment.keys() != wanted.keys():
        for name in set(environment) - set(wanted):
            del environment[name]
    for name, value in wanted.items():
        if environment.get(name) != value:
            environment[name] = value
    if environment.get("TZ") != zone:
        time.tzset()
