//! A call belongs to the cell whose code asked for it.

use serde_json::json;
use warmcell::session::Cell;

use crate::support::{Manager, pythons, run};
use crate::tools_kit::{assert_fails, eventually, json_of, json_of_cell};

const SETUP: &str = r#"
import json, multiprocessing, os, subprocess, sys, threading, _thread, time
from concurrent.futures import ThreadPoolExecutor
go, came, results = threading.Event(), threading.Event(), {}
KNOWN = "/proc/sys/kernel/ostype"

def leftover():
    go.wait(20)
    results["leftover"] = read_file(KNOWN)
    program = "import json, hermes_tools; print(json.dumps(hermes_tools.read_file('/proc/version')))"
    made = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE)
    results["its program"] = json.loads(made.stdout)
    os.system(f'{sys.executable} -c "{program}" > by_system')
    results["its command"] = json.load(open("by_system"))
    thread = threading.Thread(target=lambda: results.update({"its thread": read_file(KNOWN)}))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        results["its task"] = pool.submit(read_file, KNOWN).result()
    came.set()

threading.Thread(target=leftover).start()
"#;

#[tokio::test]
async fn what_an_earlier_cell_has_left_is_refused_and_not_charged() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        run(&session, SETUP).await;
        let code = "go.set(); came.wait(20); mine = read_file(KNOWN); \
                    print(json.dumps([results, mine]))";
        let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
        let results = value[0].as_object().unwrap();
        assert_eq!(results.len(), 5, "{version}: {value}");
        for result in results.values() {
            assert_fails(
                result,
                "refused",
                "no active cell: the cell that started this code",
            );
            assert!(
                result["content"].is_null()
                    && result["error"].as_str().unwrap().contains("number 1")
            );
        }
        assert_eq!(value[1]["content"], "Linux\n");
        assert_eq!(outcome.tool_calls_made, 1, "{version}");
        assert_eq!(outcome.tool_calls.len(), 1);
    }
    manager.end().await;
}

#[tokio::test]
async fn names_and_pools_of_an_earlier_cell_work_for_the_cell_that_uses_them() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        run(
            &session,
            r#"
import json, multiprocessing, os, subprocess, sys, hermes_tools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
alias = read_file
def helper(path):
    return hermes_tools.read_file(path)["content"]
PATH = "/proc/sys/kernel/ostype"
executor = ThreadPoolExecutor(1); executor.submit(helper, PATH).result()
processes = ProcessPoolExecutor(1); processes.submit(helper, PATH).result()
pool = multiprocessing.Pool(1); pool.apply(helper, (PATH,))
environment = dict(os.environ)
"#,
        )
        .await;
        let code = r#"
program = "import hermes_tools as h; print(h.read_file('/proc/sys/kernel/ostype')['content'], end='')"
print(json.dumps([
    alias(PATH)["content"], helper(PATH), executor.submit(helper, PATH).result(),
    processes.submit(helper, PATH).result(), pool.map(helper, [PATH])[0],
    subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE).stdout.decode(),
]))
"#;
        let (value, outcome) = json_of_cell(&session, Cell::new(code)).await;
        assert_eq!(value, json!(vec!["Linux\n"; 6]), "{version}");
        assert_eq!(outcome.tool_calls_made, 6, "{version}");
    }
    manager.end().await;
}

#[tokio::test]
async fn a_thread_that_belongs_to_no_cell_is_refused_with_advice() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r#"
import json, threading, _thread
done, seen = threading.Event(), []
def work():
    seen.append(terminal("echo never"))
    done.set()
_thread.start_new_thread(work, ())
done.wait(20)
print(json.dumps(seen[0]))
"#;
        let (result, outcome) = json_of_cell(&session, Cell::new(code)).await;
        assert_fails(&result, "refused", "call it from threading.Thread");
        assert_eq!(
            result.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["error", "error_class", "output", "exit_code", "truncated"]
        );
        assert_eq!(outcome.tool_calls_made, 0, "{version}");
    }
    manager.end().await;
}

#[tokio::test]
async fn a_daemon_of_an_earlier_cell_is_refused() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(
        &session,
        r#"
import json, os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while not os.path.exists("go"):
            time.sleep(0.01)
        with open("answer.part", "w") as file:
            json.dump(read_file("/proc/version"), file)
        os.rename("answer.part", "answer")
    os._exit(0)
os.wait()
"#,
    )
    .await;
    let code = r#"
open("go", "w").close()
while not os.path.exists("answer"):
    time.sleep(0.01)
print(open("answer").read())
"#;
    let (result, outcome) = json_of_cell(&session, Cell::new(code)).await;
    assert_fails(&result, "refused", "no active cell");
    assert_eq!(outcome.tool_calls_made, 0);
    manager.end().await;
}

#[tokio::test]
async fn a_call_between_cells_is_refused() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(
        &session,
        r#"
import json, threading, time
seen = []
def work():
    while not any("error" in one for one in seen):
        seen.append(read_file("/proc/version", limit=1))
    with open("seen", "w") as file:
        json.dump(seen[-1], file)
threading.Thread(target=work).start()
"#,
    )
    .await;
    let file = manager.place.work().join("seen");
    let text = eventually(|| {
        std::fs::read_to_string(&file)
            .ok()
            .filter(|text| text.ends_with('}'))
    })
    .await;
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    // It may be that the very call that was under way at the end was stopped.
    let class = result["error_class"].as_str().unwrap();
    assert!(["refused", "interrupted"].contains(&class), "{result}");
    let (made, outcome) = json_of_cell(&session, Cell::new("print(len(seen))")).await;
    assert!(made.as_u64().unwrap() >= 1);
    assert_eq!(outcome.tool_calls_made, 0);
    manager.end().await;
}

#[tokio::test]
async fn a_task_of_an_earlier_cell_stays_its_own() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import asyncio, json
seen = []
async def later():
    await asyncio.sleep(0.05)
    seen.append(read_file("/proc/sys/kernel/ostype"))
task = asyncio.ensure_future(later())
await asyncio.sleep(0); began = True
"#;
    run(&session, code).await;
    let result = json_of(&session, "await task; print(json.dumps(seen[0]))").await;
    assert_fails(&result, "refused", "no active cell");
    manager.end().await;
}

#[tokio::test]
async fn a_call_from_a_thread_belongs_to_its_cell_after_a_reload_too() {
    let call = "import threading\ngot = []\nthread = threading.Thread(target=lambda: got.append(read_file('/proc/sys/kernel/ostype').get('content')))\nthread.start(); thread.join()\ngot";
    crate::support::on_each_python(async |session, version| {
        let again = [
            "import importlib, threading; _ = importlib.reload(threading)",
            "import sys; del sys.modules['threading']",
            "del sys.modules['threading']",
        ];
        for before in again {
            run(session, before).await;
            let outcome = run(session, call).await;
            assert_eq!(
                outcome.result.as_deref(),
                Some("['Linux\\n']"),
                "{version}: {before}: {}",
                outcome.output
            );
        }
    })
    .await;
}
