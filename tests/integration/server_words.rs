//! Whatever is asked of a door, and however: the answer is JSON, and says what is wrong.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server_kit::{Answer, Home};
use crate::support::text;

#[tokio::test]
async fn every_refusal_is_json_of_one_shape() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let sessions = "/warmcell/v1/sessions";
    for (method, path, status, told) in [
        (
            "PUT",
            sessions,
            405,
            "PUT is not possible at \"/warmcell/v1/sessions\"; possible: GET, HEAD",
        ),
        (
            "GET",
            "/warmcell/v1/sessions/a/cells",
            405,
            "possible: POST",
        ),
        ("OPTIONS", "/warmcell/v1", 405, "possible: GET, HEAD"),
        ("PATCH", "/api/kernels", 405, "possible: "),
        (
            "POST",
            "/warmcell/v1/cells/x",
            404,
            "there is nothing at POST",
        ),
        (
            "GET",
            "/warmcell/v2",
            404,
            "there is nothing at GET \"/warmcell/v2\"",
        ),
        ("GET", "/api/nothing", 404, "there is nothing at"),
        ("GET", "/", 404, "there is nothing at"),
        (
            "GET",
            "/warmcell/v1/sessions/%zz",
            400,
            "the path holds \"%zz\"",
        ),
        (
            "GET",
            "/warmcell/v1/sessions/a%",
            400,
            "the path holds \"%\"",
        ),
        (
            "GET",
            "/warmcell/v1/sessions/a%00",
            400,
            "the path holds a NUL",
        ),
        ("GET", "/warmcell/v1/sessions/%FF", 400, "is no UTF-8"),
        (
            "POST",
            "/warmcell/v1/cells/%FF/interrupt",
            400,
            "is no UTF-8",
        ),
        ("GET", "/api/kernels/%C3", 400, "is no UTF-8"),
        ("GET", "/%zz", 400, "the path holds \"%zz\""),
        (
            "GET",
            "/warmcell/v1/sessions/none",
            404,
            "there is no session none",
        ),
    ] {
        let answer = home.ask(method, path, &json!({}));
        let (found, sentence) = answer.usage();
        assert_eq!(found, status, "{method} {path}: {answer:?}");
        assert!(sentence.contains(told), "{method} {path}: {sentence}");
        assert_eq!(
            answer.head.contains("\r\nallow: "),
            status == 405,
            "{answer:?}"
        );
        assert!(answer.head.contains("connection: close"), "{answer:?}");
    }
    // A WebSocket that is none.
    let id = home.ask("GET", "/api/kernels", &json!({})).json()[0]["id"].clone();
    let channels = format!("/api/kernels/{}/channels", id.as_str().unwrap());
    let answer = home.say("GET", &channels, "", "");
    assert!((400..500).contains(&answer.status), "{answer:?}");
    answer.usage();
    // Whatever its body is said to be, it is read as JSON; but not unpacked.
    let path = "/warmcell/v1/sessions/a/cells";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "nonsense",
    ] {
        let answer = home.say(
            "POST",
            path,
            &format!("content-type: {kind}\r\n"),
            r#"{"code":"x"}"#,
        );
        assert_eq!(answer.json()["result"], "1", "{answer:?}");
    }
    let (status, sentence) = home
        .say("POST", path, "content-encoding: gzip\r\n", "x")
        .usage();
    assert_eq!(status, 415);
    assert!(
        sentence.contains("encoded as \"gzip\"; send it as it is"),
        "{sentence}"
    );
    let answer = home.say(
        "POST",
        path,
        "content-encoding: identity\r\n",
        r#"{"code":"x"}"#,
    );
    assert_eq!(answer.json()["result"], "1");
    home.end().await;
}

#[tokio::test]
async fn what_is_no_request_is_answered_in_json_too() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let long = "y".repeat(200_000);
    for (request, status) in [
        ("\0\x01\x02garbage\r\n\r\n".to_owned(), 400),
        ("GET\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        (
            "POST /warmcell/v1/stop HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n".to_owned(),
            400,
        ),
        ("GET / HTTP/1.1\r\nno header\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), 431),
    ] {
        let answer = Answer::read(&home.http(&request));
        let shown: String = request.chars().take(40).collect();
        assert_eq!(answer.status, status, "{shown:?}: {answer:?}");
        assert!(!answer.usage().1.is_empty());
        assert!(answer.head.contains("connection: close"), "{answer:?}");
    }
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    home.end().await;
}

/// Nobody sends a gigabyte to be told that it is too much.
#[tokio::test]
async fn a_body_that_is_announced_too_long_is_refused_at_once() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    for path in [
        "/warmcell/v1/sessions/a/cells",
        "/warmcell/v1/sessions/a/wait",
        "/api/kernels",
    ] {
        for more in ["", "expect: 100-continue\r\n"] {
            let mut stream = UnixStream::connect(home.socket()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\n{more}content-length: {}\r\n\r\n",
                (64 << 20) + 1
            );
            // Nothing of the body is sent.
            stream.write_all(head.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let answer = Answer::read(&text(&answer));
            let (status, sentence) = answer.usage();
            assert_eq!(
                (status, sentence.as_str()),
                (413, "the body has more than 64 MiB")
            );
        }
    }
    home.end().await;
}

#[tokio::test]
async fn a_kernel_is_asked_for_with_an_object() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    for (body, told) in [
        ("[]", "the body must be a JSON object, got []"),
        ("null", "got null"),
        ("\"python3\"", "got \"python3\""),
        ("5", "got 5"),
        ("{", "the body makes no sense: EOF"),
        (r#"{"env":{"A=B":"x"}}"#, "has a variable \"A=B\""),
        (r#"{"env":{"A":"\u0000"}}"#, "gives A a value with a NUL"),
    ] {
        let (status, sentence) = home.say("POST", "/api/kernels", "", body).usage();
        assert_eq!(status, 400, "{body}");
        assert!(sentence.contains(told), "{body}: {sentence}");
    }
    let kernels = home.ask("GET", "/api/kernels", &Value::Null).json();
    assert_eq!(kernels.as_array().unwrap().len(), 1);
    home.end().await;
}

/// Sends bytes and closes the writing half; the answer.
fn half(home: &Home, sent: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(home.socket()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream.write_all(sent).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    Answer::read(&text(&answer))
}

#[tokio::test]
async fn what_the_library_gives_up_without_a_word_is_answered_too() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    for (sent, told) in [
        (
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
            "this is HTTP/2, and HTTP/1.1 is spoken here",
        ),
        (
            b"GET /warmcell/v1 HT",
            "the request ends before its head does",
        ),
        (
            b"GET /warmcell/v1 HTTP/1.1\r\nhost: x\r\n",
            "the request ends before its head does",
        ),
    ] {
        let (status, sentence) = half(&home, sent).usage();
        assert_eq!(status, 400, "{sentence}");
        assert!(sentence.contains(told), "{sentence}");
    }
    // Who says nothing is told nothing.
    let mut silent = UnixStream::connect(home.socket()).unwrap();
    silent.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    silent.read_to_end(&mut answer).unwrap();
    assert_eq!(text(&answer), "");
    home.end().await;
}

/// At the door a caller has keys, and on the command line flags.
#[tokio::test]
async fn a_caller_is_told_of_what_it_has() {
    let home = Home::new();
    home.run(&["exec", "-s", "lives", "1"]);
    let missing = home.place.work().join("missing");
    let caller = |key: &str, value: Value| {
        let mut caller = home.caller();
        caller[key] = value;
        json!({ "code": "1", "caller": caller })
    };
    for (session, key, value, status, told) in [
        (
            "new",
            "cwd",
            json!(missing),
            400,
            "give a directory that exists (`caller.cwd` or `caller.directory`)",
        ),
        (
            "new",
            "directory",
            json!(missing),
            400,
            "give a directory that exists (`caller.cwd` or `caller.directory`)",
        ),
        (
            "lives",
            "directory",
            json!(missing),
            400,
            "give a directory that exists (`caller.cwd` or `caller.directory`)",
        ),
        (
            "new",
            "python",
            json!("/bin/false"),
            503,
            "/bin/false (from `caller.python`)",
        ),
        (
            "lives",
            "python",
            json!("/bin/false"),
            503,
            "install Python 3.8 or newer, or name one with `caller.python`",
        ),
    ] {
        let answer = home.order(session, &caller(key, value));
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, status, "{error}");
        assert!(error.contains(told) && !error.contains("--"), "{error}");
    }
    for (arguments, told) in [
        (["--cwd", "missing"], "give a directory that exists (--cwd)"),
        (["--python", "/bin/false"], "/bin/false (from --python)"),
        (["--python", "/bin/false"], "or name one with --python PATH"),
    ] {
        for json in [&[][..], &["--json"]] {
            let line = [&["exec", "-s", "lives"], &arguments[..], json, &["1"]].concat();
            let (_, out, err) = home.run(&line);
            let said = out + &err;
            assert!(said.contains(told) && !said.contains("`caller"), "{said}");
        }
    }
    home.end().await;
}

/// What is wrong with an order is told before what is missing besides.
#[tokio::test]
async fn an_order_that_will_not_do_is_refused_as_such_wherever_it_goes() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    for order in [
        json!({ "code": "" }),
        json!({ "code": "1", "timeout": 0 }),
        json!({ "code": "1", "tools": ["telepathy"] }),
    ] {
        let (status, refused) = home.order("none", &order).usage();
        assert_eq!(status, 400, "{refused}");
        assert!(!refused.contains("no session"), "{refused}");
    }
    let (status, refused) = home.order("none", &json!({ "code": "1" })).usage();
    assert_eq!(status, 404, "{refused}");
    let caller = |key: &str, value: Value| {
        let mut caller = home.caller();
        caller[key] = value;
        json!({ "code": "1", "caller": caller })
    };
    for (key, value, told) in [
        (
            "limits",
            json!({ "cpu": -1 }),
            "`caller.limits`: cpu is -1; give a number from 0",
        ),
        (
            "limits",
            json!({ "core": 1 }),
            "`caller.limits`: there is no limit \"core\" to be set; there are cpu, fsize, stack, rss, nproc, \
             nofile, memlock, sigpending, msgqueue, nice, rtprio, rttime, data, as",
        ),
        (
            "nice",
            json!(20),
            "`caller.nice`: it is 20; give a number from -20 to 19",
        ),
    ] {
        let (_, refused) = home.order("none", &caller(key, value)).usage();
        assert!(refused.starts_with(told), "{refused}");
        assert!(!refused.contains(" at line "), "{refused}");
    }
    home.end().await;
}
