//! How much a session may ask for at once.

use super::*;
use crate::tools::frame::MAX_REQUEST_BYTES;

#[tokio::test]
async fn a_request_that_is_too_long_is_skipped() {
    let house = House::new(50);
    let mut client = house.client().await;
    let length = MAX_REQUEST_BYTES + 1;
    client.0.write_all(&length.to_le_bytes()).await.unwrap();
    let piece = vec![b' '; 1 << 20];
    let mut left = length as usize;
    while left > 0 {
        let count = left.min(piece.len());
        client.0.write_all(&piece[..count]).await.unwrap();
        left -= count;
    }
    let (id, result) = client.reply().await.unwrap();
    assert_eq!(id, Value::Null);
    assert_fails(&result, "usage", "67108865 bytes; the limit is 64 MiB");
    assert_eq!(client.echo(2, "b").await, ok("b"));
}

#[tokio::test]
async fn a_tree_takes_no_more_memory_than_its_text_allows() {
    let house = House::new(50);
    let mut client = house.client().await;
    let list = format!("[{}0]", "0,".repeat(600_000));
    let request = format!(r#"{{"id":1,"cell":1,"tool":"echo","args":{{"text":{list}}}}}"#);
    client.send_bytes(request.as_bytes()).await;
    let (_, result) = client.reply().await.unwrap();
    assert_fails(&result, "usage", "echo: 'text' is a list or dict of");
    // A string of that length is what the tool makes of it.
    let text = "y".repeat(2 << 20);
    assert_eq!(client.echo(2, &text).await, ok(&text));
}

/// One of the longest requests, all but its last byte.
async fn unfinished(house: &House) -> Client {
    let mut client = house.client().await;
    let length = MAX_REQUEST_BYTES;
    let mut frame = length.to_le_bytes().to_vec();
    frame.resize(length as usize + 3, b' ');
    client.0.write_all(&frame).await.unwrap();
    client
}

/// A long request beside that, and its reply when it comes.
fn waiting(mut client: Client) -> tokio::task::JoinHandle<(Client, Value)> {
    tokio::spawn(async move {
        let text = "y".repeat(20 << 20);
        client.request(1, json!({"text": text, "size": 3})).await;
        let (_, result) = client.reply().await.unwrap();
        (client, result)
    })
}

async fn is_wanted(house: &House) {
    let began = Instant::now();
    while !house.server.shared.settings.requests.is_wanted() {
        assert!(began.elapsed() < Duration::from_secs(20));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn long_requests_wait_for_room_and_short_ones_go_on() {
    let house = House::new(50);
    let held = unfinished(&house).await;
    let long = waiting(house.client().await);
    is_wanted(&house).await;
    let mut client = house.client().await;
    let text = "y".repeat(60 << 10);
    assert_eq!(client.echo(2, &text).await, ok(&text));
    assert!(!long.is_finished());
    drop(held);
    let (mut client, result) = long.await.unwrap();
    assert_eq!(result, ok("xxx"));
    assert_eq!(client.echo(3, "again").await, ok("again"));
}

#[tokio::test]
async fn what_is_only_announced_takes_no_room() {
    let house = House::new(50);
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = house.client().await;
        let mut frame = MAX_REQUEST_BYTES.to_le_bytes().to_vec();
        frame.resize(50 << 10, b' ');
        client.0.write_all(&frame).await.unwrap();
        held.push(client);
    }
    assert_eq!(waiting(house.client().await).await.unwrap().1, ok("xxx"));
}

#[tokio::test]
async fn the_room_is_shared_by_all_sessions() {
    let house = House::new(50);
    let other = House::with(50, Arc::clone(&house.server.shared.settings.requests));
    let held = unfinished(&house).await;
    let long = waiting(other.client().await);
    is_wanted(&house).await;
    drop(held);
    assert_eq!(long.await.unwrap().1, ok("xxx"));
}

#[tokio::test]
async fn a_request_waits_for_room_no_longer_than_its_cell_lives() {
    let house = House::new(50);
    let _held = unfinished(&house).await;
    let long = waiting(house.client().await);
    is_wanted(&house).await;
    house.authority.retire();
    let (mut client, result) = long.await.unwrap();
    assert_fails(&result, "limit", "found no room beside others");
    house.server.open(House::cell(1, 50));
    assert_eq!(client.echo(3, "again").await, ok("again"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_stops_in_the_middle_makes_room_for_those_that_wait() {
    let house = House::new(50);
    let mut held = unfinished(&house).await;
    let long = waiting(house.client().await);
    is_wanted(&house).await;
    assert_eq!(long.await.unwrap().1, ok("xxx"));
    held.0.write_all(b" ").await.unwrap();
    let (_, result) = held.reply().await.unwrap();
    assert_fails(&result, "limit", "stopped in the middle");
    assert_eq!(held.echo(3, "again").await, ok("again"));
}

#[tokio::test]
async fn more_connections_than_calls_are_all_served() {
    let house = House::new(1_000);
    let mut clients = Vec::new();
    let began = Instant::now();
    for id in 0..200 {
        let mut client = house.client().await;
        client
            .request(id, json!({"text": id.to_string(), "ms": 20}))
            .await;
        clients.push(client);
    }
    for (id, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply().await, Some((json!(id), ok(&id.to_string()))));
    }
    // All but 64 had to wait, so it took at least four times as long as one of them.
    assert!(began.elapsed() >= Duration::from_millis(60));
    assert_eq!(house.authority.retire().made, 200);
}

#[tokio::test]
async fn who_never_reads_holds_nobody_up_beyond_the_cell() {
    let house = House::new(1_000);
    let mut deaf = Vec::new();
    for id in 0..70 {
        let mut client = house.client().await;
        client.request(id, json!({"size": 1 << 20})).await;
        deaf.push(client);
    }
    // Those 64 that have a place keep it.
    let mut client = house.client().await;
    client.request(1, json!({"text": "a"})).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    house.authority.retire();
    let (_, result) = client.reply().await.unwrap();
    assert_fails(&result, "refused", "no active cell");
    let next = House::cell(2, 50);
    house.server.open(Arc::clone(&next));
    client
        .send(&json!({"id": 2, "cell": 2, "tool": "echo", "args": {}, "cwd": "/"}))
        .await;
    assert_eq!(client.reply().await, Some((json!(2), ok("nothing"))));
    drop(deaf);
}

#[tokio::test]
async fn the_budget_counts_dispatched_calls_and_holds_in_parallel() {
    let house = House::new(10);
    let mut clients = Vec::new();
    for id in 0..30 {
        let mut client = house.client().await;
        client.request(id, json!({"ms": 5})).await;
        clients.push(client);
    }
    let mut made = 0;
    for client in &mut clients {
        let (_, result) = client.reply().await.unwrap();
        if result == ok("nothing") {
            made += 1;
        } else {
            assert_fails(
                &result,
                "limit",
                "tool call limit reached (10 in this cell)",
            );
            assert_eq!(result["text"], Value::Null);
        }
    }
    assert_eq!(made, 10);
    let used = house.authority.retire();
    assert_eq!((used.made, used.calls.len()), (10, 10));
}
