"""A plugin of pytest for the suites of ipykernel and nbclient: what of them is asked of our kernel.

left_out.txt names the tests that are not asked, with the reason. They are run after all others, and
have to fail: one that passes, one that is not there and one without a reason are errors.
"""

import atexit
import contextlib
import os
import re
import sys
from pathlib import Path

import pytest

LEFT_OUT = Path(os.environ.get("WARMCELL_LEFT_OUT", Path(__file__).with_name("left_out.txt")))
# Seconds: some of them wait for what never comes.
PATIENCE = 5


def left_out(text):
    """The reasons by the names of the tests."""
    found, names, reason = {}, [], []

    def end():
        for name in names:
            if not reason:
                raise pytest.UsageError(f"{LEFT_OUT.name}: {name} has no reason")
            if name in found:
                raise pytest.UsageError(f"{LEFT_OUT.name}: {name} is there twice")
            found[name] = " ".join(reason)
        names.clear()
        reason.clear()

    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not names:
                raise pytest.UsageError(f"{LEFT_OUT.name}: a reason for nothing: {line.strip()}")
            reason.append(line.strip())
        else:
            if reason:
                end()
            names.append(line)
    end()
    return found


# Before those are taken out that the command line does not want.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    reasons = left_out(LEFT_OUT.read_text(encoding="utf-8"))
    files = {item.nodeid.partition("::")[0] for item in items}
    names = {item.nodeid for item in items}
    for name in reasons:
        if name.partition("::")[0] in files and name not in names:
            raise pytest.UsageError(f"{LEFT_OUT.name}: there is no {name}")
    for item in items:
        if item.nodeid in reasons:
            reason = reasons[item.nodeid]
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True), append=False)
    items.sort(key=lambda item: item.nodeid in reasons)
    adapt()


def pytest_runtest_setup(item):
    if item.get_closest_marker("xfail") is not None and hasattr(item.module, "TIMEOUT"):
        # They are the last ones.
        item.module.TIMEOUT = PATIENCE


def pytest_runtest_teardown(item):
    """One that has failed leaves messages behind: the next one gets another kernel."""
    utils = sys.modules.get("tests.utils")
    if item.get_closest_marker("xfail") is not None and getattr(utils, "KM", None) is not None:
        with contextlib.suppress(Exception):
            utils.KC.stop_channels()
        atexit.unregister(utils.stop_global_kernel)
        utils.KM.shutdown_kernel(now=True)
        utils.KM = utils.KC = None


# Where a test looks, on its way to something else, at what only ipykernel has, we look otherwise.


def adapt():
    kernel = sys.modules.get("tests.test_kernel")
    if kernel is not None:
        kernel._check_master = lambda *given, **named: check_stream(kernel, *given, **named)
    client = sys.modules.get("tests.test_client")
    if client is not None and "theirs" not in client.normalize_output.__dict__:
        theirs = client.normalize_output

        def normalize_output(output):
            return without_layout(theirs(output))

        normalize_output.theirs = theirs
        client.normalize_output = normalize_output


def check_stream(kernel, kc, expected=True, stream="stdout"):
    """In place of a private method of ipykernel's streams: the kernel's own still work."""
    assert expected is True
    kernel.execute(kc=kc, code="import sys")
    kernel.flush_channels(kc)
    kernel.execute(kc=kc, code=f"print('here', file=sys.{stream})")
    stdout, stderr = kernel.assemble_output(kc.get_iopub_msg)
    assert (stdout, stderr) == (("here\n", "") if stream == "stdout" else ("", "here\n"))


def without_layout(output):
    """A traceback as its places in cells, with their code, and its last line.

    The notebooks have them in IPython's layout, ours is Python's.
    """
    if "traceback" in output:
        text = "\n".join(output["traceback"])
        layout = (
            r"^-+> (\d+) (.*)$" if "----> " in text else r'File "<cell .*", line (\d+).*\n\s+(.*)$'
        )
        places = re.findall(layout, text, re.MULTILINE)
        assert places, text
        last = text.rstrip().rpartition("\n")[2].removesuffix(":")
        output["traceback"] = [*places, last]
    return output
