"""A kernel of Jupyter's out of raw sockets, which does what no kernel may.

Its first argument says what: nothing (``honest``), or what it does in each cell. The code of a cell
is printed; that is all the language it has.
"""

import hashlib
import hmac
import json
import os
import socket
import sys
import threading
import time

MODE, CONNECTION = sys.argv[1], json.load(open(sys.argv[2]))
KEY = CONNECTION["key"].encode()
TYPES = {"shell": b"ROUTER", "control": b"ROUTER", "stdin": b"ROUTER", "iopub": b"PUB", "hb": b"REP"}
published: list = []
greeted = threading.Event()


def frame(body, more):
    flags = 1 if more else 0
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body


def signed(parts, key=KEY):
    return hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode()


def message(kind, parent, content, key=KEY, topic=b""):
    header = {"msg_id": os.urandom(8).hex(), "msg_type": kind, "session": "h", "username": "h"}
    header.update(date="2026-01-01T00:00:00Z", version="5.3")
    parts = [json.dumps(it).encode() for it in (header, parent, {}, content)]
    frames = [b"<IDS|MSG>", signed(parts, key), *parts]
    if topic:
        frames.insert(0, topic)
    return b"".join(frame(it, place + 1 < len(frames)) for place, it in enumerate(frames))


def publish(data):
    for connection in published:
        connection.sendall(data)


def read(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def read_frame(connection):
    flags = read(connection, 1)[0]
    size = int.from_bytes(read(connection, 8 if flags & 2 else 1), "big")
    return flags, read(connection, size)


def greet(connection, name):
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
    connection.sendall(greeting)
    read(connection, 64)
    kind = TYPES[name]
    ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    connection.sendall(bytes([4, len(ready)]) + ready)
    read_frame(connection)


def serve(connection, name):
    try:
        greet(connection, name)
        if name == "iopub":
            read_frame(connection)
            published.append(connection)
            greeted.set()
        frames = []
        while True:
            flags, body = read_frame(connection)
            frames.append(body)
            if not flags & 1:
                at = frames.index(b"<IDS|MSG>")
                answer(connection, frames[at + 2 :])
                frames = []
    except (EOFError, OSError):
        pass


def answer(connection, parts):
    header, content = json.loads(parts[0]), json.loads(parts[3])
    kind = header["msg_type"]
    if MODE == "mute":
        return
    if kind == "shutdown_request":
        os._exit(0)
    greeted.wait()
    publish(message("status", header, {"execution_state": "busy"}))
    reply = {"status": "ok", "execution_count": 1}
    if kind == "kernel_info_request":
        reply["language_info"] = {"name": "echo"}
    elif kind == "execute_request":
        misbehave(connection, header)
        text = {"name": "stdout", "text": content["code"]}
        publish(message("stream", header, text, topic=b"stream.stdout"))
    connection.sendall(message(kind.replace("_request", "_reply"), header, reply))
    if MODE != "never-idle":
        publish(message("status", header, {"execution_state": "idle"}))


def misbehave(connection, header):
    forged = {"name": "stdout", "text": "FORGED"}
    if MODE == "frame":
        publish(b"\x02" + (1 << 46).to_bytes(8, "big"))
        time.sleep(3600)
    elif MODE == "garbage":
        connection.sendall(b"\xee" * 4096)
        time.sleep(3600)
    elif MODE == "forged":
        publish(message("stream", header, forged, key=b"another"))
        publish(message("stream", header, forged, key=KEY)[:-1] + b" ")
        replayed = message("stream", header, {"name": "stdout", "text": "once "})
        publish(replayed + replayed)
        publish(frame(b"<IDS|MSG>", False) + frame(b"", False))
        reply = {"status": "error", "ename": "FORGED", "evalue": "", "traceback": []}
        connection.sendall(message("execute_reply", header, reply, key=b"another"))
    elif MODE == "asks":
        publish(message("input_request", header, {"prompt": "?", "password": False}))
    elif MODE == "half":
        publish(message("stream", header, forged)[:50])
        os._exit(7)
    elif MODE == "closes":
        for one in [*published, connection]:
            one.close()
        time.sleep(3600)
    elif MODE == "odd":
        for content in ([], None, 7, {"name": [], "text": {}}, {"text": "\ud800"}):
            publish(message("stream", header, content))
        publish(message("execute_result", header, {"data": []}))
        publish(message("unheard_of", {"msg_id": 3}, {}))


def listen(name, port):
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{CONNECTION['ip']}-{port}")
    server.listen()
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection, name), daemon=True).start()


if MODE == "exits":
    sys.exit("no such luck")
if MODE == "prints":
    while True:
        os.write(1, b"x" * 65_536)
        os.write(2, b"and on\n")
for name in TYPES:
    threading.Thread(target=listen, args=(name, CONNECTION[name + "_port"]), daemon=True).start()
while True:
    time.sleep(3600)
