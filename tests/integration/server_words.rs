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
