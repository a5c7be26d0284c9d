//! Tool calls with a handler that does nothing, and with one that waits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use warmcell::session::{Cell, Session};
use warmcell::tools::{
    Arguments, Parameter, ParameterDefault, Tool, ToolContext, ToolResult, ToolSpec, ToolTable,
};

use crate::limit::Limit;
use crate::measure::{Pair, Row, Samples, Unit};
use crate::python;
use crate::support::{Manager, run_cell};

const ROUNDS: usize = 15;
const CALLS: usize = 300;

const TIMED_CALLS: &str = "
from time import perf_counter
times = []
for number in range(300):
    began = perf_counter()
    result = echo(number)
    times.append(perf_counter() - began)
    assert result['value'] == number, result
print(' '.join(map(str, times)))
";

const EIGHT_THREADS: &str = "
from threading import Thread
from time import perf_counter
threads = [Thread(target=nap) for _ in range(8)]
began = perf_counter()
for thread in threads: thread.start()
for thread in threads: thread.join()
print(perf_counter() - began)
";

#[derive(Debug)]
struct Echo;

static ECHO: ToolSpec = ToolSpec {
    name: "echo",
    about: "Gives back what it is given.",
    parameters: &[Parameter {
        name: "value",
        json_type: "integer",
        default: ParameterDefault::Required,
        about: "What to give back.",
    }],
    returns: &["value"],
    refused: &[],
};

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &'static ToolSpec {
        &ECHO
    }

    async fn call(&self, arguments: Arguments, _context: &ToolContext) -> ToolResult {
        let value = arguments.optional_integer("value").ok().flatten();
        ToolResult::from_iter([("value".to_owned(), json!(value))])
    }
}

#[derive(Debug)]
struct Nap;

static NAP: ToolSpec = ToolSpec {
    name: "nap",
    about: "Takes its time.",
    parameters: &[Parameter {
        name: "ms",
        json_type: "integer",
        default: ParameterDefault::Integer(100),
        about: "How many milliseconds.",
    }],
    returns: &["ms"],
    refused: &[],
};

#[async_trait]
impl Tool for Nap {
    fn spec(&self) -> &'static ToolSpec {
        &NAP
    }

    async fn call(&self, arguments: Arguments, _context: &ToolContext) -> ToolResult {
        let ms = arguments.optional_integer("ms").ok().flatten().unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())).await;
        ToolResult::from_iter([("ms".to_owned(), json!(ms))])
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (threads, runtime) in [
        ("", crate::warm::one_thread()),
        (", two threads", crate::warm::two_threads()),
    ] {
        let table = ToolTable::of(vec![Arc::new(Echo) as Arc<dyn Tool>, Arc::new(Nap)]);
        let manager = runtime.block_on(Manager::with_tools(table));
        let session = runtime.block_on(async { manager.session_on("tools", python()) });
        let pair = calls(&runtime, &session, &manager);
        rows.push(Row::ratio(
            &format!("tool call{threads} / JSON ping-pong"),
            pair,
            2.0,
        ));
        times(&runtime, &session, EIGHT_THREADS);
        let naps: Samples = (0..10)
            .flat_map(|_| times(&runtime, &session, EIGHT_THREADS))
            .collect();
        rows.push(Row::median(
            &format!("8 threads x 100 ms{threads}"),
            Unit::Seconds,
            naps,
            0.115,
        ));
        runtime.block_on(manager.end());
    }
    rows
}

fn calls(runtime: &Runtime, session: &Session, manager: &Manager) -> Pair {
    let mut limit = Limit::start(&manager.place, "calls.py", &[&CALLS.to_string()]);
    let mut least = || {
        limit.send(&json!({"go": true}));
        loop {
            let request = limit.receive();
            if let Some(times) = request.get("times") {
                return seconds(times);
            }
            let (id, value) = (&request["id"], &request["args"]["value"]);
            limit.send(&json!({"id": id, "result": {"value": value}}));
        }
    };
    least();
    times(runtime, session, TIMED_CALLS);
    let pair = Pair::measure(ROUNDS, || {
        let ours = times(runtime, session, TIMED_CALLS);
        (ours.into_iter().collect(), least().into_iter().collect())
    });
    limit.send(&json!({"go": false}));
    pair
}

/// Runs a cell that prints seconds.
fn times(runtime: &Runtime, session: &Session, code: &str) -> Vec<f64> {
    let outcome = runtime.block_on(run_cell(session, Cell::new(code).max_tool_calls(100_000)));
    assert_eq!(outcome.exit_code, 0, "{}", outcome.output);
    outcome
        .output
        .split_whitespace()
        .map(|it| it.parse().unwrap())
        .collect()
}

fn seconds(times: &Value) -> Vec<f64> {
    times
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_f64().unwrap())
        .collect()
}
