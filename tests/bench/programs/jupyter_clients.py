"""Our kernel and ipykernel behind the same client of jupyter_client, in turn.

``jupyter_clients.py WARMCELL ROUNDS CELLS`` prints one JSON object: ``start`` and ``cell``, each a
list of rounds, each a pair of lists of seconds, ours first. Both kernels run on the Python that
runs this.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import zmq
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file

SOON = 60


class Kernel:
    """A kernel that was started and has answered; ``took`` are the seconds until then."""

    def __init__(self, argv):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "kernel.json")
        write_connection_file(self.file)
        # A client asks for a connection again each 100 ms otherwise: that would be all one sees.
        context = zmq.Context()
        context.setsockopt(zmq.RECONNECT_IVL, 1)
        self.client = BlockingKernelClient(context=context)
        self.client.load_connection_file(self.file)
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [word.replace("{connection_file}", self.file) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.client.start_channels(hb=False)
        self.reply(self.client.kernel_info())
        self.took = time.perf_counter() - began

    def reply(self, asked):
        while True:
            message = self.client.get_shell_msg(timeout=SOON)
            if message["parent_header"].get("msg_id") == asked:
                assert message["content"]["status"] == "ok", message["content"]
                return

    def cell(self, code):
        """Seconds of a cell, from its request until its reply and its idle are there."""
        began = time.perf_counter()
        asked = self.client.execute(code)
        self.reply(asked)
        while True:
            message = self.client.get_iopub_msg(timeout=SOON)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["content"].get("execution_state") == "idle":
                return time.perf_counter() - began

    def end(self):
        self.client.shutdown()
        self.process.wait(SOON)
        self.client.stop_channels()
        self.folder.cleanup()


def turns(argvs, rounds, cells):
    start, cell = [], []
    for argv in argvs:
        # The first ones write caches.
        Kernel(argv).end()
    for _ in range(rounds):
        kernels = []
        try:
            kernels.extend(Kernel(argv) for argv in argvs)
            start.append([[kernel.took] for kernel in kernels])
            for kernel in kernels:
                kernel.cell("x = 1")
            both = [[], []]
            for _ in range(cells):
                for kernel, samples in zip(kernels, both):
                    samples.append(kernel.cell("x = 1"))
            cell.append(both)
        finally:
            for kernel in kernels:
                kernel.end()
    return {"start": start, "cell": cell}


def main():
    warmcell, rounds, cells = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ours = [warmcell, "kernel", "--python", sys.executable, "-f", "{connection_file}"]
    theirs = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    print(json.dumps(turns([ours, theirs], rounds, cells)))


if __name__ == "__main__":
    main()
