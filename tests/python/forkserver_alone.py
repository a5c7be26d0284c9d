"""A manager that goes while its forkserver still has an order of its to answer.

``forkserver_alone.py SOURCES FOLDER``: starts a forkserver as a manager does and has it fork a kernel.
Then the forkserver is stopped, asked something, and left: what it finds out first is that nobody
takes its answer. Prints OK if it ends with all that it has forked.
"""

import array
import json
import os
import signal
import socket
import subprocess
import sys

SOON = 30


def main():
    sources, folder = sys.argv[1:]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(SOON)
    boot = os.path.join(sources, "boot.py")
    forkserver = subprocess.Popen([sys.executable, boot, folder], stdin=theirs, cwd=sources)
    theirs.close()
    try:
        assert json.loads(ours.recv(65536))["op"] == "hello"
        link, its_link = socket.socketpair()
        page = os.open(os.path.join(folder, "page"), os.O_RDWR | os.O_CREAT)
        os.ftruncate(page, 4096)
        null = os.open("/dev/null", os.O_RDWR)
        order = {"op": "fork", "id": 1, "argv": [""], "cwd": "/", "umask": 18, "env": {}}
        order["rlimits"] = {"nofile": [1024, 4096]}
        fds = array.array("i", [its_link.fileno(), null, null, page])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
        ours.sendmsg([json.dumps(order).encode()], rights)
        forked = json.loads(ours.recv(65536))
        assert forked["op"] == "forked", forked
        its_link.close()
        os.kill(forkserver.pid, signal.SIGSTOP)
        ours.send(json.dumps({"op": "ping"}).encode())
        ours.close()
        os.kill(forkserver.pid, signal.SIGCONT)
        # The kernel's link is held here: it does not end by itself.
        forkserver.wait(SOON)
        # Closed by its end.
        link.settimeout(SOON)
        assert link.recv(1) == b""
        assert not os.path.exists("/proc/%d" % forked["pid"])
        print("OK")
    finally:
        forkserver.kill()
        forkserver.wait()


main()
