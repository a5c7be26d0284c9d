//! `warmcell exec` with policy `interrupt`: Ctrl-C once and twice, and the time limit.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::command_kit::{Running, assert_nothing_left, piped};
use crate::lifecycle_support::{signal, until, written};
use crate::support::{Place, finish, text};

const GENTLE: [&str; 4] = ["--on-timeout", "interrupt", "--on-interrupt", "interrupt"];

#[tokio::test]
async fn the_limit_interrupts_in_place_if_asked_to() {
    let place = Place::new();
    let code = "import atexit, time\natexit.register(print, 'bye')\nprint('a')\ntime.sleep(60)";
    // State is kept: the kernel comes to an orderly end.
    let output = finish(&mut place.exec(&[&GENTLE[..], &["-t", "1", code]].concat()));
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(text(&output.stdout), "a\nbye\n");
    let err = text(&output.stderr);
    assert!(
        err.starts_with("Traceback (most recent call last):\n  File \"<cell 1>\", line 4"),
        "{err}"
    );
    assert!(
        err.contains(
            "KeyboardInterrupt\n[timed out after 1 s and was interrupted; state is kept]\n[hint: give it more"
        ),
        "{err}"
    );
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn ctrl_c_interrupts_in_place_and_a_second_one_kills() {
    for twice in [false, true] {
        let place = Place::new();
        let [caught, mark] = ["caught", "mark"].map(|name| place.work().join(name));
        let once_more = if twice { "" } else { "break" };
        let code = format!(
            "import time\nwhile True:\n    try:\n        print(1, file=open({mark:?}, 'w'))\n        time.sleep(60)\n    except KeyboardInterrupt:\n        print(1, file=open({caught:?}, 'w'))\n        {once_more}"
        );
        let mut command = place.exec(&[&GENTLE[..], &["--json", &code]].concat());
        let mut running = Running::start(piped(&mut command));
        written(&mark).await;
        signal(running.pid(), Signal::INT);
        written(&caught).await;
        let began = Instant::now();
        if twice {
            // The first that is no longer taken for the same.
            until("the end", || {
                signal(running.pid(), Signal::INT);
                running.0.try_wait().unwrap().is_some()
            })
            .await;
        }
        assert_eq!(running.ended().await, Some(130));
        assert!(
            began.elapsed() < Duration::from_millis(2_500),
            "{:?}",
            began.elapsed()
        );
        let told: Value = serde_json::from_str(&running.printed().0).unwrap();
        assert_eq!(told["status"], "interrupted");
        let (state, words) = if twice {
            ("lost", "[interrupted and then ended by force; the kernel")
        } else {
            (
                "fresh",
                "[interrupted; after that the cell ended by itself; state is kept]",
            )
        };
        assert_eq!(told["kernel"]["state"], state);
        let output = told["output"].as_str().unwrap();
        assert!(output.starts_with(words), "{output}");
        assert_nothing_left(&place).await;
    }
}

/// `timeout -s INT` sends its signal to the command and, in the same moment, to its group.
#[tokio::test]
async fn an_interrupt_that_comes_twice_at_once_is_one() {
    let place = Place::new();
    let mark = place.work().join("mark");
    let code = format!(
        "import time\ntry:\n    print(1, file=open({mark:?}, 'w'))\n    time.sleep(60)\n\
         except KeyboardInterrupt:\n    time.sleep(0.2)\n    x = 1"
    );
    let program = place.exec(&[]);
    let mut command = place.command("timeout");
    command
        .args(["-s", "INT", "2"])
        .arg(program.get_program())
        .args(program.get_args())
        .args(GENTLE)
        .args(["--json", &code])
        .current_dir(place.work());
    let output = finish(&mut command);
    assert_eq!(output.status.code(), Some(124), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(mark.exists());
    assert_eq!(told["status"], "interrupted", "{told}");
    assert_eq!(told["kernel"]["state"], "fresh", "{told}");
    assert_nothing_left(&place).await;
}
