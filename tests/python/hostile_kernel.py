"""A kernel of Jupyter's out of raw sockets, which does what no kernel may.

Its first argument says what: nothing (``honest``), or what it does in each cell. The code of a cell
is printed; that is all the language it has, but what front ends ask it answers.
"""

import hashlib
import hmac
import json
import os
import queue
import signal
import socket
import sys
import threading
import time

MODE, CONNECTION = sys.argv[1], json.load(open(sys.argv[2]))
KEY = CONNECTION["key"].encode()
TYPES = {"shell": b"ROUTER", "control": b"ROUTER", "stdin": b"ROUTER", "iopub": b"PUB", "hb": b"REP"}
IS_TCP = CONNECTION["transport"] == "tcp"
published: list = []
connections: dict = {}
greeted = threading.Event()
interrupted = threading.Event()
inputs: queue.Queue = queue.Queue()
INFO = {
    "implementation": "echo",
    "implementation_version": "0.7",
    "banner": "Echo, echo",
    "language_info": {"name": "echo", "version": "7", "mimetype": "text/x-echo", "odd": [1]},
}
REPLIES = {
    "kernel_info_request": lambda content: INFO,
    "complete_request": lambda content: {
        "matches": [content["code"] + "!"],
        "cursor_start": 0,
        "cursor_end": content["cursor_pos"],
        "metadata": {},
    },
    "inspect_request": lambda content: {
        "found": True,
        "data": {"text/plain": "about " + content["code"]},
        "metadata": {},
    },
    "is_complete_request": lambda content: {"status": "incomplete", "indent": "..."},
    "history_request": lambda content: {"history": [[0, 1, "before"]]},
    "comm_info_request": lambda content: {"comms": {"c1": {"target_name": "t"}}},
}


ODD_REPLIES = {
    "broken-list": [],
    "broken-status": {"status": "maybe", "execution_count": 1},
    "no-reply": None,
    "other-parent": {"status": "ok", "execution_count": 1},
}


def frame(body, more):
    flags = 1 if more else 0
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body


def signed(parts, key=KEY):
    return hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode()


def message(kind, parent, content, key=KEY, topic=b"", metadata=None, buffers=()):
    header = {"msg_id": os.urandom(8).hex(), "msg_type": kind, "session": "h", "username": "h"}
    header.update(date="2026-01-01T00:00:00Z", version="5.3")
    parts = [json.dumps(it).encode() for it in (header, parent, metadata or {}, content)]
    frames = [b"<IDS|MSG>", signed(parts, key), *parts, *buffers]
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
        connections[name] = connection
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


def status(header, state):
    if state == "idle" and MODE == "never-idle":
        return
    publish(message("status", header, {"execution_state": state}))


def answer(connection, parts):
    header, content = json.loads(parts[0]), json.loads(parts[3])
    kind = header["msg_type"]
    if MODE == "mute":
        return
    if MODE == "closes-early":
        return connection.shutdown(socket.SHUT_RDWR)
    if kind == "input_reply":
        return inputs.put(content["value"])
    if kind == "shutdown_request":
        os._exit(0)
    greeted.wait()
    if kind.startswith("comm_") and kind != "comm_info_request":
        return comm(kind, header, json.loads(parts[2]), content, parts[4:])
    status(header, "busy")
    if MODE == "unanswered" and kind == "history_request":
        return status(header, "idle")
    if MODE == "keeps-names" and content.get("code") == "pass":
        return None
    reply = {"status": "ok", "execution_count": 1}
    if kind == "execute_request":
        if MODE == "wrong-parent":
            wrong_parents(connection, kind)
        text = misbehave(connection, header, content) or content["code"]
        stream = {"name": "stdout", "text": text}
        publish(message("stream", header, stream, topic=b"stream.stdout"))
        if MODE == "interrupted":
            reply = {"status": "error", "ename": "Interrupt", "evalue": "", "traceback": []}
    else:
        reply.update(REPLIES.get(kind, lambda content: {})(content))
    if MODE == "long-replies" and kind != "kernel_info_request":
        reply["history"] = [[0, 1, "x" * (5 << 20)]]
        reply["user_expressions"] = {"a": {"status": "ok", "data": {"text/plain": "x" * (5 << 20)}}}
    if kind == "execute_request" and MODE in ODD_REPLIES:
        return reply_oddly(connection, header)
    connection.sendall(message(kind.replace("_request", "_reply"), header, reply))
    status(header, "idle")


def reply_oddly(connection, header):
    """A reply to a cell that is none, or is nobody's, or does not come."""
    parent = {} if MODE == "other-parent" else header
    reply = ODD_REPLIES[MODE]
    if reply is not None:
        connection.sendall(message("execute_reply", parent, reply))
    status(parent, "idle")


def comm(kind, header, metadata, content, buffers):
    """Sends back what comes, with all that comes with it."""
    status(header, "busy")
    if kind != "comm_close":
        data = {"comm_id": content["comm_id"], "data": {"back": content["data"]}}
        publish(message("stream", header, {"name": "stdout", "text": kind}))
        publish(message("comm_msg", header, data, metadata=metadata, buffers=buffers))
    status(header, "idle")


def wrong_parents(connection, kind):
    """The end of a cell, with parents that are another's or nobody's."""
    for parent in ({}, {"msg_id": "another", "msg_type": kind}, [], {"msg_id": 7}):
        reply = {"status": "error", "ename": "WRONG", "evalue": "", "traceback": []}
        connection.sendall(message("execute_reply", parent, reply))
        publish(message("execute_result", parent, {"data": {"text/plain": "WRONG"}}))
        publish(message("status", parent, {"execution_state": "idle"}))


def misbehave(connection, header, content):
    """What it does before it prints; what it prints, if that is not the code."""
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
        asked = message("input_request", header, {"prompt": "who? ", "password": True})
        connections["stdin"].sendall(asked)
        return f"<{inputs.get()!r}>"
    elif MODE == "tells":
        told = {"env": os.environ.get("FOREIGN"), "argv": sys.argv[3:], "cwd": os.getcwd()}
        told.update(python=sys.executable, transport=CONNECTION["transport"])
        return json.dumps(told)
    elif MODE == "long":
        # The code says how long; then something that fits.
        text = {"name": "stdout", "text": "x" * (int(content["code"]) << 20)}
        publish(message("stream", header, text))
    elif MODE in ("flood", "flood-ends"):
        # The code says how many messages of a mebibyte, and which file says that they are out.
        count, file = content["code"].split(" ", 1)
        text = {"name": "stdout", "text": "x" * (1 << 20)}
        for _ in range(int(count)):
            publish(message("stream", header, text))
        with open(file, "w") as there:
            there.write("out\n")
        if MODE == "flood-ends":
            os._exit(72)
    elif MODE == "interrupted":
        # In the middle of a message.
        whole = message("stream", header, {"name": "stdout", "text": "x" * (2 << 20)})
        half = len(whole) // 2
        publish(message("stream", header, {"name": "stdout", "text": "begun\n"}))
        publish(whole[:half])
        interrupted.wait()
        publish(whole[half:])
    elif MODE == "forks":
        if os.fork():
            os._exit(5)
        time.sleep(3600)
    elif MODE.startswith("closes-"):
        # So that also the other side of a fork or a thread has let go of it.
        connections[MODE.split("-")[1]].shutdown(socket.SHUT_RDWR)
        if MODE != "closes-control":
            time.sleep(3600)
    elif MODE == "comms":
        for kind in ("comm_open", "comm_msg", "comm_close"):
            data = {"comm_id": "k1", "target_name": "t", "data": {"kind": kind}}
            about = {"version": "2.1.0"}
            publish(message(kind, header, data, metadata=about, buffers=[b"\xff\x00", b""]))
        long = {"comm_id": "x" * (5 << 20)}
        publish(message("comm_msg", header, long))
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


def bind(name):
    ip, port = CONNECTION["ip"], CONNECTION[name + "_port"]
    if IS_TCP:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((ip, port))
    else:
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"{ip}{':' if MODE == 'colons' else '-'}{port}")
    return server


def listen(name, server):
    server.listen()
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection, name), daemon=True).start()


if MODE == "exits":
    print("the beginning of its end", file=sys.stderr)
    print("no such luck", file=sys.stderr)
    sys.exit(7)
if MODE == "exits-with-a-token":
    sys.exit("the token is ghp_" + "0123456789abcdef" * 2)
if MODE == "prints":
    while True:
        os.write(1, b"x" * 65_536)
        os.write(2, b"and on\n")
if MODE == "tcp-or-exits" and not IS_TCP:
    sys.exit("knows no such transport")
if MODE == "tcp-or-waits" and not IS_TCP:
    os.system("sleep 4325 &")
    time.sleep(3600)
signal.signal(signal.SIGINT, lambda *_: interrupted.set())
servers = {name: bind(name) for name in TYPES}
if MODE == "listens-late":
    time.sleep(0.2)
for item in servers.items():
    threading.Thread(target=listen, args=item, daemon=True).start()
while True:
    time.sleep(3600)
