//! The end of a page, on a clock that moves when nothing else does.

use std::fs;
use std::time::Instant;

use super::*;
use crate::execution::LostName;
use crate::session::untold::Received;

/// Waits for what a thread writes: that is not told by the clock of the test.
async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A page of a session whose loss a result tells that is on its way.
fn page_in(folder: &Path) -> (Page, Arc<Received>, PathBuf) {
    let ledger = Ledger::open(folder.join("ledger"));
    let name = SessionName::parse("a").unwrap();
    let (page, _left) = Page::new(&ledger, &name, &Arc::default());
    let mut untold = Untold::default();
    untold.add(Loss {
        reason: LossReason::SessionClosed,
        detail: String::new(),
        lost: Lost {
            cells: 1,
            names: vec![LostName {
                name: "z".to_owned(),
                kind: "int".to_owned(),
            }],
            names_total: 1,
            ..Lost::default()
        },
    });
    let received = Arc::new(Received::default());
    let reminder = Reminder(Arc::downgrade(&page.notes));
    untold.tell(&received, false, Some(reminder));
    page.notes.send_modify(|note| {
        note.entry.generation = 1;
        note.untold = untold;
    });
    (page, received, ledger.path(&name))
}

fn is_told(path: &Path) -> Option<bool> {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    record.get("told")?.as_bool()
}

#[tokio::test(start_paused = true)]
async fn the_last_record_waits_for_the_receipt_of_a_result_that_is_on_its_way() {
    let place = tempfile::tempdir().unwrap();
    let (page, received, path) = page_in(place.path());
    // The loss stands there, and nothing is being written: the page waits for what comes next.
    until("the record", || {
        is_told(&path) == Some(false) && page.notes.receiver_count() == 2
    })
    .await;
    let ending = tokio::spawn(page.end(true));
    // The session is at its end, and whoever has the result has not said so yet.
    tokio::time::sleep(Duration::from_millis(100)).await;
    received.sign();
    until("it stays untold", || is_told(&path) == Some(true)).await;
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loss_whose_receipt_does_not_come_stays_untold() {
    let place = tempfile::tempdir().unwrap();
    let (page, received, path) = page_in(place.path());
    let began = tokio::time::Instant::now();
    page.end(true).await;
    assert!(began.elapsed() >= RECEIPT);
    until("there is no record", || path.exists()).await;
    received.sign();
    assert_eq!(is_told(&path), Some(false));
}
