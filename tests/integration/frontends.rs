//! A session as Jupyter's front ends see it, whatever carries the messages: here nothing does.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use warmcell::frontends::{Client, Frontends, Next, Outbox, Outgoing, Request, Why};
use warmcell::jupyter::{Channel, RawMessage};

use crate::support::{Manager, SAFETY};

/// What is to be sent next.
async fn next(outbox: &Outbox) -> Result<Arc<Outgoing>, Why> {
    let next = tokio::time::timeout(SAFETY, outbox.next()).await;
    match next.expect("nothing comes").expect("it has ended") {
        Next::Send(item) => {
            if let Some(receipt) = item.receipt {
                receipt.sign();
            }
            Ok(item.message)
        }
        Next::Close(why, _) => Err(why),
    }
}

#[tokio::test]
async fn the_translation_needs_no_socket() {
    let manager = Manager::start().await;
    let session = manager.session("a");
    let frontends = Arc::new(Frontends::default());
    let room = Arc::new(Semaphore::new(8));
    let asker = frontends.outbox();
    let watcher = frontends.outbox();
    let joined = frontends.join(session.clone(), Arc::clone(&asker));
    let joined_too = frontends.join(session.clone(), Arc::clone(&watcher));
    assert_eq!(frontends.clients(&session), 2);
    assert!(session.is_attended());
    let client = Client::start(&joined);

    let header = Bytes::from_static(br#"{ "msg_id":"1", "msg_type":"execute_request" }"#);
    let content = json!({ "code": "import os; n = os.write(1, b'a\\n'); 2" }).to_string();
    let request = Request::new(Channel::Shell, header.clone(), content.into()).unwrap();
    client.take(request, Arc::clone(&room).try_acquire_owned().unwrap());
    let published = [
        ("status", json!({ "execution_state": "busy" })),
        (
            "execute_input",
            json!({ "code": "import os; n = os.write(1, b'a\\n'); 2", "execution_count": 1 }),
        ),
        ("stream", json!({ "name": "stdout", "text": "a\n" })),
        (
            "execute_result",
            json!({ "data": { "text/plain": "2" }, "metadata": {}, "execution_count": 1 }),
        ),
        ("status", json!({ "execution_state": "idle" })),
    ];
    for outbox in [&asker, &watcher] {
        let mut expected = published.iter();
        let mut replies = 0;
        let mut seen = 0;
        while seen < published.len() {
            let outgoing = next(outbox).await.unwrap();
            let RawMessage {
                channel,
                header: own,
                parent_header,
                metadata,
                content,
                buffers,
            } = &outgoing.message;
            assert_eq!(parent_header, &header);
            assert_eq!(buffers.len(), 0);
            // The reply to a cell says when it began.
            let has_more = *channel == Channel::Shell;
            assert_eq!(metadata.starts_with(b"{\"started\":\"20"), has_more);
            assert_eq!(metadata.as_ref() == b"{}", !has_more);
            let own: Value = serde_json::from_slice(own).unwrap();
            assert_eq!(own["msg_type"], outgoing.msg_type);
            assert_eq!(own["msg_id"], outgoing.msg_id);
            let content: Value = serde_json::from_slice(content).unwrap();
            if *channel == Channel::Shell {
                assert_eq!(outgoing.msg_type, "execute_reply");
                assert_eq!(content["status"], "ok");
                replies += 1;
            } else {
                assert_eq!(*channel, Channel::Iopub);
                let (msg_type, expected) = expected.next().unwrap();
                assert_eq!((outgoing.msg_type, &content), (*msg_type, expected));
                seen += 1;
            }
        }
        assert_eq!(replies, usize::from(Arc::ptr_eq(outbox, &asker)));
    }
    assert_eq!(room.available_permits(), 8);

    drop(joined_too);
    assert!(watcher.next().await.is_none());
    assert_eq!(frontends.clients(&session), 1);
    drop(session.close().await);
    let dead = next(&asker).await.unwrap();
    assert_eq!(
        dead.message.content.as_ref(),
        br#"{"execution_state":"dead"}"#
    );
    assert!(matches!(next(&asker).await, Err(Why::Closed)));
    drop(joined);
    manager.end().await;
}
