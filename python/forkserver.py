"""The forkserver: forks kernels and jobs, and is the one that ends what they leave behind.

One single-threaded process per interpreter. It talks to its manager over a SOCK_SEQPACKET socket
(descriptor 0 at start), one JSON object a message, descriptors attached. Its children's orphans
fall to it; every child that it has not forked itself is killed at once. When the manager is gone,
whatever the reason, the socket ends: then it kills everything, removes the manager's folders (of
sockets, and of kernels in strict mode) and exits. A manager that lives and does not need it any
more tells it to leave; then the folders stay.
"""

from __future__ import annotations

# Not the module above it, which imports enum and more: 2 ms before the first kernel.
import _signal as signal
import errno
import gc
import os
import resource
import select
import sys
from _socket import AF_UNIX, SOCK_SEQPACKET, socket
from time import monotonic

from . import job, kernel, orders, platform_calls, shadow, spare, streams
from .descriptors import high
from .detaching import OF_ONE_SESSION, enter_environment
from .ground import Reborn
from .link import dumps, loads
from .trackers import Trackers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, NoReturn

PROTOCOL = 1
# Imported while nothing else is to be done: what a cell is likely to need and takes long to load.
_LATER = ("threading", "linecache", "traceback", "json", "ast", "socket", "subprocess")
_CALM_MS = 50
# A kernel has its first result before.
_SPARE_CALM_MS = 5
_HELD = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}


# In a child: the forkserver that it was forked by.
_left: list[object] = []


class Child:
    """A kernel or a job that was forked here."""

    def __init__(self, kernel_pid: int) -> None:
        self.kernel_pid = kernel_pid
        self.acknowledged = False
        self.reported = False


class Forkserver:
    """The poll loop over the control socket and the SIGCHLD descriptor."""

    def __init__(self, control: socket, bare: set[str], folders: list[str]) -> None:
        self._control = control
        self._bare = bare
        self._folders = folders
        self._pid = os.getpid()
        self._children: dict[int, Child] = {}
        self._ending: set[int] = set()
        self._foreign: set[int] = set()
        self._trackers = Trackers()
        self._manager_gone = False
        self._kernel: Any = kernel.made(sys.modules["hermes_tools"])
        self._later = list(_LATER)
        self._calm = False
        self._spare: spare.Spare | None = None
        self._wants_spare = False
        # Kernels that were ordered.
        self._orders = 0
        self._modules = 0
        self._wake, self._woken = os.pipe()
        for fd in (self._wake, self._woken):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def serve(self) -> None:
        """Runs until the manager is gone and nothing is left."""
        self._send(
            {
                "op": "hello",
                "protocol": PROTOCOL,
                "pid": self._pid,
                "version": sys.version.split()[0],
                "executable": sys.executable,
                "prefix": sys.prefix,
                "supervises": platform_calls.available(),
            }
        )
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not (self._manager_gone and not self._all_children() - self._foreign):
            ready = dict(poll.poll(self._patience()))
            deadline = self._trackers.next_deadline()
            changed = self._wake in ready or (deadline is not None and deadline <= monotonic())
            if self._wake in ready:
                self._drain_wake()
            if ready.get(self._control.fileno()):
                changed |= self._receive()
                if self._manager_gone:
                    # Known by what could not be sent, perhaps: then its end is not read any more.
                    self._end_all()
                    changed = True
                    poll.unregister(self._control.fileno())
            self._calm = not ready
            if changed:
                self._look_at_children()
            elif not ready:
                if self._may_make_spare():
                    self._make_spare()
                    self._calm = False
                elif self._later and self._children:
                    self._preload(self._later.pop(0))
        self._remove_folders()

    def _patience(self) -> int | None:
        """How long to wait, in milliseconds: what is preloaded comes when nobody wants anything.

        Not right after a fork: the new kernel and its manager need the processors, and one that
        runs a single cell is gone before.
        """
        patience = None
        if self._may_make_spare():
            patience = _SPARE_CALM_MS
        elif self._later and self._children:
            patience = 0 if self._calm else _CALM_MS
        deadline = self._trackers.next_deadline()
        if deadline is not None:
            left = max(0, int((deadline - monotonic()) * 1000) + 1)
            patience = left if patience is None else min(patience, left)
        return patience

    def _preload(self, name: str) -> None:
        try:
            __import__(name)
        except Exception:  # noqa: BLE001 - a cell that needs it will be told
            pass
        if not self._later:
            settle()
            if self._spare is not None:
                # The next one has what was loaded.
                self._spare.close()
                self._spare = None
                self._wants_spare = True

    def _drain_wake(self) -> None:
        try:
            while os.read(self._wake, 4096):
                pass
        except BlockingIOError:
            pass

    # Messages.

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(dumps(message))
        except OSError:
            self._manager_gone = True

    def _receive(self) -> bool:
        """Takes one message; whether it may have changed what is to be done about children."""
        data, fds = orders.receive(self._control)
        if not data:
            self._end_all()
            return True
        try:
            return self._handle(loads(data), data, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _handle(self, message: dict[str, Any], data: bytes, fds: list[int]) -> bool:
        operation = message["op"]
        if operation in ("fork", "job", "exec"):
            # With many at once, a look at all of them after each would be the most of the work.
            if operation != "fork" or not self._use_spare(message["id"], data, fds):
                self._fork(orders.read(message, fds), fds)
            return False
        if operation == "ack":
            child = self._children.get(message["pid"])
            if child is not None:
                child.acknowledged = True
                return child.reported
        elif operation == "kill":
            pid = message["pid"]
            self._ending.add(pid)
            self._kill(pid)
        elif operation == "ping":
            self._send({"op": "pong"})
        elif operation == "leave":
            self._folders = []
            self._end_all()
        return True

    def _end_all(self) -> None:
        self._manager_gone = True
        # The spare is unknown from now on, and ended as such.
        self._spare = None
        self._wants_spare = False
        for pid in list(self._children):
            self._kill(pid)

    def _fork(self, message: dict[str, Any], fds: list[int]) -> None:
        is_job, is_program = message["op"] == "job", message["op"] == "exec"
        if is_job:
            owner = self._children.get(message["kernel"])
            if owner is None or owner.reported:
                # The order was on its way while the kernel ended: nothing would end the job.
                self._send({"op": "failed", "id": message["id"], "errno": errno.ESRCH})
                return
        if not is_job and not is_program:
            # Here, and not in fresh copies of pages; most kernels of a forkserver have the same.
            enter_environment(_of_all_sessions(message["env"], message.get("own", ())))
        held = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        try:
            inherited = self._inherited(fds)
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            self._send({"op": "failed", "id": message["id"], "errno": error.errno})
            return
        if pid == 0:
            if is_job:
                job.become(message, fds, inherited, self._pid)
            if is_program:
                # Rare, so that other kernels do not pay for it.
                from . import program

                program.become(message, fds, inherited, self._pid)
            kept = list(fds)
            fds.clear()
            self._become_kernel(lambda: (message, kept), inherited)
        self._children[pid] = Child(message.get("kernel", pid))
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        self._send({"op": "forked", "id": message["id"], "pid": pid})

    def _inherited(self, kept: list[int]) -> list[int]:
        """Before a fork: what a child closes; listed, since the limit can be 2^30."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            preloaded = {name.partition(".")[0] for name in set(sys.modules) - self._bare}
            shadow.preloaded(preloaded - {"_warmcell", "hermes_tools", "__main__"})
        listed = {int(name) for name in os.listdir("/proc/self/fd")}
        return sorted(listed - {0, 1, 2, *kept})

    def _become_kernel(
        self, ordered: Callable[[], tuple[dict[str, Any], list[int]]], inherited: list[int]
    ) -> NoReturn:
        """In the forked child: leaves all of this behind."""
        # Its number is closed with the others, and given to something else: an object that goes
        # later must not close it again.
        self._control.detach()
        # What the forkserver was is left where it is: to take it apart would copy its pages.
        made, self._kernel = self._kernel, None
        _left.append(self)
        child = Reborn(kernel.live(ordered, inherited, self._pid, made))
        if sys.flags.inspect:
            # Python would not end now, but ask at the keyboard what to do.
            os._exit(child.code or 0)
        raise child

    # A spare kernel.

    def _may_make_spare(self) -> bool:
        """Not for who needs a single kernel for a moment."""
        return self._wants_spare and (self._orders > 1 or not self._later)

    def _make_spare(self) -> None:
        self._wants_spare = False
        held = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        try:
            made = spare.Spare()
            inherited = self._inherited([made.fileno()])
            pid = os.fork()
        except OSError:
            # Kernels are forked when they are asked for, then.
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            return
        if pid == 0:
            end = made.end()
            self._become_kernel(lambda: spare.wait(end), inherited)
        made.forked(pid)
        self._spare = made
        signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def _use_spare(self, number: int, data: bytes, fds: list[int]) -> bool:
        """Makes the spare the kernel that is ordered; false if there is none."""
        used, self._spare = self._spare, None
        self._wants_spare = True
        self._orders += 1
        if used is None:
            return False
        self._children[used.pid] = Child(used.pid)
        if not used.give(data, fds):
            del self._children[used.pid]
            return False
        self._send({"op": "forked", "id": number, "pid": used.pid})
        return True

    # Children, known and unknown.

    def _kill(self, pid: int) -> None:
        """Ends a child of ours; not yet reaped, so the number is still its own."""
        if pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _look_at_children(self) -> None:
        for pid, child in list(self._children.items()):
            self._look_at(pid, child)
        if self._spare is not None and _has_ended(self._spare.pid):
            self._spare = None
        unknown = self._unknown()
        for pid in unknown | self._foreign:
            # The orphan of a kernel or job that has ended. Its own children come next.
            if self._may_end_by_itself(pid):
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                # It has become another user (sudo): nobody but that user can end it.
                self._foreign.add(pid)
            except ProcessLookupError:
                pass
            if _has_ended(pid):
                self._foreign.discard(pid)
                self._trackers.forget(pid)
        if self._ending and not (unknown and self._unknown()):
            # A kernel is gone when its jobs are.
            alive = {child.kernel_pid for child in self._children.values()}
            for pid in self._ending - alive - set(self._children):
                self._ending.discard(pid)
                self._send({"op": "clear", "pid": pid, "survivors": len(self._foreign)})

    def _may_end_by_itself(self, pid: int) -> bool:
        if self._trackers.is_new(pid):
            # The kernel whose tracker it is may have ended just now.
            for known, child in list(self._children.items()):
                self._look_at(known, child)
            self._trackers.admit(pid)
        return self._trackers.has_time(pid)

    def _unknown(self) -> set[int]:
        """Children that were not forked here and can be ended."""
        known = set(self._children)
        if self._spare is not None:
            known.add(self._spare.pid)
        return self._all_children() - known - self._foreign

    def _look_at(self, pid: int, child: Child) -> None:
        if child.reported and not child.acknowledged and not self._manager_gone:
            return
        try:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            del self._children[pid]
            return
        if ended is None:
            return
        if not child.reported:
            child.reported = True
            self._trackers.kernel_has_ended()
            kind = "code" if ended.si_code == os.CLD_EXITED else "signal"
            self._send({"op": "exit", "pid": pid, kind: ended.si_status})
            for other, job_child in self._children.items():
                if job_child.kernel_pid == pid and other != pid:
                    self._kill(other)
        if child.acknowledged or self._manager_gone:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
            del self._children[pid]

    def _all_children(self) -> set[int]:
        try:
            with open(f"/proc/self/task/{self._pid}/children", "rb") as file:
                return {int(pid) for pid in file.read().split()}
        except OSError:
            return set(self._children)

    def _remove_folders(self) -> None:
        # A manager that starts sweeps them too, and may have been first.
        for folder in self._folders[:1]:
            names = os.listdir(folder) if os.path.isdir(folder) else []
            removals = [(os.unlink, os.path.join(folder, name)) for name in names]
            for remove, path in [*removals, (os.rmdir, folder)]:
                try:
                    remove(path)
                except OSError:
                    pass
        # What kernels have had for themselves; few have.
        for folder in self._folders[1:]:
            if os.path.isdir(folder):
                __import__("shutil").rmtree(folder, ignore_errors=True)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def _of_all_sessions(environment: dict[str, str], own: Collection[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith(OF_ONE_SESSION) and name not in own
    }


def settle() -> None:
    """Puts what is loaded out of the collector's sight, so that kernels share its memory."""
    gc.collect()
    gc.freeze()


def main(bare: set[str], folders: list[str], path: list[str], theirs: dict[str, Any]) -> None:
    """Takes over the process that the manager has started.

    Kernels search the path, and have the modules that the start has loaded from the user's folders.
    """
    shadow.install(path, theirs)
    platform_calls.adopt_orphans()
    platform_calls.hide_memory(True)
    platform_calls.name_process(b"warmcell-forks")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    control = socket(AF_UNIX, SOCK_SEQPACKET, 0, high(0))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    # They write to descriptors 1 and 2, whatever these are: kernels find them made.
    streams.install()
    server = Forkserver(control, bare, folders)
    settle()
    server.serve()
    os._exit(0)
