//! From asking for a kernel to its first result.

use std::time::Instant;

use serde_json::json;
use tokio::runtime::Runtime;
use warmcell::session::{Cell, Registry, Session};

use crate::limit::Limit;
use crate::measure::{Pair, Row, Samples};
use crate::python;
use crate::support::{Place, run};

const TOGETHER: usize = 20;

pub fn rows() -> Vec<Row> {
    let runtime = crate::warm::one_thread();
    let mut rows = vec![Row::ratio(
        "first kernel of a forkserver / exec",
        first(&runtime),
        1.4,
    )];
    let (one, many) = forked(&runtime);
    rows.push(Row::ratio("forked kernel / fork and reply", one, 1.6));
    rows.push(Row::ratio(
        "20 kernels at once / a program that forks 20",
        many,
        1.6,
    ));
    rows
}

fn first(runtime: &Runtime) -> Pair {
    let place = Place::new();
    let ours = || {
        let registry = runtime.block_on(Registry::start(place.settings())).unwrap();
        let session = runtime
            .block_on(async { registry.session("first", &place.caller(python())) })
            .unwrap();
        let began = Instant::now();
        first_result(runtime, &session);
        let took = began.elapsed().as_secs_f64();
        runtime.block_on(registry.shut_down());
        took
    };
    let limit = || {
        let began = Instant::now();
        let mut limit = Limit::start(&place, "kernel.py", &[]);
        limit.ask(&json!({"code": "x=1"}));
        began.elapsed().as_secs_f64()
    };
    // The first ones write the caches of compiled sources.
    ours();
    limit();
    Pair::measure(15, || {
        let both: Vec<(f64, f64)> = (0..3).map(|_| (ours(), limit())).collect();
        let ours: Samples = both.iter().map(|it| it.0).collect();
        (ours, both.iter().map(|it| it.1).collect())
    })
}

fn forked(runtime: &Runtime) -> (Pair, Pair) {
    let place = Place::new();
    let registry = runtime.block_on(Registry::start(place.settings())).unwrap();
    let caller = place.caller(python());
    let mut count = 0;
    let mut ours = |kernels: usize| {
        let sessions: Vec<Session> = runtime.block_on(async {
            let names = (0..kernels).map(|_| {
                count += 1;
                format!("s-{count}")
            });
            names
                .map(|name| registry.session(&name, &caller).unwrap())
                .collect()
        });
        let began = Instant::now();
        runtime.block_on(async {
            let started: Vec<_> = sessions
                .iter()
                .map(|session| session.execute(Cell::new("x=1")))
                .collect();
            for mut execution in started {
                let outcome = execution.outcome().await;
                assert_eq!(outcome.exit_code, 0, "{}", outcome.output);
            }
        });
        let took = began.elapsed().as_secs_f64();
        for session in &sessions {
            runtime.block_on(session.close());
        }
        took
    };
    let mut program = Limit::start(&place, "forking.py", &[]);
    let mut limit = |kernels: usize| {
        let began = Instant::now();
        program.send(&json!({"code": "x=1", "kernels": kernels}));
        for _ in 0..kernels {
            program.receive();
        }
        let took = began.elapsed().as_secs_f64();
        program.ask(&json!({"end": true}));
        took
    };
    // The forkserver loads what cells are likely to need after the first one.
    ours(1);
    limit(1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let one = Pair::measure(15, || {
        let ours: Samples = (0..10).map(|_| ours(1)).collect();
        (ours, (0..10).map(|_| limit(1)).collect())
    });
    let many = Pair::measure(15, || {
        let ours: Samples = (0..3).map(|_| ours(TOGETHER)).collect();
        (ours, (0..3).map(|_| limit(TOGETHER)).collect())
    });
    runtime.block_on(registry.shut_down());
    (one, many)
}

fn first_result(runtime: &Runtime, session: &Session) {
    let outcome = runtime.block_on(run(session, "x=1"));
    assert_eq!(outcome.exit_code, 0, "{}", outcome.output);
}
