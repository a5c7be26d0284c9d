"""`jupyter console --existing FILE` through a terminal: a cell, input, a failure, and both ends.

It does not interrupt kernels that it has not started. The console goes, the kernel stays.
Prints OK at the end; whatever is wrong is an exception.
"""

import os
import sys

import pexpect

SOON = 30

connection_file = sys.argv[1]


def attached():
    return pexpect.spawn(
        sys.executable,
        ["-m", "jupyter_console", "--existing", connection_file, "--simple-prompt"],
        env=dict(os.environ, TERM="dumb", JUPYTER_CONSOLE_TEST="1"),
        encoding="utf-8",
        timeout=SOON,
    )


console = attached()
console.expect(r"In \[\d*\]:")
console.sendline("x = 6 * 7; print(f'<{x}>')")
console.expect("<42>")
console.expect(r"In \[\d*\]:")
console.sendline("input('who? ') + '!'")
console.expect(r"who\? ")
console.sendline("me")
console.expect("me!")
console.expect(r"In \[\d*\]:")
console.sendline("undefined")
console.expect("NameError: name 'undefined' is not defined")
console.expect(r"In \[\d*\]:")
console.sendeof()
if console.expect([pexpect.EOF, "really want to exit"]) == 1:
    console.sendline("y")
    console.expect(pexpect.EOF)

# The other way out.
console = attached()
console.expect(r"In \[\d*\]:")
console.sendline("exit()")
console.expect("keeping kernel alive")
console.expect(pexpect.EOF)
print("OK")
