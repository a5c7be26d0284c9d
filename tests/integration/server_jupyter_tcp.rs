//! `warmcell serve --tcp`: who may come in, and code that is not ours as its client.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tokio::net::TcpStream;

use crate::command_kit::{Running, assert_nothing_left, piped};
use crate::jupyter_kit::{Client, Form, ask, environment};
use crate::lifecycle_support::signal;
use crate::support::{Place, finish, python, pythons, text};

/// Versions of the clients, and the folder that holds them.
const CLIENTS: [&str; 3] = [
    "jupyter_server==2.21.1",
    "jupyter_client==8.10.0",
    "websocket-client==1.9.2",
];

/// A server that listens on a port of its own.
struct Served {
    server: Running,
    address: String,
    token: String,
}

impl Served {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = serve(place, arguments);
        let mut server = Running::start(piped(&mut command));
        let mut line = String::new();
        let stdout = server.0.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix("http://");
        let (address, query) = rest
            .unwrap_or_else(|| panic!("{line:?}"))
            .split_once('/')
            .unwrap();
        let token = query.strip_prefix("?token=").unwrap_or_default();
        Self {
            server,
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    async fn get(&self, path: &str, headers: &str) -> u16 {
        ask(self.connect().await, "GET", path, headers, &json!({}))
            .await
            .0
    }

    async fn end(mut self, place: &Place) {
        signal(self.server.pid(), rustix::process::Signal::TERM);
        assert_eq!(self.server.ended().await, Some(0));
        assert_nothing_left(place).await;
    }
}

fn serve(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.warmcell(&["serve"]);
    command
        .args(arguments)
        .env("PATH", environment(place).get("PATH").unwrap())
        .env("MY_TOKEN", "a secret of the server's");
    command
}

#[tokio::test]
async fn over_tcp_nobody_comes_in_without_the_token() {
    let place = Place::new();
    let served = Served::start(&place, &["--tcp", "127.0.0.1:0"]);
    let token = served.token.clone();
    assert_eq!(token.len(), 64);
    let almost = format!("{}x", token.chars().take(63).collect::<String>());
    for path in ["/api", "/api/kernels", "/warmcell/v1", "/nothing"] {
        assert_eq!(served.get(path, "").await, 401, "{path}");
        let wrong = format!("authorization: token {almost}\r\n");
        assert_eq!(served.get(path, &wrong).await, 403, "{path}");
    }
    let right = format!("authorization: Bearer {token}\r\n");
    assert_eq!(served.get("/api", &right).await, 200);
    assert_eq!(served.get(&format!("/api?token={token}"), "").await, 200);
    assert_eq!(served.get(&format!("/api?token={almost}"), "").await, 403);
    assert_eq!(served.get("/warmcell/v1/sessions", &right).await, 200);

    let stream = served.connect().await;
    let (status, kernel) = ask(stream, "POST", "/api/kernels", &right, &json!({})).await;
    assert_eq!(status, 201, "{kernel}");
    let channels = format!("/api/kernels/{}/channels", kernel["id"].as_str().unwrap());
    for (query, refused) in [("", "401"), ("?token=x", "403")] {
        let stream = served.connect().await;
        let Err(error) = Client::open(stream, &format!("{channels}{query}"), Form::V1).await else {
            panic!("came in with {query:?}");
        };
        assert!(error.to_string().contains(refused), "{error}");
    }
    let stream = served.connect().await;
    let mut client = Client::open(stream, &format!("{channels}?token={token}"), Form::V1)
        .await
        .unwrap();
    // The server's own environment is not the kernel's.
    let code = "import os; 'MY_TOKEN' in os.environ, os.environ.get('HERMES_HOME'), os.getcwd()";
    let words = client.run(code).await;
    let expected = format!("[1]: (False, None, '{}')", place.work().display());
    assert!(words.contains(&expected), "{words:?}");
    drop(client);
    served.end(&place).await;
}

#[tokio::test]
async fn a_token_may_come_from_a_private_file_and_is_not_printed_then() {
    let place = Place::new();
    let file = place.work().join("token");
    fs::write(&file, "a-token-of-my-own\n").unwrap();
    let name = file.to_str().unwrap();
    for (mode, sentence) in [(0o644, "not yours alone"), (0o600, "")] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let arguments = ["--tcp", "0.0.0.0:0", "--token-file", name];
        if mode == 0o644 {
            let output = finish(&mut serve(&place, &arguments));
            assert_eq!(output.status.code(), Some(125));
            let told = text(&output.stderr);
            assert!(told.contains(sentence), "{told}");
            assert!(output.stdout.is_empty());
            continue;
        }
        let mut served = Served::start(&place, &arguments);
        assert_eq!(served.token, "");
        let port = served.address.rsplit_once(':').unwrap().1;
        served.address = format!("127.0.0.1:{port}");
        let right = "authorization: token a-token-of-my-own\r\n";
        assert_eq!(served.get("/api", right).await, 200);
        assert_eq!(served.get("/api", "").await, 401);
        signal(served.server.pid(), rustix::process::Signal::TERM);
        assert_eq!(served.server.ended().await, Some(0));
        let (_, told) = served.server.printed();
        assert!(told.contains("WARNING"), "{told}");
    }
    for arguments in [["--tcp", "nonsense"], ["--token-file", name]] {
        let output = finish(&mut serve(&place, &arguments));
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    assert_nothing_left(&place).await;
}

#[tokio::test]
async fn the_code_of_jupyter_server_reads_what_we_write_and_we_what_it_writes() {
    let Some(client) = clients() else { return };
    let place = Place::new();
    let served = Served::start(&place, &["--tcp", "127.0.0.1:0"]);
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/jupyter_server_client.py");
    let mut command = place.command(client.to_str().unwrap());
    command
        .arg(script)
        .args([&served.address, &served.token])
        .env("JUPYTER_CONFIG_DIR", place.work())
        .current_dir(place.work());
    let output = tokio::task::spawn_blocking(move || finish(&mut command))
        .await
        .unwrap();
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("OK\n"), "{shown}");
    served.end(&place).await;
}

/// A Python with the clients, installed once below `target/`; none if that cannot be done.
#[expect(clippy::disallowed_methods, reason = "a test sets up its tools")]
fn clients() -> Option<PathBuf> {
    let name = CLIENTS.join("-").replace("==", "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python_there = folder.join("bin/python");
    let done = folder.join("installed");
    if done.exists() {
        return Some(python_there);
    }
    // Today's versions need Python 3.10.
    let is_new_enough = |version: &str| !matches!(version, "3.8" | "3.9");
    if !pythons()
        .last()
        .is_some_and(|(version, _)| is_new_enough(version))
    {
        eprintln!("NOT TESTED: Jupyter's own clients need Python 3.10 or newer");
        return None;
    }
    let mut make = Command::new(python());
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    let mut install = Command::new(&python_there);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    install.args(CLIENTS);
    for command in [&mut make, &mut install] {
        let output = command.output();
        if !output.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("NOT TESTED: Jupyter's own clients cannot be installed: {output:?}");
            return None;
        }
    }
    fs::write(done, "").unwrap();
    Some(python_there)
}
