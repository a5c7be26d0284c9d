//! ipykernel in a session of ours: the contract of our own kernels holds for it.

use std::sync::Arc;
use std::time::Duration;

use warmcell::config::ForeignKernel;
use warmcell::execution::{ErrorClass, LossReason, Outcome, ReportedState, Status};
use warmcell::session::{Cell, Policy};

use crate::foreign_kit::{caller, ipykernel, manager, session, with_ipykernel};
use crate::support::{SAFETY, python, run, run_cell};

fn names(outcome: &Outcome) -> Vec<String> {
    let lost = outcome.kernel.lost.as_ref().unwrap();
    lost.names
        .iter()
        .map(|it| format!("{}: {}", it.name, it.kind))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_runs_cells_as_ours_do() {
    with_ipykernel(async |_manager, session, _kernel| {
        let first = run(session, "x = [1]\nprint('a'); len(x)").await;
        assert_eq!(first.output, "a\n1");
        assert_eq!(first.result.as_deref(), Some("1"));
        assert_eq!(first.kernel.state, ReportedState::Fresh);
        assert_eq!(first.stdout_bytes_total, 2);
        let second = run(session, "x.append(2); x").await;
        assert_eq!(
            (second.output.as_str(), second.kernel.reused),
            ("[1, 2]", true)
        );
        assert_eq!(second.kernel.execution_count, 2);

        let order = "import os, subprocess, sys\nfor n in range(3):\n    print('p', n)\n    \
                     sys.stdout.flush()\n    os.write(1, b'w %d\\n' % n)\n    \
                     print('e', n, file=sys.stderr)";
        let printed = run(session, order).await;
        for text in [
            "p 0",
            "p 1",
            "p 2",
            "w 0",
            "w 2",
            "--- stderr ---\n",
            "e 0\ne 1\ne 2",
        ] {
            assert!(printed.output.contains(text), "{text}: {}", printed.output);
        }

        let raised = run(session, "def f():\n    1/0\n\nf()").await;
        assert_eq!(raised.exit_code, 1);
        assert_eq!(raised.error_class, Some(ErrorClass::Exception));
        assert_eq!(
            raised.error.as_deref(),
            Some("ZeroDivisionError: division by zero (<cell 4>, line 2)")
        );
        assert!(!raised.output.contains('\u{1b}'), "{}", raised.output);
        assert!(raised.output.contains("----> 2"), "{}", raised.output);
        for (code, class) in [
            ("x = ", ErrorClass::Syntax),
            ("import no_such_thing", ErrorClass::MissingModule),
            ("raise KeyboardInterrupt", ErrorClass::Exception),
            ("input()", ErrorClass::Exception),
        ] {
            let outcome = run(session, code).await;
            assert_eq!(
                outcome.error_class,
                Some(class),
                "{code}: {}",
                outcome.output
            );
        }
        let left = run(session, "import sys\nsys.exit(3)").await;
        assert_eq!(
            (left.exit_code, left.error_class),
            (3, Some(ErrorClass::Exit))
        );
        let nothing = run(session, "sys.exit()").await;
        assert_eq!(nothing.status, Status::Success);
        let awaited = run(
            session,
            "import asyncio\nawait asyncio.sleep(0, 'é\\U0001f600')",
        )
        .await;
        assert_eq!(awaited.output, "'é\u{1f600}'");
        assert_eq!(run(session, "len(x)").await.output, "2");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_of_a_foreign_kernel_is_whole_and_before_the_value() {
    with_ipykernel(async |_manager, session, _kernel| {
        let flood = run(session, "for n in range(200_000): print(n)\n'end'").await;
        let bytes: u64 = (0..200_000_u64)
            .map(|n| n.to_string().len() as u64 + 1)
            .sum();
        assert_eq!(flood.stdout_bytes_total, bytes);
        assert!(
            flood
                .output
                .contains("199999\n'end'\n[the whole output is in "),
            "{}",
            flood.output
        );
        let one = run(session, "print('é' * 10_000_000)").await;
        assert_eq!(one.stdout_bytes_total, 20_000_001);
        let value = run(session, "'x' * 6_000_000").await;
        assert!(
            value.output.contains("bytes omitted"),
            "{}",
            value.output.len()
        );
        let shown =
            "from IPython.display import display, Image\nImage(b'x' * 6_000_000, format='png')";
        let shown = run(session, shown).await;
        assert_eq!(shown.status, Status::Success, "{}", shown.output);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_out_of_time_goes_with_its_daemons_and_tells_what_is_lost() {
    with_ipykernel(async |manager, session, _kernel| {
        run(session, "x = 1\ny = 'a'\n_hidden = 2\nz = 3\nimport os").await;
        run(session, "del z\nx = 2.5").await;
        run(session, "w = {}\nraise ValueError").await;
        let code = "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '4321'])\n\
                    os.system('(sleep 4322 &)')\nprint('begun', flush=True)\nwhile True: pass";
        let cell = Cell::new(code).timeout(Duration::from_secs(2));
        let outcome = run_cell(session, cell).await;
        assert_eq!(outcome.status, Status::Timeout, "{}", outcome.output);
        assert!(outcome.output.starts_with("begun\n"), "{}", outcome.output);
        assert_eq!(outcome.kernel.state, ReportedState::Lost);
        let lost = outcome.kernel.lost.as_ref().unwrap();
        assert_eq!((lost.cells, lost.names_total), (3, 4));
        let mut told = names(&outcome);
        told.sort();
        assert_eq!(told, ["os: module", "w: dict", "x: float", "y: str"]);
        let next = run(session, "x").await;
        assert_eq!(next.kernel.reason, Some(LossReason::Timeout));
        assert_eq!((next.kernel.generation, next.exit_code), (2, 1));
        // It has its own descendants and no other's.
        crate::lifecycle_support::until("the daemons' end", || {
            let left = manager.place.survivors();
            left.iter()
                .all(|(_, command)| !command.contains("sleep 432"))
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_is_interrupted_in_place_by_signal_and_by_message() {
    let Some(kernel) = ipykernel() else { return };
    let manager = manager(SAFETY).await;
    for by_message in [false, true] {
        let kernel = ForeignKernel {
            interrupted_by_message: by_message,
            ..kernel.clone()
        };
        let session = session(&manager, &format!("by-{by_message}"), kernel);
        run(&session, "x = 1").await;
        for code in ["import time\ntime.sleep(60)", "while True: pass"] {
            let cell = Cell {
                on_timeout: Some(Policy::Interrupt),
                timeout: Some(Duration::from_secs(1)),
                ..Cell::new(format!("{code}\n"))
            };
            let outcome = run_cell(&session, cell).await;
            assert_eq!(outcome.status, Status::Timeout, "{}", outcome.output);
            assert_eq!(
                outcome.kernel.state,
                ReportedState::Kept,
                "{}",
                outcome.output
            );
            assert!(
                outcome.output.contains("state is kept"),
                "{}",
                outcome.output
            );
        }
        let cell = Cell {
            on_interrupt: Some(Policy::Interrupt),
            ..Cell::new("print('in', flush=True)\ntime.sleep(60)")
        };
        let mut execution = session.execute_live(cell);
        let mut live = execution.take_live().unwrap();
        tokio::time::timeout(SAFETY, live.next()).await.unwrap();
        execution.interrupt();
        let outcome = tokio::time::timeout(SAFETY, execution.outcome())
            .await
            .unwrap();
        assert_eq!(outcome.status, Status::Interrupted, "{}", outcome.output);
        assert_eq!(outcome.error_class, Some(ErrorClass::Interrupted));
        assert_eq!(run(&session, "x").await.output, "1");
    }
    manager.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_foreign_kernel_died_is_told() {
    with_ipykernel(async |_manager, session, _kernel| {
        for (code, how) in [
            ("import os; os._exit(3)", "exited with code 3"),
            // Codes and signals that mean something to a bridge too.
            ("import os; os._exit(72)", "exited with code 72"),
            (
                "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)",
                "was killed by signal 2 (SIGINT)",
            ),
            (
                "import os, signal; signal.signal(13, signal.SIG_DFL); os.kill(os.getpid(), 13)",
                "was killed by signal 13 (SIGPIPE)",
            ),
            (
                "import os; os.kill(os.getpid(), 9)",
                "was killed by signal 9 (SIGKILL)",
            ),
            (
                "import ctypes; ctypes.string_at(0)",
                "was killed by signal 11 (SIGSEGV)",
            ),
        ] {
            run(session, "x = 1").await;
            let outcome = run(session, &format!("print('last', flush=True)\n{code}")).await;
            assert_eq!(
                outcome.error_class,
                Some(ErrorClass::KernelDied),
                "{}",
                outcome.output
            );
            let error = outcome.error.as_deref().unwrap();
            assert_eq!(error, format!("the kernel {how} while running the cell"));
            assert_eq!(names(&outcome).last().unwrap(), "x: int");
            let next = run(session, "1").await;
            assert_eq!(
                next.kernel.reason,
                Some(LossReason::KernelDied),
                "{}",
                next.output
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_of_a_foreign_kernel_call_tools_on_their_own_account() {
    with_ipykernel(async |manager, session, _kernel| {
        std::fs::write(manager.place.work().join("a.txt"), "one\n").unwrap();
        let read = run(session, "read_file('a.txt')['content']").await;
        assert_eq!((read.output.as_str(), read.tool_calls_made), ("'one\\n'", 1));
        let imported = run(session, "from hermes_tools import terminal as t\nt('echo hi')['output']");
        assert_eq!(imported.await.output, "'hi\\n'");
        let budget = "a = [read_file('a.txt').get('error') for _ in range(3)]; a[1:]";
        let cell = Cell::new(budget).max_tool_calls(2);
        let outcome = run_cell(session, cell).await;
        assert_eq!(outcome.tool_calls_made, 2);
        assert!(outcome.output.contains("limit reached"), "{}", outcome.output);
        let threads = "from concurrent.futures import ThreadPoolExecutor\n\
                       with ThreadPoolExecutor(4) as pool:\n    \
                       r = list(pool.map(lambda _: read_file('a.txt')['total_lines'], range(8)))\n\
                       sum(r)";
        let outcome = run(session, threads).await;
        assert_eq!((outcome.output.as_str(), outcome.tool_calls_made), ("8", 8));
        // What an earlier cell has left is refused, and not charged to the present one.
        let left = "import threading\ngo, done, found = threading.Event(), threading.Event(), []\n\
                    def late():\n    go.wait()\n    found.append(read_file('a.txt'))\n    done.set()\n\
                    threading.Thread(target=late).start()";
        run(session, left).await;
        let outcome = run(session, "go.set(); done.wait(20); found[0]['error_class']").await;
        assert_eq!((outcome.output.as_str(), outcome.tool_calls_made), ("'refused'", 0));
        let child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import hermes_tools; \
                     print(hermes_tools.read_file(\"a.txt\")[\"content\"])'], \
                     capture_output=True, text=True).stdout";
        let outcome = run(session, child).await;
        assert_eq!((outcome.output.as_str(), outcome.tool_calls_made), ("'one\\n\\n'", 1));
        // A name of the cell's own stays its own.
        run(session, "retry = 7").await;
        assert_eq!(run(session, "retry").await.output, "7");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_follows_its_callers_and_is_replaced_when_another_is_named() {
    with_ipykernel(async |manager, session, kernel| {
        let place = manager.place.work().join("é 'place'");
        std::fs::create_dir(&place).unwrap();
        run(session, "import os\nx = 1").await;
        let moved = run_cell(session, Cell::new("os.getcwd()").directory(&place)).await;
        assert!(moved.output.contains("place"), "{}", moved.output);
        let nowhere = run_cell(session, Cell::new("x = 2").directory("/no/where")).await;
        assert_eq!(
            nowhere.error_class,
            Some(ErrorClass::Usage),
            "{}",
            nowhere.output
        );
        assert_eq!(run(session, "x").await.output, "1");

        // The same kernel again, and somebody who names none.
        let same = Cell::new("x").caller(caller(manager, kernel.clone()));
        assert_eq!(run_cell(session, same).await.output, "1");
        let none = ForeignKernel::default();
        let mut nobody = (*caller(manager, none)).clone();
        nobody.kernel = None;
        let outcome = run_cell(session, Cell::new("x").caller(Arc::new(nobody.clone()))).await;
        assert_eq!(outcome.output, "1");
        let outcome = run_cell(
            session,
            Cell::new("'x' in dir()").caller(Arc::new(nobody)).reset(),
        );
        let outcome = outcome.await;
        assert_eq!(outcome.kernel.reason, Some(LossReason::Reset));
        assert!(outcome.output.ends_with("False"), "{}", outcome.output);
        assert_eq!(session.status().kernel.as_deref(), Some("ipy"));

        let other = ForeignKernel {
            name: "other".to_owned(),
            ..kernel
        };
        run(session, "x = 5").await;
        let outcome = run_cell(session, Cell::new("1").caller(caller(manager, other))).await;
        assert_eq!(
            outcome.kernel.reason,
            Some(LossReason::Replaced),
            "{}",
            outcome.output
        );
        assert!(
            outcome.output.contains("the kernel other was asked for"),
            "{}",
            outcome.output
        );
        assert_eq!(session.status().kernel.as_deref(), Some("other"));
        // A Python that is named is one of ours.
        let ours = Arc::new(manager.place.caller(python()));
        let outcome = run_cell(session, Cell::new("'get_ipython' in dir()").caller(ours)).await;
        assert_eq!(
            outcome.kernel.reason,
            Some(LossReason::Replaced),
            "{}",
            outcome.output
        );
        assert!(outcome.output.ends_with("False"), "{}", outcome.output);
        assert_eq!(session.status().kernel, None);
    })
    .await;
}
