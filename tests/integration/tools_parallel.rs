//! Calls run side by side, wherever in a cell they come from.

use serde_json::{Value, json};
use warmcell::session::Cell;

use crate::support::{Manager, pythons, run};
use crate::tools_kit::{json_of, json_of_cell};

/// Makes what the next cell uses, so that pools and their threads belong to an earlier one.
const BEFORE: &str = r#"
import asyncio, json, multiprocessing, multiprocessing.pool, os, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
os.mkdir("begun")

def command(name):
    # Each waits until all have begun: they end only if all run at the same time.
    return (
        f"began=$(date +%s%N); : > begun/{name}; "
        f"while set -- begun/*; [ $# -lt {TOTAL} ]; do sleep 0.05; done; "
        f"echo {name} $began $(date +%s%N)"
    )

def call(name):
    return terminal(command(name), timeout=20)

executor = ThreadPoolExecutor(2)
list(executor.map(str, range(4)))
thread_pool = multiprocessing.pool.ThreadPool(1)
process_pool = multiprocessing.Pool(1)
process_pool.map(str, range(2)); made = True
"#;

const AT_ONCE: &str = r#"
answers = {}

def into(name):
    answers[name] = call(name)

def child(name, queue):
    queue.put(call(name))

program = "import json, sys, hermes_tools; print(json.dumps(hermes_tools.terminal(sys.argv[1])))"
queue = multiprocessing.SimpleQueue()
threads = [threading.Thread(target=into, args=(f"thread{n}",)) for n in range(8)]
process = multiprocessing.Process(target=child, args=("process", queue))
spawned = subprocess.Popen(
    [sys.executable, "-c", program, command("subprocess")], stdout=subprocess.PIPE
)
process.start()
for thread in threads:
    thread.start()
futures = {f"executor{n}": executor.submit(call, f"executor{n}") for n in range(2)}
in_thread_pool = thread_pool.apply_async(call, ("threadpool",))
in_process_pool = process_pool.map_async(call, ["pool"])

async def main():
    loop = asyncio.get_running_loop()
    to_thread = getattr(asyncio, "to_thread", lambda *call: loop.run_in_executor(None, *call))
    return await asyncio.gather(
        to_thread(call, "to_thread"), loop.run_in_executor(None, call, "in_executor")
    )

answers["to_thread"], answers["in_executor"] = await main()
for thread in threads:
    thread.join()
answers.update({name: future.result() for name, future in futures.items()})
answers["threadpool"] = in_thread_pool.get()
answers["pool"], = in_process_pool.get()
answers["process"] = queue.get()
answers["subprocess"] = json.loads(spawned.communicate()[0])
process.join()
print(json.dumps(answers))
"#;

/// 8 threads, 2 in the executor, 2 from asyncio, thread pool, process, process pool, program.
const TOTAL: usize = 16;

#[tokio::test]
async fn calls_from_everywhere_run_at_the_same_time() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        run(
            &session,
            &format!("import shutil; shutil.rmtree('begun', True); TOTAL = {TOTAL}"),
        )
        .await;
        let before = run(&session, BEFORE).await;
        assert_eq!(before.output, "[completed without output]", "{version}");
        let (answers, outcome) = json_of_cell(&session, Cell::new(AT_ONCE)).await;
        let answers = answers.as_object().unwrap();
        assert_eq!(answers.len(), TOTAL, "{version}");
        let mut last_begin = 0_u64;
        let mut first_end = u64::MAX;
        for (name, answer) in answers {
            let output = answer["output"].as_str().unwrap_or_default();
            let words: Vec<&str> = output.split_whitespace().collect();
            assert_eq!(words.len(), 3, "{version} {name}: {answer}");
            assert_eq!(words[0], name);
            assert_eq!(answer["exit_code"], 0);
            last_begin = last_begin.max(words[1].parse().unwrap());
            first_end = first_end.min(words[2].parse().unwrap());
        }
        assert!(last_begin < first_end, "{version}: {answers:?}");
        assert_eq!(outcome.tool_calls_made, TOTAL as u64, "{version}");
        assert_eq!(outcome.tool_calls.len(), TOTAL);
        assert!(
            outcome
                .tool_calls
                .iter()
                .all(|call| call.ok && call.tool == "terminal")
        );
    }
    manager.end().await;
}

/// Threads keep their connection for as long as they live; none may starve for it.
#[tokio::test]
async fn a_pool_of_a_hundred_threads_is_served() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let code = r#"
import json, threading
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(100)
together = threading.Barrier(100)
def call(n):
    together.wait()
    return read_file(f"/proc/sys/kernel/ostype", offset=n + 1)["content"]
first = list(pool.map(call, range(100)))
second = list(pool.map(call, range(100)))
print(json.dumps([first == second, first[0], set(first[1:]) == {""}]))
"#;
    let (value, outcome) = json_of_cell(&session, Cell::new(code).max_tool_calls(200)).await;
    assert_eq!(value, json!([true, "Linux\n", true]));
    assert_eq!(outcome.tool_calls_made, 200);
    manager.end().await;
}

#[tokio::test]
async fn an_exception_in_a_carried_call_shows_no_frame_of_ours() {
    let manager = Manager::start().await;
    for (version, python) in pythons() {
        let session = manager.session_on(&format!("s-{version}"), python);
        let code = r"
import multiprocessing, multiprocessing.pool, traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
def fail(n):
    raise ValueError(n)
seen = []
for make in (ThreadPoolExecutor, ProcessPoolExecutor):
    with make(1) as pool:
        try:
            pool.submit(fail, 1).result()
        except ValueError as error:
            seen.append(traceback.format_exc())
with multiprocessing.Pool(1) as pool:
    try:
        pool.apply(fail, (2,))
    except ValueError as error:
        seen.append(traceback.format_exc())
import json
print(json.dumps(seen))
";
        let seen = json_of(&session, code).await;
        for text in seen.as_array().unwrap() {
            let text = text.as_str().unwrap();
            assert!(text.contains("in fail"), "{version}: {text}");
            assert!(!text.contains("hermes_tools"), "{version}: {text}");
        }
        for code in [
            "multiprocessing.pool.ThreadPool(1).apply(fail, (3,))",
            "retry(lambda: fail(3), max_attempts=1)",
        ] {
            let failed = run(&session, code).await;
            assert_eq!(
                failed
                    .error
                    .as_deref()
                    .map(|it| it.starts_with("ValueError: 3")),
                Some(true),
                "{version}: {}",
                failed.output
            );
            assert!(
                !failed.output.contains("hermes_tools"),
                "{version}: {}",
                failed.output
            );
        }
    }
    manager.end().await;
}

#[tokio::test]
async fn callbacks_belong_to_the_cell_that_adds_them() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    run(
        &session,
        "import json, multiprocessing.pool, threading\n\
         from concurrent.futures import ThreadPoolExecutor\n\
         executor = ThreadPoolExecutor(1); executor.submit(int).result()\n\
         pool = multiprocessing.pool.ThreadPool(1); pool.apply(int)",
    )
    .await;
    let code = r#"
seen, done = [], threading.Semaphore(0)
def callback(_):
    seen.append(read_file("/proc/sys/kernel/ostype")["content"])
    done.release()
executor.submit(int).add_done_callback(callback)
pool.apply_async(int, (), {}, callback)
pool.map_async(str, [1, 2], callback=callback)
pool.apply_async(lambda: 1 / 0, error_callback=callback)
for _ in range(4):
    done.acquire(timeout=20)
print(json.dumps(seen))
"#;
    let (seen, outcome) = json_of_cell(&session, Cell::new(code)).await;
    assert_eq!(seen, Value::from(vec!["Linux\n"; 4]));
    assert_eq!(outcome.tool_calls_made, 4);
    manager.end().await;
}
