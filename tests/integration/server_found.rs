//! A background server whose socket or folder is removed is found again.

use std::fs;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use warmcell::folders::{ServerAddress, ServerLock, door_folders};
use warmcell::server::{Door, Manager};
use warmcell::session::Registry;

use crate::lifecycle_support::{signal, until, written};
use crate::server_kit::{Home, ended, parts};
use crate::support::finish;

fn runtime(home: &Home) -> PathBuf {
    home.place.folder.path().join("run")
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The folder in which the server of a home is to be, whether or not it is there.
fn doors(home: &Home) -> PathBuf {
    let run = runtime(home);
    door_folders(Some(&run), &home.place.home()).remove(0)
}

/// What can happen to the folder of a server: name and deed.
type Deed = (&'static str, fn(&Home));

const DEEDS: [Deed; 9] = [
    ("the socket removed", |home| {
        fs::remove_file(doors(home).join("server.sock")).unwrap();
    }),
    ("the lock and the socket removed", |home| {
        fs::remove_file(doors(home).join("server.lock")).unwrap();
        fs::remove_file(doors(home).join("server.sock")).unwrap();
    }),
    ("the folder removed", |home| {
        fs::remove_dir_all(doors(home)).unwrap();
    }),
    ("all of ours removed", |home| {
        fs::remove_dir_all(runtime(home).join("warmcell")).unwrap();
    }),
    ("the runtime folder removed", |home| {
        fs::remove_dir_all(runtime(home)).unwrap();
    }),
    ("the folder moved away", |home| {
        fs::rename(doors(home), home.place.work().join("moved")).unwrap();
    }),
    ("all of ours moved away", |home| {
        let to = home.place.work().join("moved");
        fs::rename(runtime(home).join("warmcell"), to).unwrap();
    }),
    ("another socket in its place", |home| {
        fs::remove_file(doors(home).join("server.sock")).unwrap();
        // Nobody listens there.
        drop(UnixListener::bind(doors(home).join("server.sock")).unwrap());
    }),
    ("open to others", |home| {
        chmod(&doors(home), 0o755);
        chmod(&doors(home).join("server.sock"), 0o666);
    }),
];

/// Whatever is done to its folder: the next command finds the server, its state and its sessions, new
/// ones can be opened, tools can be called; it is told of no loss, there is no second server, and
/// `serve --stop` leaves nothing.
#[tokio::test]
async fn a_living_server_is_found_whatever_is_done_to_its_folder() {
    for (name, deed) in DEEDS {
        let home = Home::new();
        home.run(&["exec", "-s", "a", "x = 41"]);
        let server = home.server();
        deed(&home);
        let result = home.json("a", "x + 1");
        assert_eq!(result["result"], "42", "{name}: {result}");
        assert_eq!(result["kernel"]["state"], "kept", "{name}: {result}");
        assert_eq!(result["kernel"].get("reason"), None, "{name}: {result}");
        let tool = home.json("a", "terminal('echo hi')['output']");
        assert_eq!(tool["result"], "'hi\\n'", "{name}: {tool}");
        let fresh = home.json("b", "terminal('echo hi')['output']");
        assert_eq!(fresh["result"], "'hi\\n'", "{name}: {fresh}");
        let (code, out, err) = home.run(&["sessions", "--json"]);
        let all: Value = serde_json::from_str(&out).unwrap();
        let pids: Vec<_> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["manager"]["pid"])
            .collect();
        assert_eq!(
            (code, pids),
            (0, vec![&Value::from(server); 2]),
            "{name}: {err} {all}"
        );
        // It stands there as at the start.
        until(name, || {
            let folder = fs::metadata(doors(&home)).map(|it| it.permissions().mode() & 0o777);
            let socket = fs::metadata(doors(&home).join("server.sock"));
            let socket = socket.map(|it| it.permissions().mode() & 0o777);
            ServerLock::holder(&doors(&home)) == Some(server)
                && matches!((folder, socket), (Ok(0o700), Ok(0o600)))
        })
        .await;
        home.end().await;
    }
}

/// Nobody need ask: the socket is there again by itself, for those who know only its path.
#[tokio::test]
async fn a_socket_that_is_removed_comes_back_by_itself() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let socket = home.socket();
    for deed in [
        (|socket: &Path| fs::remove_file(socket).unwrap()) as fn(&Path),
        |socket| fs::remove_dir_all(socket.ancestors().nth(3).unwrap()).unwrap(),
        |socket| {
            let away = socket.ancestors().nth(4).unwrap().join("work/away");
            fs::rename(socket.parent().unwrap(), away).unwrap();
        },
    ] {
        deed(&socket);
        until("a socket", || UnixStream::connect(&socket).is_ok()).await;
        let answer = home.http("GET /warmcell/v1 HTTP/1.0\r\n\r\n");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let info: Value = serde_json::from_str(body).unwrap();
        assert_eq!(info["socket"], socket.display().to_string());
    }
    home.end().await;
}

/// Who removes it without end makes neither the server spin nor commands fail for long; a cell that
/// was handed over is not disturbed.
#[tokio::test]
async fn who_removes_the_socket_without_end_makes_little_work() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let server = home.server();
    let socket = home.socket();
    let gate = home.place.work().join("gate");
    let waiting =
        format!("import os, time\nwhile not os.path.exists({gate:?}): time.sleep(0.01)\nx");
    let client = home.start(&["exec", "-s", "a", &waiting]);
    home.state("a", "busy").await;
    let before = processor_ticks(server);
    let began = Instant::now();
    let mut removed = 0_u32;
    while began.elapsed() < Duration::from_secs(2) {
        if fs::remove_file(&socket).is_ok() {
            removed += 1;
        }
        tokio::task::yield_now().await;
    }
    // 50 ms, 100, 200, 400, 800: not more.
    assert!((1..=8).contains(&removed), "{removed}");
    // A hundredth of a second each.
    let ticks = processor_ticks(server) - before;
    assert!(ticks < 100, "{ticks}");
    fs::write(&gate, "").unwrap();
    let (code, out, err) = ended(client);
    assert_eq!((code, out.as_str()), (0, "1\n"), "{err}");
    let (_, out, err) = home.run(&["exec", "-s", "a", "x"]);
    assert_eq!(out, "1\n", "{err}");
    home.end().await;
}

fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Commands that come while the folder is removed again and again all find the one server.
#[tokio::test]
async fn commands_and_removals_at_once_start_no_second_server() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 0"]);
    let server = home.server();
    for _ in 0..3 {
        let clients: Vec<_> = (0..4)
            .map(|_| home.start(&["exec", "-s", "a", "--json", "x += 1"]))
            .collect();
        drop(fs::remove_dir_all(runtime(&home).join("warmcell")));
        for client in clients {
            let (code, out, err) = ended(client);
            assert_eq!(code, 0, "{out} {err}");
        }
    }
    assert_eq!(home.json("a", "x")["result"], "12");
    until("the lock", || {
        ServerLock::holder(&doors(&home)) == Some(server)
    })
    .await;
    home.end().await;
}

/// Where its folder cannot be made again it goes to the next place in which clients look, and a caller
/// of another runtime folder finds it, too.
#[tokio::test]
async fn a_server_whose_folder_cannot_be_made_again_goes_where_clients_look() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 41"]);
    let server = home.server();
    // A file where the runtime folder was: nothing can be made there, by root neither.
    fs::remove_dir_all(runtime(&home)).unwrap();
    fs::write(runtime(&home), "").unwrap();
    assert_eq!(home.run(&["exec", "-s", "a", "x + 1"]).1, "42\n");
    let next = home.place.home().join("warmcell/run");
    assert_eq!(ServerLock::holder(&next), Some(server));
    let mut elsewhere = home.command(&["exec", "-s", "a", "x + 2"]);
    let other = home.place.work().join("other");
    elsewhere.env("XDG_RUNTIME_DIR", &other);
    assert_eq!(parts(&finish(&mut elsewhere)).1, "43\n");
    fs::remove_file(runtime(&home)).unwrap();
    let (code, _, err) = home.run(&["serve", "--stop"]);
    assert_eq!(code, 0, "{err}");
    assert!(!next.exists());
    home.assert_nothing_left().await;
}

/// A server that is stopped as its folder is removed: no second one is started, and no loss is told.
#[tokio::test]
async fn a_server_that_is_neither_found_nor_answers_is_named() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "x = 1"]);
    let server = home.server();
    signal(server, Signal::STOP);
    fs::remove_dir_all(runtime(&home).join("warmcell")).unwrap();
    let began = Instant::now();
    let (code, out, err) = home.run(&["exec", "-s", "a", "--json", "x"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &result["error_class"]),
        (125, &"unavailable".into()),
        "{err}"
    );
    let error = result["error"].as_str().unwrap();
    assert!(
        error.contains(&format!("(process {server})"))
            && error.contains(&format!("kill -CONT {server}")),
        "{error}"
    );
    let (code, _, err) = home.run(&["sessions"]);
    assert!(
        code == 0 && err.contains(&format!("(process {server})")),
        "{err}"
    );
    // Promises: 5 s and 2 s; beyond that only what a busy machine takes.
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    signal(server, Signal::CONT);
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    // And one that is stopped for good can be ended all the same.
    signal(server, Signal::STOP);
    fs::remove_dir_all(runtime(&home).join("warmcell")).unwrap();
    let (code, _, err) = home.run(&["serve", "--stop"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains(&format!("(process {server})")), "{err}");
    home.assert_nothing_left().await;
}

/// Two servers of one home cannot be, by whatever folder they are started.
#[tokio::test]
async fn there_is_one_server_of_a_home_whatever_the_runtime_folder() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let mut second = home.command(&["serve"]);
    second.env("XDG_RUNTIME_DIR", home.place.work().join("other"));
    let (code, _, err) = parts(&finish(&mut second));
    assert_eq!(code, 125);
    let sentence = format!(
        "a background server runs already (process {})",
        home.server()
    );
    assert!(err.contains(&sentence), "{err}");
    assert!(
        !home.place.work().join("other/warmcell").exists() || {
            let left = fs::read_dir(home.place.work().join("other/warmcell"))
                .unwrap()
                .count();
            left == 0
        }
    );
    home.end().await;
}

/// The address is no door: it says where the door is and takes nothing.
#[tokio::test]
async fn whoever_asks_at_the_address_is_told_the_socket_and_nothing_else() {
    let home = Home::new();
    home.run(&["exec", "-s", "a", "1"]);
    let address = ServerAddress::of(&home.place.home());
    let ask = |words: &[u8]| {
        let name = address.as_path().as_os_str().as_encoded_bytes();
        let name = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        let mut stream = UnixStream::connect_addr(&name).unwrap();
        stream.write_all(words).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let expected = format!("+@{}", home.socket().display());
    assert_eq!(ask(b""), expected);
    assert!(!ask(b"POST /warmcell/v1/stop HTTP/1.0\r\n\r\n").contains("HTTP"));
    assert_eq!(home.run(&["sessions"]).0, 0);
    home.end().await;
}

/// The door of a program's own manager comes back, too.
#[tokio::test(flavor = "multi_thread")]
async fn the_door_of_a_program_comes_back() {
    let home = Home::new();
    let settings = home.place.settings();
    let folders = door_folders(settings.runtime_dir.as_deref(), &settings.home);
    let registry = std::sync::Arc::new(Registry::start(settings).await.unwrap());
    let manager = Manager::new(registry.clone(), "program", "tester", home.place.home());
    let door = Door::open(&manager, &folders).unwrap();
    let path = door.path();
    for deed in [
        (|path: &Path| fs::remove_file(path).unwrap()) as fn(&Path),
        |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
        |path| fs::remove_dir_all(path.ancestors().nth(3).unwrap()).unwrap(),
    ] {
        deed(&path);
        until("the door", || UnixStream::connect(&path).is_ok()).await;
        assert_eq!(door.path(), path);
    }
    // What another has put in its place is not removed by its end.
    registry.shut_down().await;
    drop(door);
    until("the end", || !path.exists()).await;
    assert!(!folders[0].exists());
}

/// Who has taken the names of a home's server before it gets nothing to read, and is in nobody's way.
#[tokio::test]
async fn sockets_of_another_user_are_not_spoken_to() {
    if !rustix::process::getuid().is_root() {
        eprintln!("NOT TESTED: only root can become another user");
        return;
    }
    let home = Home::new();
    let folder = doors(&home);
    fs::create_dir_all(&folder).unwrap();
    let above = folder.ancestors().skip(1);
    let above: Vec<_> = above
        .take_while(|it| it.starts_with(home.place.folder.path()))
        .collect();
    for folder in &above {
        chmod(folder, 0o711);
    }
    chmod(&folder, 0o777);
    let script = "import os, select, socket, sys\n\
        os.setgid(65534); os.setuid(65534)\n\
        names = [sys.argv[1], b'\\0' + sys.argv[2].encode()]\n\
        held = [socket.socket(socket.AF_UNIX) for _ in names]\n\
        for one, name in zip(held, names):\n    one.bind(name)\n    one.listen()\n\
        os.chmod(sys.argv[1], 0o666)\n\
        print('ready', flush=True)\n\
        got = b''\n\
        while True:\n    came = select.select([*held, sys.stdin], [], [])[0]\n    if sys.stdin in came:\n        break\n    \
        for one in came:\n        peer = one.accept()[0]\n        got += peer.recv(1000)\n\
        print('got', got)";
    let address = ServerAddress::of(&home.place.home());
    let name = address.as_path().to_str().unwrap().trim_start_matches('\0');
    let said = home.place.work().join("said");
    let mut stranger = home
        .place
        .command(crate::support::python().to_str().unwrap())
        .args([
            "-c",
            script,
            folder.join("server.sock").to_str().unwrap(),
            name,
        ])
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    written(&said).await;
    chmod(&folder, 0o700);
    for folder in &above {
        chmod(folder, 0o700);
    }
    let (code, out, err) = home.run(&["exec", "-s", "a", "6 * 7"]);
    assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
    assert_eq!(home.run(&["exec", "-s", "a", "6 * 7"]).1, "42\n");
    drop(stranger.stdin.take());
    assert!(stranger.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&said).unwrap(), "ready\ngot b''\n");
    home.end().await;
}
