//! What is printed between cells, and what is long: told when it comes, as it is, and only once.

use std::time::Duration;

use serde_json::json;
use warmcell::jupyter::{SocketName, ZmtpItem};

use crate::jupyter_kit::{Form, House, in_short};
use crate::kernel_kit::{FrontEnd, Kernel, Message, Wire};
use crate::support::{SAFETY, Signal};

/// Prints when it is told to, on both streams, from a thread and from a child.
const LATE: &str = "
import subprocess, sys, threading
def late():
    open('go').read()
    print('late é')
    print('bad', file=sys.stderr, flush=True)
threading.Thread(target=late).start()
child = subprocess.Popen(['sh', '-c', 'cat more; echo from the child'])
print('now')
";

fn texts(front_end: &mut FrontEnd, until: &str) -> Vec<(String, Message)> {
    let mut found = Vec::new();
    let mut all = String::new();
    while !all.ends_with(until) {
        let message = front_end.published();
        all.push_str(message.text());
        found.push((message.text().to_owned(), message));
    }
    found
}

#[tokio::test]
async fn what_is_printed_after_a_cell_is_told_as_its_output_and_not_as_the_next_ones() {
    let kernel = Kernel::start();
    let go = Signal::in_place(&kernel.place, "go");
    let more = Signal::in_place(&kernel.place, "more");
    let mut front_end = kernel.front_end();
    let mut other = FrontEnd::new(&kernel.connection, "other");
    let header = front_end.execute(LATE);
    front_end.reply_to(&header);
    let told: Vec<String> = front_end
        .all_of(&header)
        .iter()
        .map(|it| it.text().to_owned())
        .collect();
    assert_eq!(told.concat(), "now\n");
    other.all_of(&header);
    go.give().await;
    for watching in [&mut front_end, &mut other] {
        let late = texts(watching, "bad\n");
        let of = |name: &str| -> String {
            let late = late.iter().filter(|(_, it)| it.content["name"] == name);
            late.map(|(text, _)| text.as_str()).collect()
        };
        assert_eq!(of("stdout"), "late é\n");
        assert_eq!(of("stderr"), "bad\n");
        for (_, message) in &late {
            assert_eq!(message.parent, header);
        }
    }
    // The child is late too, and its words are those of the cell that ran last.
    let (text, _) = front_end.run("print('next')");
    assert_eq!(text, "next\n");
    let last = front_end.execute("1");
    front_end.reply_to(&last);
    front_end.all_of(&last);
    more.give().await;
    for (_, message) in texts(&mut front_end, "from the child\n") {
        assert_eq!(message.parent, last);
    }
    assert_eq!(front_end.run("child.wait(); print(2)").0, "2\n");
    kernel.close().await;
}

#[tokio::test]
async fn the_same_over_websockets_and_results_tell_it_too() {
    let house = House::open().await;
    let go = Signal::in_place(&house.place, "go");
    let _more = Signal::in_place(&house.place, "more");
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    let header = client.execute(LATE).await;
    client.all_of(&header).await;
    go.give().await;
    let mut late = String::new();
    while !late.contains("late é\n") || !late.contains("bad\n") {
        let message = client.next().await.unwrap();
        assert_eq!(message.parent, header);
        late.push_str(message.content["text"].as_str().unwrap());
    }
    // Who hands over a cell another way has it in the result.
    let outcome = crate::support::run(&session, "print('next')").await;
    let background = outcome.background_output.unwrap();
    assert_eq!(background.bytes_total, 12);
    let begin = client.next().await.unwrap();
    assert_eq!(
        in_short(&client.all_of_after(&begin).await),
        ["[2] print('next')", "stdout: next\n", "idle"]
    );
    crate::support::run(&session, "open('more', 'w').close()\nchild.wait()").await;
    house.close().await;
}

#[tokio::test]
async fn a_thread_that_prints_for_ever_holds_no_front_end_up() {
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    // One who does not read, and may be cut off for it.
    let _sleeper = FrontEnd::new(&kernel.connection, "sleeper");
    let code = "import threading\ndone = threading.Event()\ndef run():\n    while not done.is_set(): print('y' * 1000)\nthreading.Thread(target=run, daemon=True).start()";
    front_end.execute(code);
    assert_eq!(front_end.reply().content["status"], "ok");
    // What is published is read all the time, as front ends do.
    let another = Wire::connect(&kernel.connection, SocketName::Iopub, "");
    let mut published = std::mem::replace(&mut front_end.iopub, another);
    let (printed, mut prints) = tokio::sync::watch::channel(0);
    let reading = std::thread::spawn(move || {
        while let Some(item) = published.item() {
            let is_late = matches!(item, ZmtpItem::Message(it) if it[0].ends_with(b".stream"));
            printed.send_modify(|count| *count += usize::from(is_late));
        }
    });
    // It goes on while nothing runs, and others have their turn.
    for _ in 0..3 {
        let seen = *prints.borrow() + 10;
        let more = prints.wait_for(|count| *count >= seen);
        tokio::time::timeout(SAFETY, more).await.unwrap().unwrap();
        let header = front_end.request("kernel_info_request", &json!({}));
        assert_eq!(front_end.reply().parent, header);
        let header = front_end.execute("'here'");
        assert_eq!(front_end.reply_to(&header).content["status"], "ok");
    }
    let header = front_end.execute("done.set()");
    assert_eq!(front_end.reply_to(&header).content["status"], "ok");
    kernel.close().await;
    reading.join().unwrap();
}

#[tokio::test]
async fn one_long_display_ends_nothing_and_reaches_everybody() {
    const BYTES: usize = 17 << 20;
    let kernel = Kernel::start();
    let mut front_end = kernel.front_end();
    let mut other = FrontEnd::new(&kernel.connection, "other");
    let code = format!("display({{'text/html': 'x' * {BYTES}}}, raw=True)");
    let header = front_end.execute(&code);
    for watching in [&mut front_end, &mut other] {
        let all = watching.all_of(&header);
        let words: Vec<&str> = all.iter().map(Message::word).collect();
        assert_eq!(words, ["busy", "execute_input", "display_data", "idle"]);
        let shown = all[2].content["data"]["text/html"].as_str().unwrap();
        assert_eq!(shown.len(), BYTES);
    }
    assert_eq!(front_end.reply_to(&header).content["status"], "ok");
    assert_eq!(front_end.run("print(1)").0, "1\n");
    kernel.close().await;
}

#[tokio::test]
async fn one_long_display_cuts_no_websocket_off() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::Text).await;
    let code = "display({'text/html': 'x' * (17 << 20)}, raw=True)";
    let header = client.execute(code).await;
    let all = client.all_of(&header).await;
    let shown = all.iter().find(|it| it.kind() == "display_data").unwrap();
    let html = shown.content["data"]["text/html"].as_str().unwrap();
    assert_eq!(html.len(), 17 << 20);
    assert!(all.iter().any(|it| it.kind() == "execute_reply"));
    assert_eq!(client.run("1").await.last().unwrap(), "idle");
    tokio::time::timeout(Duration::from_secs(30), house.close())
        .await
        .unwrap();
}
