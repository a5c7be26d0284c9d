//! The tool socket against whoever connects to it.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use warmcell::session::{Cell, Session};

use crate::support::{Manager, Place, finish, run, text};
use crate::tools_kit::{assert_fails, json_of, json_of_cell};

/// A client by hand, for cells.
const RAW: &str = r#"
import json, os, socket, struct, threading, time
class Raw:
    def __init__(self, hello=True):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(os.environ["HERMES_RPC_SOCKET"])
        if hello:
            self.send({"hello": 1, "token": os.environ["HERMES_RPC_TOKEN"]})
    def bytes(self, data):
        self.sock.sendall(len(data).to_bytes(4, "little") + data)
    def send(self, value):
        self.bytes(json.dumps(value).encode())
    def call(self, id, tool="read_file", **args):
        self.send({"id": id, "cell": int(os.environ["HERMES_RPC_CELL"]), "tool": tool, "args": args, "cwd": os.getcwd()})
    def reply(self):
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            part = self.sock.recv(1 << 16)
            if not part:
                return None
            data += part
        return json.loads(data[4:])
KNOWN = "/proc/sys/kernel/ostype"
"#;

async fn with_raw(manager: &Manager) -> Session {
    let session = manager.session("a");
    run(&session, RAW).await;
    session
}

#[tokio::test]
async fn a_process_that_does_not_descend_from_the_kernel_is_refused() {
    let manager = Manager::start().await;
    let session = with_raw(&manager).await;
    let other = manager.session("b");
    let code = "import json, os; print(json.dumps([os.environ['HERMES_RPC_SOCKET'], os.environ['HERMES_RPC_TOKEN']]))";
    let value = json_of(&session, code).await;
    let (path, token) = (value[0].as_str().unwrap(), value[1].as_str().unwrap());
    // This process is the same user and knows the token.
    let mut stream = UnixStream::connect(path).await.unwrap();
    let hello = format!(r#"{{"hello":1,"token":"{token}"}}"#);
    let length = u32::try_from(hello.len()).unwrap().to_le_bytes();
    stream
        .write_all(&[&length[..], hello.as_bytes()].concat())
        .await
        .unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    let reply: Value = serde_json::from_slice(&reply[4..]).unwrap();
    assert_fails(
        &reply["result"],
        "refused",
        "does not belong to this session's kernel",
    );
    // Nor may the kernel of another session, nor a command that a tool has started.
    let code = format!(
        "import os, subprocess, sys\n\
         os.environ['HERMES_RPC_SOCKET'], os.environ['HERMES_RPC_TOKEN'] = {path:?}, {token:?}\n\
         program = 'import json, hermes_tools; print(json.dumps(hermes_tools.read_file(\"/proc/version\")))'\n\
         subprocess.run([sys.executable, '-c', program]).returncode"
    );
    let outcome = run(&other, &code).await;
    let result = serde_json::from_str(outcome.output.lines().next().unwrap()).unwrap();
    assert_fails(
        &result,
        "refused",
        "does not belong to this session's kernel",
    );
    let code = r#"
import shlex, sys
program = "import json, hermes_tools; print(json.dumps(hermes_tools.read_file('/proc/version')))"
variables = " ".join(f"{name}={shlex.quote(os.environ[name])}" for name in os.environ if name.startswith("HERMES_RPC") or name == "PYTHONPATH")
print(terminal(f"{variables} {sys.executable} -c {shlex.quote(program)}")["output"])
"#;
    let result = json_of(&session, code).await;
    assert_fails(
        &result,
        "refused",
        "does not belong to this session's kernel",
    );
    manager.end().await;
}

#[tokio::test]
async fn garbage_disturbs_nobody() {
    let manager = Manager::start().await;
    let session = with_raw(&manager).await;
    let other = manager.session("b");
    // Meanwhile another connection and another session go on.
    let code = r#"
good, wrong, stop, count = Raw(), [], threading.Event(), 0
def steady():
    global count
    while not stop.is_set():
        good.call(count, path=KNOWN)
        reply = good.reply()
        if reply is None or reply["id"] != count or reply["result"].get("content") != "Linux\n":
            wrong.append(reply)
            return
        count += 1
thread = threading.Thread(target=steady)
thread.start()
answers = []
for data in (b"", b"nonsense", b"\xff\x00", b"[]", b"{}", b"1", b'{"id":-1,"tool":"x"}', b'{"id":1.5}', b'{"tool":"terminal"}',
             b'{"id":5,"cell":"x","tool":"terminal"}', b'{"id":6,"cell":1,"tool":["terminal"]}', b'{"id":7,"id":8,"tool":"x"}',
             b"[" * 10_000, b'{"a":' * 10_000, b" " * 100_000, b'{"id":9,"tool":"' + b"x" * 100_000 + b'"}'):
    raw = Raw()
    raw.bytes(data)
    answers.append(raw.reply()["result"]["error_class"])
    raw.call(1, path=KNOWN)
    answers.append(raw.reply()["result"]["content"])
closed = []
for data in (b"", b"\x01", b"\x05\0\0\0abc", struct.pack("<I", 65 << 20), struct.pack("<I", 0xFFFFFFFF) + b"x" * 1000):
    for hello in (True, False):
        raw = Raw(hello)
        raw.sock.sendall(data)
        raw.sock.shutdown(socket.SHUT_WR)
        closed.append(raw.reply())
for hello in ({"hello": 1, "token": "x"}, {"hello": "1"}, [], None, {"id": 1, "cell": 1, "tool": "terminal", "args": {"command": "touch made"}}):
    raw = Raw(False)
    raw.send(hello)
    closed.append([raw.reply()["result"]["error_class"], raw.reply()])
# One who never says who it is, one who stops in mid-frame, one who writes a byte at a time.
silent, stopped, slow = Raw(False), Raw(), Raw()
stopped.sock.sendall(b"\xff\0\0\0half of it")
data = json.dumps({"id": 3, "cell": int(os.environ["HERMES_RPC_CELL"]), "tool": "read_file", "args": {"path": KNOWN}, "cwd": "/"}).encode()
for byte in len(data).to_bytes(4, "little") + data:
    slow.sock.sendall(bytes([byte]))
closed.append(slow.reply()["result"]["content"])
stop.set()
thread.join()
print(json.dumps([answers, closed, wrong, count > 0, os.path.exists("made")]))
"#;
    let garbage = Cell::new(code).max_tool_calls(1_000_000);
    let steady = async {
        for _ in 0..20 {
            let result =
                json_of(&other, "import json; print(json.dumps(terminal('echo x')))").await;
            assert_eq!(result["output"], "x\n");
        }
    };
    let ((value, _), ()) = tokio::join!(json_of_cell(&session, garbage), steady);
    let answers = value[0].as_array().unwrap();
    for (at, answer) in answers.iter().enumerate() {
        let last = at == answers.len() - 2;
        let expected = match at % 2 {
            1 => "Linux\n",
            _ if last => "refused",
            _ => "usage",
        };
        assert_eq!(answer, expected, "{at}");
    }
    let closed = value[1].as_array().unwrap();
    assert!(closed[..10].iter().all(Value::is_null), "{closed:?}");
    assert!(
        closed[10..15]
            .iter()
            .all(|it| *it == json!(["refused", null])),
        "{closed:?}"
    );
    assert_eq!(closed[15], "Linux\n");
    assert_eq!(value[2], json!([]));
    assert_eq!(value[3], true);
    assert_eq!(value[4], false);
    manager.end().await;
}

#[tokio::test]
async fn seventy_connections_at_once_are_all_served() {
    let manager = Manager::start().await;
    let session = with_raw(&manager).await;
    let code = r#"
connections = [Raw() for _ in range(70)]
for id, raw in enumerate(connections):
    raw.call(id, "terminal", command=": > begun.$PPID.$$; until [ -e go ]; do sleep 0.05; done; echo " + str(id))
while len([name for name in os.listdir() if name.startswith("begun")]) < 64:
    time.sleep(0.01)
time.sleep(0.1)
begun = len([name for name in os.listdir() if name.startswith("begun")])
open("go", "w").close()
replies = [raw.reply() for raw in connections]
print(json.dumps([begun, [[one["id"], one["result"]["output"]] for one in replies]]))
"#;
    let (value, outcome) = json_of_cell(&session, Cell::new(code).max_tool_calls(100)).await;
    assert_eq!(value[0], 64);
    let expected: Vec<Value> = (0..70).map(|id| json!([id, format!("{id}\n")])).collect();
    assert_eq!(value[1], json!(expected));
    assert_eq!(outcome.tool_calls_made, 70);
    manager.end().await;
}

#[tokio::test]
async fn requests_that_come_at_once_are_answered_in_turn() {
    let manager = Manager::start().await;
    let session = with_raw(&manager).await;
    let code = r#"
raw = Raw(False)
frames = [{"hello": 1, "token": os.environ["HERMES_RPC_TOKEN"]}]
cell = int(os.environ["HERMES_RPC_CELL"])
frames += [{"id": n, "cell": cell, "tool": "terminal", "args": {"command": f"echo {n}"}, "cwd": "/"} for n in range(10)]
data = b""
for frame in frames:
    body = json.dumps(frame).encode()
    data += len(body).to_bytes(4, "little") + body
raw.sock.sendall(data)
answers, data = [], b""
while len(answers) < 10:
    data += raw.sock.recv(65536)
    while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "little"):
        size = int.from_bytes(data[:4], "little")
        reply = json.loads(data[4:4 + size])
        answers.append([reply["id"], reply["result"]["output"]])
        data = data[4 + size:]
print(json.dumps(answers))
"#;
    let value = json_of(&session, code).await;
    let expected: Vec<Value> = (0..10).map(|n| json!([n, format!("{n}\n")])).collect();
    assert_eq!(value, json!(expected));
    manager.end().await;
}

#[tokio::test]
async fn a_connection_that_is_closed_in_mid_call_ends_the_command() {
    let manager = Manager::start().await;
    let session = with_raw(&manager).await;
    for pipelined in ["", "raw.call(2, path=KNOWN)"] {
        let code = format!(
            r#"
raw = Raw()
raw.call(1, "terminal", command="echo $$ > pid.part; mv pid.part pid; sleep 300")
{pipelined}
while not os.path.exists("pid"):
    time.sleep(0.005)
pid = open("pid").read().strip(); os.remove("pid")
raw.sock.close()
deadline = time.monotonic() + 10
while os.path.exists("/proc/" + pid) and time.monotonic() < deadline:
    time.sleep(0.005)
print(json.dumps(os.path.exists("/proc/" + pid)))
"#
        );
        let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
        assert_eq!(value, false);
        assert_eq!(outcome.tool_calls_made, 1);
        assert!(!outcome.tool_calls[0].ok);
    }
    manager.end().await;
}

/// By the command line, since the memory of this process is that of all tests.
#[tokio::test]
async fn garbage_costs_the_manager_no_memory() {
    let place = Place::new();
    let code = r#"
def peak():
    ppid = lambda pid: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]
    lines = open(f"/proc/{ppid(os.getppid())}/status").read().splitlines()
    name, = [line for line in lines if line.startswith("Name:")]
    assert name.split()[1] == "warmcell", name
    return int([line for line in lines if line.startswith("VmHWM:")][0].split()[1]) >> 10
def throw(data, times=1):
    for _ in range(times):
        raw = Raw()
        try:
            raw.sock.sendall(data)
            raw.sock.shutdown(socket.SHUT_WR)
            raw.reply()
        except OSError:
            pass
before = peak()
# A list that as a tree would take half a gigabyte, and frames that are announced and never come.
body = b'{"id":1,"cell":1,"tool":"read_file","args":{"path":[%s0]}}' % (b"0," * (4 << 20))
throw(len(body).to_bytes(4, "little") + body)
waiting = [Raw() for _ in range(100)]
for raw in waiting:
    raw.sock.sendall(struct.pack("<I", 64 << 20) + b"x" * 1000)
throw(b"\xff\xff\xff\x03", 50)
throw(b"[" * 1_000_000)
print(peak() - before, terminal("echo x")["output"])
"#;
    let code = format!("{RAW}{code}");
    let output = finish(&mut place.exec(&["--max-tool-calls", "1000", &code]));
    let stdout = text(&output.stdout);
    let risen: u64 = stdout
        .strip_suffix(" x\n\n")
        .unwrap_or_else(|| panic!("{stdout}{}", text(&output.stderr)))
        .parse()
        .unwrap();
    // The text of the list, with room to grow; nothing for the rest.
    assert!(risen < 32, "{risen} MiB");
    place.assert_no_survivors().await;
}
