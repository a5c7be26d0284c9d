//! What threads and children print after their cell has ended, as those see it who watch.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use warmcell::session::EventKind;

use crate::jupyter_kit::{Client, Form, House, Received};
use crate::support::{Manager, SAFETY, Signal, run};

/// A thread that waits for a sign and prints.
const LATER: &str = "import os, sys, threading
def later():
    open('go').read()
    os.write(1, b'\\xc3')
    os.write(1, b'\\xa9 late\\n')
    print('apart', file=sys.stderr, flush=True)
    open('done', 'w').close()
threading.Thread(target=later).start()
print('own')";
const STDOUT: &str = "é late\n";
const STDERR: &str = "apart\n";
/// As a result tells it.
const NOTICE: &str = "bytes printed between cells";

/// What a client is shown next of streams, until this many characters of each have come; everything with
/// the same parent, which is given.
async fn streams<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Client<S>,
) -> (String, [String; 2]) {
    let mut found = [String::new(), String::new()];
    let mut parent = None;
    while found[0].len() < STDOUT.len() || found[1].len() < STDERR.len() {
        let message = client.next().await.unwrap();
        if message.kind() != "stream" {
            continue;
        }
        assert_eq!(
            parent.get_or_insert_with(|| message.parent.clone()),
            &message.parent
        );
        let which = usize::from(message.content["name"] == "stderr");
        found[which].push_str(message.content["text"].as_str().unwrap());
    }
    (parent.unwrap(), found)
}

fn says(messages: &[Received], what: &str) -> bool {
    let texts = messages.iter().map(|it| &it.content["text"]);
    texts
        .filter_map(Value::as_str)
        .any(|text| text.contains(what))
}

#[tokio::test]
async fn what_is_printed_between_cells_reaches_front_ends_as_caused_by_its_cell() {
    let house = House::open().await;
    let session = house.session("a");
    let go = Signal::in_place(&house.place, "go");
    let done = Signal::in_place(&house.place, "done");
    let mut client = house.client(&session, Form::V1).await;
    let mut watcher = house.client(&session, Form::Text).await;
    let expected = [STDOUT.to_owned(), STDERR.to_owned()];

    // A client's own cell.
    let header = client.execute(LATER).await;
    client.all_of(&header).await;
    watcher.all_of(&header).await;
    go.give().await;
    done.wait().await;
    for client in [&mut client, &mut watcher] {
        let (parent, found) = streams(client).await;
        assert_eq!((parent, &found), (header.clone(), &expected));
    }
    // Who has seen it is not told again.
    let header = client.execute("print(2)").await;
    let messages = client.all_of(&header).await;
    assert!(
        says(&messages, "2\n") && !says(&messages, NOTICE),
        "{messages:?}"
    );

    // The cell of another.
    let outcome = run(&session, LATER).await;
    assert_eq!(outcome.background_output, None);
    let begin = loop {
        let message = client.next().await.unwrap();
        if message.kind() == "execute_input" {
            break message;
        }
    };
    client.all_of_after(&begin).await;
    go.give().await;
    done.wait().await;
    assert_eq!(streams(&mut client).await, (begin.parent, expected));
    // A result has it all the same.
    let outcome = run(&session, "1").await;
    let background = outcome.background_output.unwrap();
    assert_eq!(background.bytes_total, (STDOUT.len() + STDERR.len()) as u64);
    assert!(outcome.output.contains(NOTICE), "{}", outcome.output);
    house.close().await;
}

#[tokio::test]
async fn who_comes_after_it_was_printed_is_told_by_the_next_cell() {
    let house = House::open().await;
    let session = house.session("a");
    let go = Signal::in_place(&house.place, "go");
    let done = Signal::in_place(&house.place, "done");
    run(&session, LATER).await;
    go.give().await;
    done.wait().await;
    let mut client = house.client(&session, Form::V1).await;
    let header = client.execute("print(2)").await;
    let messages = client.all_of(&header).await;
    assert!(says(&messages, NOTICE), "{messages:?}");
    house.close().await;
}

#[tokio::test]
async fn what_comes_at_once_after_a_cell_stands_behind_all_that_it_has_printed() {
    let house = House::open().await;
    let session = house.session("a");
    let mut client = house.client(&session, Form::V1).await;
    for round in 0..40 {
        // The thread is about as fast as the end of the cell.
        let code = format!(
            "import threading\n\
             print('cell {round}')\n\
             threading.Timer({round} / 40_000, print, ['late {round}']).start()"
        );
        let header = client.execute(&code).await;
        let mut printed = String::new();
        let last = format!("late {round}\n");
        while !printed.ends_with(&last) {
            let message = client.next().await.unwrap();
            if message.kind() == "stream" {
                assert_eq!(message.parent, header, "{message:?}");
                printed.push_str(message.content["text"].as_str().unwrap());
            }
        }
        assert_eq!(printed, format!("cell {round}\nlate {round}\n"));
    }
    house.close().await;
}

#[tokio::test]
async fn what_is_printed_between_cells_is_an_event_with_the_number_of_the_last_cell() {
    let manager = Manager::start().await;
    let (go, done) = (Signal::new(&manager, "go"), Signal::new(&manager, "done"));
    let session = manager.session("a");
    run(&session, "1").await;
    let mut events = session.events();
    run(&session, LATER).await;
    go.give().await;
    done.wait().await;
    let mut last = None;
    let mut found = [String::new(), String::new()];
    while !found[1].ends_with('\n') {
        let next = tokio::time::timeout(SAFETY, events.next()).await;
        let event = next.expect("no event comes").unwrap();
        match &event.kind {
            EventKind::CellFinished { .. } => last = event.cell,
            EventKind::LateOutput { stream, text } => {
                assert_eq!(event.cell, last);
                found[usize::from(*stream == "stderr")].push_str(text);
                let json = serde_json::to_value(&event).unwrap();
                assert_eq!(json["kind"], "late_output");
                assert_eq!(json["cell"], last.unwrap());
            }
            _ => {}
        }
    }
    assert_eq!(last, Some(2));
    assert_eq!(found, [STDOUT, STDERR]);
    manager.end().await;
}

#[tokio::test]
async fn a_flood_between_cells_costs_a_front_end_some_of_it_and_nothing_else() {
    let house = House::open().await;
    let session = house.session("a");
    let done = Signal::in_place(&house.place, "done");
    let mut client = house.client(&session, Form::V1).await;
    let code = "import os, threading
def flood():
    for _ in range(400):
        os.write(1, b'x' * 65_536)
    open('done', 'w').close()
threading.Timer(0.05, flood).start()";
    let header = client.execute(code).await;
    client.all_of(&header).await;
    // Nobody reads what the client is sent, and the thread comes to its end.
    tokio::time::timeout(Duration::from_secs(20), done.wait())
        .await
        .expect("the thread waits for a reader");
    let header = client.execute("print('next')").await;
    let messages = client.all_of(&header).await;
    assert!(says(&messages, "next\n"), "{messages:?}");
    house.close().await;
}
