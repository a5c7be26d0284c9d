//! The code that a kernel is given. It needs Python's standard library and `sh`.

use super::files::Sign;

/// What stays, if state stays.
pub(super) const KEEP: &str = "check_state = 41";
/// Prints [`KEPT`] then.
pub(super) const LOOK: &str = "print(check_state + 1)";
/// See there.
pub(super) const KEPT: &str = "42\n";
/// A name that is gone, if state is gone; a module too.
pub(super) const LOOK_FOR_STATE: &str =
    "print([name in globals() for name in ('check_state', 'json')])";
/// What is printed then.
pub(super) const STATE_IS_GONE: &str = "[False, False]\n";

/// How many cells are run in a row.
pub(super) const ROUNDS: usize = 50;
/// The first of them.
pub(super) const FIRST: &str = "import json\ncheck_rounds = []";
/// One that fails in between.
pub(super) const FAIL: &str = "check_rounds.append(json.dumps([1]))\n1/0";
/// Each of them.
pub(super) const ROUND: &str = "check_rounds.append(json.loads('1'))";
/// The last.
pub(super) const COUNT: &str = "print(len(check_rounds), check_rounds[0])";

/// Prints in every way, to stdout in this order.
pub(super) const PRINT: &str = "\
import os, subprocess, sys
print('one')
os.write(1, b'two\\n')
subprocess.run(['sh', '-c', 'echo three'])
print('four')
print('five', file=sys.stderr)";
/// What is on stdout then.
pub(super) const PRINTED: &str = "one\ntwo\nthree\nfour\n";
/// And on stderr.
pub(super) const PRINTED_AS_ERROR: &str = "five\n";

/// Has a thread print after the cell's end.
pub(super) const PRINT_LATER: &str = "\
import threading
threading.Timer(0.2, lambda: print('late', flush=True)).start()";
/// What it prints.
pub(super) const LATE: &str = "late";

/// Ends the process that runs it.
pub(super) const DIE: &str = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)";

/// Gives the sign once the rest of the cell has run for a tenth of a second, by a process of its own: a
/// thread could not, while C code runs.
fn soon(sign: &Sign) -> String {
    let file = sign.literal();
    format!(
        "import subprocess, time\n\
         subprocess.Popen(['sh', '-c', 'sleep 0.1; : > \"$0\"', {file}])\n"
    )
}

/// Sleeps.
pub(super) fn sleep(sign: &Sign) -> String {
    soon(sign) + "time.sleep(60)"
}

/// Waits for something asynchronous; the loop itself gives the sign.
pub(super) fn wait(sign: &Sign) -> String {
    let file = sign.literal();
    format!(
        "import asyncio, pathlib\n\
         asyncio.get_running_loop().call_later(0.1, pathlib.Path({file}).touch)\n\
         await asyncio.sleep(60)"
    )
}

/// Computes in C for minutes, without a look for signals.
pub(super) fn compute(sign: &Sign) -> String {
    soon(sign) + "sum(range(10**10))"
}

/// Takes no notice of interrupts.
pub(super) fn deaf(sign: &Sign) -> String {
    soon(sign)
        + "while True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass"
}

/// A shell's words: it becomes a program that sleeps, and its number stands in the sign.
const SLEEPER: &str = "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 300";

/// Waits for a child.
pub(super) fn run_a_child(sign: &Sign) -> String {
    let (file, sleeper) = (sign.literal(), literal(SLEEPER));
    format!("import subprocess\nsubprocess.run(['sh', '-c', {sleeper}, {file}])")
}

/// Starts a child, one in a session of its own, and a daemon: one whose parent is gone, in another session.
pub(super) fn start_all([child, session, daemon]: [&Sign; 3]) -> String {
    let sleeper = literal(SLEEPER);
    let [child, session, daemon] = [child, session, daemon].map(Sign::literal);
    format!(
        "import subprocess\n\
         check_child = subprocess.Popen(['sh', '-c', {sleeper}, {child}])\n\
         check_session = subprocess.Popen(['sh', '-c', {sleeper}, {session}], start_new_session=True)\n\
         subprocess.Popen(['sh', '-c', 'sh -c \"$1\" \"$0\" &', {daemon}, {sleeper}], \
         start_new_session=True).wait()"
    )
}

/// A text as Python writes it.
fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
