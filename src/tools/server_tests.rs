//! The server with clients of this process, which stands for the kernel.

use std::time::Instant;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::tools::testing::NoJobs;
use crate::tools::{
    Arguments, Grant, Parameter, ParameterDefault, Terms, Tool, ToolContext, ToolResult, ToolSpec,
    ToolUse,
};

/// Answers with what it was given, after a while if that is asked for.
#[derive(Debug)]
struct Echo;

static ECHO: ToolSpec = ToolSpec {
    name: "echo",
    about: "Says it again.",
    parameters: &[
        Parameter {
            name: "text",
            json_type: "string",
            default: ParameterDefault::Null,
            about: "What.",
        },
        Parameter {
            name: "ms",
            json_type: "integer",
            default: ParameterDefault::Null,
            about: "How long it takes.",
        },
        Parameter {
            name: "size",
            json_type: "integer",
            default: ParameterDefault::Null,
            about: "So many bytes instead.",
        },
    ],
    returns: &["text"],
    refused: &["background"],
};

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &'static ToolSpec {
        &ECHO
    }

    async fn call(&self, arguments: Arguments, context: &ToolContext) -> ToolResult {
        let work = async {
            let text = arguments.optional_text("text")?.unwrap_or("nothing");
            if let Some(ms) = arguments.optional_integer("ms")? {
                tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())).await;
            }
            let text = match arguments.optional_integer("size")? {
                Some(size) => "x".repeat(usize::try_from(size).unwrap()),
                None => text.to_owned(),
            };
            drop(context.resolve(".")?);
            Ok(Map::from_iter([("text".to_owned(), Value::from(text))]))
        };
        work.await
            .unwrap_or_else(|failure: ToolFailure| failure.into_result(&ECHO))
    }
}

/// A server and a cell that runs.
struct House {
    server: ToolServer,
    authority: Arc<Authority>,
    _folder: tempfile::TempDir,
}

impl House {
    fn new(max_calls: u32) -> Self {
        Self::with(max_calls, RequestBudget::new())
    }

    fn with(max_calls: u32, requests: Arc<RequestBudget>) -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let settings = ToolSettings {
            table: ToolTable::of(vec![Arc::new(Echo)]),
            agent_home: folder.path().to_owned(),
            user_home: None,
            terminal_timeout: Duration::from_secs(1),
            requests,
        };
        let server = ToolServer::bind(folder.path(), settings).unwrap();
        server.admit(std::process::id());
        let authority = Self::cell(1, max_calls);
        server.open(Arc::clone(&authority));
        Self {
            server,
            authority,
            _folder: folder,
        }
    }

    fn cell(number: u64, max_calls: u32) -> Arc<Authority> {
        Authority::new(Terms {
            cell: number,
            grant: Grant::All,
            max_calls,
            deadline: None,
            jobs: Arc::new(NoJobs),
            environment: Arc::default(),
            terminal_timeout: None,
            observer: None,
        })
    }

    async fn raw(&self) -> Client {
        Client(UnixStream::connect(&self.server.path).await.unwrap())
    }

    async fn client(&self) -> Client {
        let mut client = self.raw().await;
        client
            .send(&json!({"hello": 1, "token": self.server.shared.token}))
            .await;
        client
    }
}

struct Client(UnixStream);

impl Client {
    async fn send(&mut self, value: &Value) {
        self.send_bytes(&serde_json::to_vec(value).unwrap()).await;
    }

    async fn send_bytes(&mut self, bytes: &[u8]) {
        let mut frame = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
        frame.extend_from_slice(bytes);
        self.0.write_all(&frame).await.unwrap();
    }

    async fn request(&mut self, id: u64, args: Value) {
        let request = json!({"id": id, "cell": 1, "tool": "echo", "args": args, "cwd": "/"});
        self.send(&request).await;
    }

    /// The next reply; `None` if the connection was closed.
    async fn reply(&mut self) -> Option<(Value, Value)> {
        let read = async {
            let length = self.0.read_u32_le().await.ok()?;
            let mut bytes = vec![0; length as usize];
            self.0.read_exact(&mut bytes).await.ok()?;
            let mut reply: Value = serde_json::from_slice(&bytes).unwrap();
            Some((reply["id"].take(), reply["result"].take()))
        };
        timeout(Duration::from_secs(20), read)
            .await
            .expect("no reply")
    }

    async fn echo(&mut self, id: u64, text: &str) -> Value {
        self.request(id, json!({"text": text})).await;
        let (number, result) = self.reply().await.expect("closed");
        assert_eq!(number, id);
        result
    }
}

fn ok(text: &str) -> Value {
    json!({"text": text})
}

fn assert_fails(result: &Value, class: &str, words: &str) {
    assert_eq!(result["error_class"], class, "{result}");
    let error = result["error"].as_str().unwrap();
    assert!(error.contains(words), "{error}");
}

#[tokio::test]
async fn who_may_connect() {
    let house = House::new(50);
    assert_eq!(house.client().await.echo(1, "a").await, ok("a"));
    let token = &house.server.shared.token;
    for (hello, words) in [
        (json!({"hello": 1, "token": "0".repeat(64)}), "wrong token"),
        (json!({"hello": 1, "token": ""}), "wrong token"),
        (json!({"hello": 1, "token": token.get(1..)}), "wrong token"),
        (json!({"hello": 2, "token": token}), "another version"),
        (json!({"hello": 1}), "no hello"),
        (
            json!({"id": 1, "cell": 1, "tool": "echo", "args": {}}),
            "no hello",
        ),
    ] {
        let mut client = house.raw().await;
        client.send(&hello).await;
        let (id, result) = client.reply().await.unwrap();
        assert_eq!(id, Value::Null);
        assert_fails(&result, "refused", words);
        assert_eq!(client.reply().await, None);
    }
    house.server.admit(1);
    let mut client = house.client().await;
    let (_, result) = client.reply().await.unwrap();
    assert_fails(
        &result,
        "refused",
        "does not belong to this session's kernel",
    );
    assert_eq!(house.authority.retire().made, 1);
}

#[tokio::test]
async fn the_first_frame_is_short() {
    let house = House::new(50);
    let mut client = house.raw().await;
    let hello = json!({"hello": 1, "token": house.server.shared.token, "x": "x".repeat(5_000)});
    client.send(&hello).await;
    assert_eq!(client.reply().await, None);
}

#[tokio::test]
async fn a_bad_frame_fails_that_call_only() {
    let house = House::new(50);
    let mut client = house.client().await;
    let deep = format!(
        r#"{{"id":3,"cell":1,"tool":"echo","args":{{"text":{}1{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let huge = format!(
        r#"{{"id":4,"cell":1,"tool":"echo","args":{{"ms":{}}}}}"#,
        "9".repeat(5_000)
    );
    for (bytes, id, words) in [
        (&b""[..], Value::Null, "makes no sense"),
        (b"\xff\xfe", Value::Null, "makes no sense"),
        (b"nonsense", Value::Null, "makes no sense"),
        (
            br#"{"cell":1,"tool":"echo"}"#,
            Value::Null,
            "missing field `id`",
        ),
        (
            br#"{"id":-1,"cell":1,"tool":"echo"}"#,
            Value::Null,
            "makes no sense",
        ),
        (br#"{"id":2,"cell":1,"tool":7}"#, json!(2), "makes no sense"),
        (
            deep.as_bytes(),
            json!(3),
            "echo: 'text' cannot be read: recursion limit",
        ),
        (
            huge.as_bytes(),
            json!(4),
            "echo: 'ms' cannot be read: number out of range",
        ),
        (
            br#"{"id":5,"cell":1,"tool":"echo","args":{"text":"\ud800"}}"#,
            json!(5),
            "echo: 'text' cannot be read",
        ),
        (
            br#"{"id":6,"cell":1,"tool":"echo","args":[1]}"#,
            json!(6),
            "echo: 'args' must be an object",
        ),
    ] {
        client.send_bytes(bytes).await;
        let (number, result) = client.reply().await.unwrap();
        assert_eq!(number, id);
        assert_fails(&result, "usage", words);
        assert_eq!(client.echo(9, "still here").await, ok("still here"));
    }
    // The one that was cut gets no answer; the others do not notice.
    let mut cut = house.client().await;
    cut.0.write_all(b"\x09\x00\x00\x00cut").await.unwrap();
    drop(cut);
    assert_eq!(client.echo(10, "b").await, ok("b"));
}

#[tokio::test]
async fn requests_that_come_at_once_are_answered_in_turn() {
    let house = House::new(500);
    let mut client = house.client().await;
    for id in 0..100 {
        client
            .request(id, json!({"text": id.to_string(), "ms": id % 3}))
            .await;
    }
    for id in 0..100 {
        let (number, result) = client.reply().await.unwrap();
        assert_eq!((number, result), (json!(id), ok(&id.to_string())));
    }
}

#[tokio::test]
async fn a_call_whose_caller_goes_away_is_dropped() {
    for pipelined in [false, true] {
        let house = House::new(50);
        let mut client = house.client().await;
        client.request(1, json!({"ms": 60_000})).await;
        if pipelined {
            client.request(2, json!({})).await;
        }
        let under_way = async {
            while house.server.shared.calls.available_permits() == MAX_CALLS {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(5), under_way).await.unwrap();
        drop(client);
        let over = async {
            while house.server.shared.calls.available_permits() < MAX_CALLS {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(5), over).await.unwrap();
        let ToolUse { made, calls, .. } = house.authority.retire();
        assert_eq!(made, 1);
        assert_eq!(calls.len(), 1);
        assert!(!calls[0].ok);
    }
}

#[tokio::test]
async fn refusals_are_free_and_failures_are_not() {
    let house = House::new(50);
    let mut client = house.client().await;
    let mut ask = async |tool: &str, cell: u64, args: Value| {
        let request = json!({"id": 1, "cell": cell, "tool": tool, "args": args, "cwd": "/"});
        client.send(&request).await;
        client.reply().await.unwrap().1
    };
    let result = ask("execute_code", 1, json!({})).await;
    assert_fails(
        &result,
        "refused",
        "'execute_code' cannot be called from a cell; callable: echo",
    );
    assert_fails(
        &ask("echo", 2, json!({})).await,
        "refused",
        "no active cell",
    );
    let result = ask("echo", 1, json!({"background": true})).await;
    assert_fails(&result, "refused", "'background' is not available");
    assert_fails(
        &ask("echo", 1, json!({"txt": "a"})).await,
        "usage",
        "unknown argument 'txt'",
    );
    let result = ask("echo", 1, json!({"ms": 1e30})).await;
    assert_fails(
        &result,
        "usage",
        "'ms' must be a whole number that fits into 64 bits, got 1e+30",
    );
    let result = ask("echo", 1, json!({"size": 17 << 20})).await;
    assert_fails(&result, "limit", "16 MiB");
    let used = house.authority.retire();
    assert_eq!(used.made, 3);
    assert!(
        used.calls
            .iter()
            .all(|call| !call.ok && call.tool == "echo")
    );
}

#[tokio::test]
async fn a_caller_without_a_directory_has_no_relative_paths() {
    let house = House::new(50);
    let mut client = house.client().await;
    for cwd in [json!(null), json!("relative"), json!(5)] {
        client
            .send(&json!({"id": 1, "cell": 1, "tool": "echo", "args": {}, "cwd": cwd}))
            .await;
        let (_, result) = client.reply().await.unwrap();
        assert_fails(
            &result,
            "exception",
            "relative to the working directory, which is gone",
        );
    }
}

#[path = "server_limits_tests.rs"]
mod limits;
