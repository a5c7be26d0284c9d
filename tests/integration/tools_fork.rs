//! Connections of forked children, and calls that are interrupted.

use serde_json::json;
use warmcell::session::Cell;

use crate::support::{Manager, pythons};
use crate::tools_kit::json_of_cell;

#[tokio::test]
async fn a_forked_child_has_a_connection_of_its_own() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import json, os, threading
terminal("true")  # The connection is there.
def sockets():
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if link.startswith("socket:"):
            found.add(link)
    return found
ours = sockets()
read, write = os.pipe()
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        inherited = sorted(sockets() & ours)
        outputs = [terminal(f"echo {child}.{n}")["output"] for n in range(5)]
        data = json.dumps([child, inherited, outputs]) + "\n"
        os.write(write, data.encode())
        os._exit(0)
    children.append(pid)
mine = [terminal(f"echo p.{n}")["output"] for n in range(5)]
codes = [os.waitpid(pid, 0)[1] for pid in children]
os.close(write)
theirs = sorted(map(json.loads, os.fdopen(read)))
print(json.dumps([mine, codes, theirs]))
"#;
        let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
        let outputs = |who: &str| (0..5).map(|n| format!("{who}.{n}\n")).collect::<Vec<_>>();
        assert_eq!(value[0], json!(outputs("p")), "{version}");
        assert_eq!(value[1], json!([0, 0, 0, 0]));
        for child in 0..4 {
            let expected = json!([child, [], outputs(&child.to_string())]);
            assert_eq!(value[2][child], expected, "{version}");
        }
        assert_eq!(outcome.tool_calls_made, 26);
    }
    manager.end().await;
}

/// An interrupt may come at any point of a call; the next one gets its own answer all the same, and
/// what the interrupted one has started is gone even if a child was forked meanwhile.
#[tokio::test]
async fn an_interrupted_call_leaves_the_next_one_right() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import json, os, random, signal
armed = False
def interrupt(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
chance = random.Random(3)
wrong, interrupted = [], 0
for n in range(150):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.0006))
        read_file("/proc/version")
        read_file("/proc/sys/kernel/ostype", offset=2)
        armed = False
    except KeyboardInterrupt:
        armed = False
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer = read_file("/proc/sys/kernel/ostype")
    if answer.get("content") != "Linux\n":
        wrong.append(answer)
print(json.dumps([wrong, interrupted > 20]))
"#;
        let cell = Cell::new(code).max_tool_calls(10_000);
        let (value, _) = json_of_cell(&session, cell).await;
        assert_eq!(value, json!([[], true]), "{version}");
    }
    manager.end().await;
}

#[tokio::test]
async fn an_interrupted_command_is_ended_though_a_child_lives() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os, signal, threading, time
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
terminal("true")
started = threading.Event()
def fork():
    # In the middle of the call of the main thread.
    while not os.path.exists("pid"):
        time.sleep(0.005)
    if os.fork() == 0:
        time.sleep(300)
        os._exit(0)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
thread = threading.Thread(target=fork)
thread.start()
try:
    terminal("echo $$ > pid.part; mv pid.part pid; sleep 300")
    seen = "not interrupted"
except KeyboardInterrupt:
    seen = "interrupted"
thread.join()
pid = open("pid").read().strip()
deadline = time.monotonic() + 20
while os.path.exists("/proc/" + pid) and time.monotonic() < deadline:
    time.sleep(0.005)
print(json.dumps([seen, os.path.exists("/proc/" + pid), terminal("echo next")["output"]]))
"#;
    let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(value, json!(["interrupted", false, "next\n"]));
    assert_eq!(outcome.tool_calls_made, 3);
    manager.end().await;
}

/// A signal handler that calls a tool in the middle of another call.
#[tokio::test]
async fn a_call_within_a_call_gets_its_own_answer() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, signal
seen = []
def handler(*_):
    seen.append(terminal("echo inner")["output"])
signal.signal(signal.SIGALRM, handler)
for _ in range(3):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    seen.append(terminal("sleep 0.2; echo outer")["output"])
print(json.dumps(seen))
"#;
    let (value, _) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(value, json!(["inner\n", "outer\n"].repeat(3)));
    manager.end().await;
}

/// Games with descriptors cost a connection, never somebody else's file.
#[tokio::test]
async fn a_connection_whose_descriptor_was_closed_is_made_anew() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, os, resource, socket
def mine():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if socket.socket(fileno=os.dup(fd)).getpeername() == os.environ["HERMES_RPC_SOCKET"]:
                return fd
        except OSError:
            pass
terminal("true")
number = mine()
read, write = os.pipe()
os.dup2(write, number)
seen = [terminal("echo a")["output"]]
os.set_blocking(read, False)
try:
    seen.append(os.read(read, 100).decode())
except BlockingIOError:
    seen.append("nothing was written to it")
os.write(number, b"still open")
seen.append(os.read(read, 100).decode())
os.close(mine())
seen.append(terminal("echo b")["output"])
os.closerange(3, 64)
seen.append(terminal("echo c")["output"])
print(json.dumps([number >= 64, seen]))
"#;
    let (value, _) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(
        value,
        json!([
            true,
            [
                "a\n",
                "nothing was written to it",
                "still open",
                "b\n",
                "c\n"
            ]
        ])
    );
    manager.end().await;
}
