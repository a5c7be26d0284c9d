"""The limit of a tool call: JSON ping-pong over a Unix socket; the times go to stdout."""

import json
import socket
import sys
from time import perf_counter

sock = socket.socket(fileno=0)
calls = int(sys.argv[1])


def receive():
    data = sock.recv(65536)
    if not data:
        sys.exit()
    size = int.from_bytes(data[:4], "little") + 4
    while len(data) < size:
        data += sock.recv(65536)
    return json.loads(data[4:])


while receive()["go"]:
    times = []
    for number in range(calls):
        began = perf_counter()
        request = {"id": number, "cell": 1, "tool": "echo", "args": {"value": number}, "cwd": "/"}
        data = json.dumps(request).encode()
        sock.sendall(len(data).to_bytes(4, "little") + data)
        result = receive()["result"]
        times.append(perf_counter() - began)
        assert result["value"] == number
    data = json.dumps({"times": times}).encode()
    sock.sendall(len(data).to_bytes(4, "little") + data)
