"""Speaks to a door with the code of Jupyter Server: argv is the address and the token.

Prints OK at the end; anything else is a failure. Needs jupyter_server and websocket-client.
"""

import asyncio
import functools
import sys
import time

import websocket
from jupyter_client.session import Session
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager, GatewayKernelSpecManager
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

V1 = "v1.kernel.websocket.jupyter.org"
SAFETY = 30


def check(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def frames_of_jupyter_server(address, token, kernel_id):
    """A cell in the bytes that Jupyter Server itself writes and reads, with a plain client."""
    session = Session(key=b"")
    socket = websocket.create_connection(
        f"ws://{address}/api/kernels/{kernel_id}/channels?session_id={session.session}",
        subprotocols=[V1],
        header=[f"Authorization: token {token}"],
        timeout=SAFETY,
    )
    check(socket.getsubprotocol(), V1)
    request = session.msg(
        "execute_request",
        {"code": "print('é')\nname = 6 * 7\nname", "silent": False, "user_expressions": {}},
    )
    socket.send_binary(serialize_msg_to_ws_v1(request, "shell", session.pack))
    seen = []
    while not seen or seen[-1][1:] != ("status", {"execution_state": "idle"}):
        opcode, data = socket.recv_data()
        check(opcode, websocket.ABNF.OPCODE_BINARY)
        channel, parts = deserialize_msg_from_ws_v1(data)
        # As Jupyter's own reader takes it: signature, header, parent, metadata, content.
        message = session.deserialize([b"", *parts], content=True)
        check(parts[1], session.pack(request["header"]))
        check(message["parent_header"]["msg_id"], request["header"]["msg_id"])
        assert message["header"]["date"].tzinfo is not None, message["header"]
        seen.append((channel, message["msg_type"], message["content"]))
    text = "".join(content["text"] for _, kind, content in seen if kind == "stream")
    check(text, "é\n")
    check(
        [(channel, kind) for channel, kind, _ in seen if kind != "stream"],
        [
            ("iopub", "status"),
            ("iopub", "execute_input"),
            ("iopub", "execute_result"),
            ("shell", "execute_reply"),
            ("iopub", "status"),
        ],
    )
    result = next(content for _, kind, content in seen if kind == "execute_result")
    check(result["data"], {"text/plain": "42"})
    socket.close()


async def run(kernel, code):
    """The reply to a cell, and what was published of it."""
    msg_id = kernel.execute(code)
    published = []
    while not published or published[-1]["content"] != {"execution_state": "idle"}:
        message = await kernel.get_iopub_msg(timeout=SAFETY)
        if message["parent_header"].get("msg_id") == msg_id:
            published.append(message)
    reply = await kernel.get_shell_msg(timeout=SAFETY)
    check(reply["parent_header"]["msg_id"], msg_id)
    return reply["content"], published


async def use(manager, kernel):
    """Cells, an interrupt and a restart, as a Jupyter Server has them."""
    await kernel.wait_for_ready(timeout=SAFETY)
    reply, published = await run(kernel, "print('a')\n1/0")
    check((reply["status"], reply["ename"]), ("error", "ZeroDivisionError"))
    text = "".join(it["content"]["text"] for it in published if it["msg_type"] == "stream")
    check(text, "a\n")
    check(published[-2]["msg_type"], "error")

    running = asyncio.ensure_future(run(kernel, "import time\nwhile True: time.sleep(0.01)"))
    deadline = time.monotonic() + SAFETY
    while (await manager.refresh_model())["execution_state"] != "busy":
        assert time.monotonic() < deadline, "the cell does not run"
    await manager.interrupt_kernel()
    reply, published = await running
    check(reply["ename"], "KeyboardInterrupt")
    await run(kernel, "x = 1")
    await manager.restart_kernel()
    reply, published = await run(kernel, "'x' in globals()")
    check((reply["status"], reply["execution_count"]), ("ok", 1))
    results = [it["content"]["data"] for it in published if it["msg_type"] == "execute_result"]
    check(results, [{"text/plain": "False"}])


async def gateway(address, token):
    """What a Jupyter Server does that has this door for a gateway: both of its ways."""
    client = GatewayClient.instance()
    client.url = f"http://{address}"
    client.auth_token = token
    client.init_connection_args()
    spec = await GatewayKernelSpecManager().get_kernel_spec("python3")
    check(spec["spec"]["language"], "python")

    manager = GatewayKernelManager()
    await manager.start_kernel(kernel_name="python3")
    assert await manager.is_alive()
    # Its client of kernels has no place for a token but the header of the library below it.
    connect = websocket.create_connection
    header = [f"Authorization: token {token}"]
    websocket.create_connection = functools.partial(connect, header=header)
    kernel = manager.client()
    await kernel.start_channels()
    try:
        await use(manager, kernel)
    finally:
        kernel.stop_channels()
    kernel_id = manager.kernel_id
    frames_of_jupyter_server(address, token, kernel_id)
    await manager.shutdown_kernel()


address, token = sys.argv[1:]
asyncio.run(gateway(address, token))
print("OK")
