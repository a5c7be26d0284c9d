"""The clients of jupyter_client against our kernel, which Jupyter knows as python3.

Prints OK at the end; whatever is wrong is an exception.
"""

import asyncio
import sys
import time

from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import AsyncKernelManager, KernelManager

SOON = 30


def check(found, expected):
    assert found == expected, (found, expected)


def outputs(messages):
    texts = [m["content"]["text"] for m in messages if m["msg_type"] == "stream"]
    values = [m["content"]["data"] for m in messages if m["msg_type"] == "execute_result"]
    return "".join(texts), [value["text/plain"] for value in values]


def run(client, code, **more):
    messages = []
    reply = client.execute_interactive(code, output_hook=messages.append, timeout=SOON, **more)
    return reply["content"], messages


def started(client, text):
    while True:
        message = client.get_iopub_msg(timeout=SOON)
        if message["msg_type"] == "stream" and text in message["content"]["text"]:
            return


def blocking():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=SOON)
    info = client.kernel_info(reply=True, timeout=SOON)["content"]
    check(info["implementation"], "warmcell")
    check(info["language_info"]["name"], "python")

    content, messages = run(client, "x = 40\nprint('é')\nx + 2")
    check(content["status"], "ok")
    check(outputs(messages), ("é\n", ["42"]))
    for message in messages:
        check(message["parent_header"]["msg_type"], "execute_request")
    content, messages = run(client, "1/0")
    check((content["status"], content["ename"]), ("error", "ZeroDivisionError"))
    check(
        [m["msg_type"] for m in messages if m["msg_type"] != "status"], ["execute_input", "error"]
    )
    content, messages = run(client, "print('unseen'); y = 1", silent=True)
    check([m["msg_type"] for m in messages], ["status", "status"])

    content, messages = run(
        client,
        "name = input('who? ')\nprint(name)",
        allow_stdin=True,
        stdin_hook=lambda question: client.input(question["content"]["prompt"] + "me"),
    )
    check(outputs(messages), ("who? me\n", []))
    content, _ = run(client, "input()", allow_stdin=False)
    check(content["status"], "error")
    reply = client.complete("zi", reply=True, timeout=SOON)["content"]
    check(reply["matches"], ["zip"])

    # A second client, attached by the file alone.
    other = BlockingKernelClient(connection_file=manager.connection_file)
    other.load_connection_file()
    other.start_channels()
    other.wait_for_ready(timeout=SOON)
    content, messages = run(other, "x")
    check(outputs(messages), ("", ["40"]))
    assert other.is_alive()

    # An interrupt in a sleep keeps the state.
    message_id = client.execute("import time\nprint('on', flush=True)\ntime.sleep(60)")
    started(client, "on")
    began = time.monotonic()
    manager.interrupt_kernel()
    while True:
        reply = client.get_shell_msg(timeout=SOON)
        if reply["parent_header"]["msg_id"] == message_id:
            break
    check(reply["content"]["ename"], "KeyboardInterrupt")
    assert time.monotonic() - began < 5, time.monotonic() - began
    check(outputs(run(client, "x")[1])[1], ["40"])

    # After a restart the same connections reach a kernel without state.
    manager.restart_kernel()
    client.wait_for_ready(timeout=SOON)
    check(run(client, "x")[0]["ename"], "NameError")
    other.stop_channels()

    began = time.monotonic()
    manager.shutdown_kernel()
    assert time.monotonic() - began < 5, "it was killed"
    assert not manager.is_alive()
    client.stop_channels()


async def asynchronous():
    manager = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel()
    clients = []
    for _ in range(3):
        client = AsyncKernelClient(connection_file=manager.connection_file)
        client.load_connection_file()
        client.start_channels()
        await client.wait_for_ready(timeout=SOON)
        clients.append(client)

    async def add(client, number):
        code = f"total = globals().get('total', 0) + {number}\ntotal"
        for _ in range(5):
            reply = await client.execute_interactive(code, output_hook=bool, timeout=SOON)
            check(reply["content"]["status"], "ok")

    # Clients at once: cells run one after the other, each gets its own replies.
    await asyncio.gather(*(add(client, 10**at) for at, client in enumerate(clients)))
    messages = []
    await clients[0].execute_interactive("total", output_hook=messages.append, timeout=SOON)
    check(outputs(messages)[1], ["555"])

    message_id = clients[1].execute("while True: pass")
    while True:
        message = await clients[1].get_iopub_msg(timeout=SOON)
        if (
            message["msg_type"] == "execute_input"
            and message["parent_header"].get("msg_id") == message_id
        ):
            break
    await manager.interrupt_kernel()
    reply = await clients[1].get_shell_msg(timeout=SOON)
    check(reply["content"]["ename"], "KeyboardInterrupt")

    await manager.restart_kernel()
    await clients[2].wait_for_ready(timeout=SOON)
    await manager.shutdown_kernel()
    assert not await manager.is_alive()
    for client in clients:
        client.stop_channels()


blocking()
asyncio.run(asynchronous())
print("OK")
sys.exit(0)
