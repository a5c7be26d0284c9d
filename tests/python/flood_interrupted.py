"""A flood of prints that an exception breaks off at any point of its bookkeeping.

Run in a cell, where ``_warmcell`` is there. Raises at the first event of a profiler in the streams' own
code from the start of a flood to its end, then at the second, and so on. Each time what is printed
next must come out of the pipe by itself, as from any print. Prints the number of points.
"""

import io
import os
import select
import sys
import time

streams = sys.modules["_warmcell.streams"]
OURS = {streams.__file__, sys.modules["_warmcell.alarm"].__file__}
SOON = 20


class Broken(BaseException):
    pass


def written(read, end):
    """What comes out of the pipe until it ends so."""
    got = b""
    while not got.endswith(end):
        if not select.select([read], [], [], SOON)[0]:
            return got, False
        got += os.read(read, 1 << 16)
    return got, True


def broken_off_at(point):
    """Whether there was such a point; fails if what is printed after it does not come."""
    read, write = os.pipe()
    writer = streams.PipeWriter(write)
    text = io.TextIOWrapper(writer, "utf-8", newline="\n", write_through=True)
    writer.attach_text(text)
    streams._writers.append(writer)
    seen = 0
    where = None

    def hook(frame, event, arg):
        nonlocal seen, where
        # Between taking a lock and the block that gives it back Python raises no interrupt.
        if frame.f_code.co_filename not in OURS or "lock" in repr(arg).lower():
            return
        seen += 1
        if seen == point:
            sys.setprofile(None)
            where = frame.f_code.co_name, frame.f_lineno, event, arg
            raise Broken

    while writer._count < streams.FLOOD_WRITES - 1:
        text.write("x\n")
    try:
        sys.setprofile(hook)
        text.write("y\n")
        # Long enough for a calm to be seen, within which an exception may be raised too.
        time.sleep(3 * streams.CALM_SECONDS)
    except Broken:
        pass
    finally:
        sys.setprofile(None)
    text.write("a\n")
    text.write("after\n")
    got, came = written(read, b"after\n")
    streams._writers.remove(writer)
    assert came, (point, where, writer._flood, writer._pending, got[-20:])
    os.close(read)
    os.close(write)
    return seen >= point


kept = streams.CALM_SECONDS, streams.FLOOD_WRITES
streams.CALM_SECONDS, streams.FLOOD_WRITES = 0.004, 50
try:
    points = 1
    while broken_off_at(points):
        points += 1
finally:
    streams.CALM_SECONDS, streams.FLOOD_WRITES = kept
print(points - 1)
