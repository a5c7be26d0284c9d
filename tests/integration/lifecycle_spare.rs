//! The kernel that a forkserver forks ahead: it becomes what is asked for, as any other.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use warmcell::config::{Bound, Caller, ProcessLimits, Resource};
use warmcell::session::{Cell, Session};

use crate::lifecycle_support::{is_alive, number, signal, until};
use crate::support::{Manager, pythons, run};

/// The spare of a forkserver, once it waits for its order.
async fn spare_of(forkserver: u32) -> u32 {
    let mut found = None;
    until("a spare kernel", || {
        let children = fs::read_to_string(format!("/proc/{forkserver}/task/{forkserver}/children"));
        found = children
            .unwrap_or_default()
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .find(|pid| name_of(*pid) == "warmcell-spare");
        found.is_some()
    })
    .await;
    found.unwrap()
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_owned()
}

async fn forkserver_of(session: &Session) -> u32 {
    number(session, "import os; os.getppid()").await
}

/// What a kernel can see of its own beginning, apart from what is new in each.
const LOOK: &str = r"
import os, resource, signal, sys
seen = {
    'cwd': os.getcwd(),
    'environment': sorted((k, v) for k, v in os.environ.items() if not k.startswith('HERMES_RPC_')),
    'umask': os.umask(0),
    'argv': sys.argv,
    'path': sys.path,
    'descriptors': len(os.listdir('/proc/self/fd')),
    'limits': [resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith('RLIMIT_')],
    'nice': os.nice(0),
    'handlers': [str(signal.getsignal(n)).split(' at ')[0] for n in range(1, 65)],
    'masked': signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    'status': [line for line in open('/proc/self/status') if line.split(':')[0] in ('Name', 'Threads', 'SigIgn', 'SigCgt', 'SigBlk', 'NSsid')
               and not line.startswith('NSsid')],
    'leader': os.getsid(0) == os.getpid(),
    'names': sorted(globals()),
    'loaded': sorted(sys.modules),
}
print(seen)";

#[tokio::test]
async fn a_spare_becomes_what_a_forked_kernel_would_be() {
    for (version, python) in pythons() {
        let manager = Manager::start().await;
        let first = manager.session_on("first", python);
        // The first kernel of a forkserver is forked for it, before the rest is loaded.
        let forkserver = forkserver_of(&first).await;
        let spare = spare_of(forkserver).await;
        // The next two are asked for at once: one is the spare, the other is forked.
        let mut caller: Caller = manager.place.caller(python);
        caller.umask = 0o027;
        let bound = |soft| Bound {
            soft: Some(soft),
            hard: Some(soft),
        };
        caller.limits = Some(ProcessLimits {
            bounds: BTreeMap::from([
                (Resource::OpenFiles, bound(200)),
                (Resource::AddressSpace, bound(4_000_000_000)),
            ]),
            nice: Some(7),
        });
        caller.cwd = manager.place.home();
        caller
            .environment
            .push(("TMPDIR".to_owned(), "/tmp/".to_owned()));
        let sessions =
            ["second", "third"].map(|name| manager.registry.session(name, &caller).unwrap());
        let (second, third) = tokio::join!(run(&sessions[0], LOOK), run(&sessions[1], LOOK));
        assert_eq!(second.exit_code, 0, "{version}: {}", second.output);
        assert_eq!(second.output, third.output, "{version}");
        for words in [
            "('TMPDIR', '/tmp/')",
            "(4000000000, 4000000000)",
            "(200, 200)",
            "'nice': 7",
        ] {
            assert!(
                second.output.contains(words),
                "{version}: {}",
                second.output
            );
        }
        let mut pids = Vec::new();
        for session in &sessions {
            assert_eq!(forkserver_of(session).await, forkserver, "{version}");
            pids.push(number(session, "os.getpid()").await);
        }
        assert!(pids.contains(&spare), "{version}: {spare} {pids:?}");
        // What is drawn by lot differs.
        let draw = "import random, uuid; (random.random(), uuid.uuid4().hex)";
        let drawn = [run(&sessions[0], draw).await, run(&sessions[1], draw).await];
        assert_ne!(drawn[0].result, drawn[1].result, "{version}");
        manager.end().await;
    }
}

#[tokio::test]
async fn a_spare_that_is_gone_is_done_without() {
    let manager = Manager::start().await;
    let first = manager.session("first");
    let forkserver = forkserver_of(&first).await;
    for how in [Signal::KILL, Signal::TERM] {
        let spare = spare_of(forkserver).await;
        signal(spare, how);
        until("its end", || !is_alive(spare)).await;
        let next = manager.session(&format!("after-{}", how.as_raw()));
        assert_eq!(run(&next, "6*7").await.result.as_deref(), Some("42"));
        assert_eq!(forkserver_of(&next).await, forkserver);
    }
    // Killed in the moment in which it is needed: the kernel has died, and the session goes on.
    let spare = spare_of(forkserver).await;
    signal(spare, Signal::STOP);
    let next = manager.session("stopped");
    let mut execution = next.execute(Cell::new("1"));
    until("the order", || {
        name_of(spare) == "warmcell-spare" && is_alive(spare)
    })
    .await;
    signal(spare, Signal::KILL);
    let outcome = crate::lifecycle_support::result(&mut execution).await;
    assert!(
        outcome.exit_code == 0 || outcome.exit_code == -1,
        "{outcome:?}"
    );
    assert_eq!(run(&next, "6*7").await.result.as_deref(), Some("42"));
    manager.end().await;
}

#[tokio::test]
async fn a_spare_goes_with_its_forkserver() {
    for killed in [false, true] {
        let manager = Manager::start().await;
        let first = manager.session("first");
        let forkserver = forkserver_of(&first).await;
        let spare = spare_of(forkserver).await;
        if killed {
            signal(forkserver, Signal::KILL);
            until("its end", || !is_alive(spare)).await;
        }
        manager.end().await;
        assert!(!is_alive(spare));
    }
}

/// No kernel can be forked then, ahead or not; those that live go on.
#[tokio::test]
async fn a_forkserver_without_descriptors_keeps_its_kernels() {
    let manager = Manager::start().await;
    let first = manager.session("first");
    run(&first, "x = 5").await;
    let forkserver = forkserver_of(&first).await;
    spare_of(forkserver).await;
    let none_more = "import resource; limits = resource.getrlimit(resource.RLIMIT_NOFILE); resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (4, limits[1]))";
    assert_eq!(run(&first, none_more).await.exit_code, 0);
    let second = run(&manager.session("second"), "1").await;
    assert_eq!(second.exit_code, -1, "{second:?}");
    let enough = "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, limits); x";
    assert_eq!(run(&first, enough).await.result.as_deref(), Some("5"));
    assert_eq!(forkserver_of(&manager.session("third")).await, forkserver);
    manager.end().await;
}
