"""The kernel of ``hostile_kernel.py``, honest but odd in ways that real ones are.

Its first argument says how; see ``MODES``.
"""

import json
import os
import runpy
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODE = sys.argv[1]
leave, dumps = os._exit, json.dumps
PAGE = {"source": "page", "start": 0, "data": {"text/plain": "\x1b[31mhelp\x1b[0m of len"}}
NEXT = {"source": "set_next_input", "text": "unseen", "replace": False}
# What becomes of a reply to a cell.
MODES = {
    "pages": {"payload": [PAGE, NEXT, {"source": "page"}, 7]},
    "unnamed": {"status": "error", "ename": "", "evalue": "127", "traceback": []},
}


def end(code):
    if MODE == "ends-late":
        time.sleep(1.5)
    if MODE == "aborts":
        os.abort()
    leave(code)


def write(it, **more):
    if isinstance(it, dict) and it.get("status") == "ok" and "language_info" not in it:
        it = {**it, **MODES.get(MODE, {})}
    return dumps(it, **more)


os._exit, json.dumps = end, write
sys.argv[1] = "honest"
runpy.run_path(os.path.join(HERE, "hostile_kernel.py"), run_name="__main__")
