//! Orders of cells that come through the door: what will not do is refused, by its name.

use serde_json::{Value, json};

use crate::server_kit::Home;

/// A home whose server has a session `a`.
fn home() -> Home {
    let home = Home::new();
    let (code, _, err) = home.run(&["exec", "-s", "a", "x = 1"]);
    assert_eq!(code, 0, "{err}");
    home
}

#[tokio::test]
async fn a_grant_of_tools_that_do_not_exist_is_refused() {
    let home = home();
    let call = "[type(f('f'))is dict and f('f').get('error_class') for f in (read_file,)]";
    let with = |tools: Value| home.order("a", &json!({ "code": call, "tools": tools }));
    for (tools, told) in [
        (
            json!(["read_fil"]),
            "there is no tool \"read_fil\"; there are ",
        ),
        (
            json!(["read_file", "x", "READ_FILE"]),
            "no tool \"READ_FILE\" or \"x\"; there are ",
        ),
        (json!([""]), "there is no tool \"\""),
        (
            json!("read_file"),
            "`tools` must be a list of names, got \"read_file\"",
        ),
        (
            json!({ "read_file": true }),
            "`tools` must be a list of names, got {",
        ),
        (json!(false), "`tools` must be a list of names, got false"),
    ] {
        let (status, sentence) = with(tools).usage();
        assert_eq!(status, 400);
        assert!(sentence.contains(told), "{sentence}");
        if sentence.contains("there are") {
            assert!(
                sentence.ends_with("there are read_file, write_file, terminal"),
                "{sentence}"
            );
        }
    }
    // Left out: all; a list: those; an empty one: none.
    let class = |tools| with(tools).json()["result"].clone();
    std::fs::write(home.place.work().join("f"), "").unwrap();
    assert_eq!(class(Value::Null), "[None]");
    assert_eq!(class(json!(["read_file"])), "[None]");
    assert_eq!(class(json!(["terminal"])), "['refused']");
    assert_eq!(class(json!([])), "['refused']");
    assert_eq!(
        home.run(&["exec", "-s", "a", "--tools", "", call]).1,
        "['refused']\n"
    );
    // On the command line it is the same sentence.
    for session in [vec![], vec!["-s", "a"]] {
        let (code, _, err) =
            home.run(&[&["exec", "--tools", "x,read_file"], &session[..], &["1"]].concat());
        assert_eq!(code, 2);
        let told = "warmcell: --tools: there is no tool \"x\"; there are read_file, write_file, terminal\n";
        assert_eq!(err, told);
    }
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    home.end().await;
}

#[tokio::test]
async fn a_caller_who_is_nowhere_is_refused() {
    let home = home();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut caller = home.caller();
        change(&mut caller);
        // The same for a session that lives and for one that is to be made.
        let order = json!({ "code": "1", "caller": caller });
        let (status, sentence) = home.order("a", &order).usage();
        assert_eq!(
            (status, home.order("new", &order).usage().1),
            (400, sentence.clone())
        );
        sentence
    };
    let set = |key: &'static str, value: Value| with(&move |caller| caller[key] = value.clone());
    for (key, value, told) in [
        (
            "cwd",
            json!("work"),
            "the caller's `cwd` must be an absolute path without NUL, got \"work\"",
        ),
        ("cwd", json!(""), "got \"\""),
        ("cwd", json!("/a\0b"), "without NUL, got \"/a\\0b\""),
        (
            "cwd",
            json!(["/"]),
            "`caller.cwd` must be a string, got [\"/\"]",
        ),
        ("cwd", Value::Null, "there is no `caller.cwd`"),
        (
            "directory",
            json!(""),
            "the `directory` of the cell is empty",
        ),
        (
            "directory",
            json!(1),
            "`caller.directory` must be a string, got 1",
        ),
        (
            "python",
            json!("bin/python"),
            "the caller's `python` must be an absolute path, or the name",
        ),
        ("python", json!(""), "PATH, got \"\""),
        (
            "umask",
            json!(512),
            "`caller.umask` must be an integer from 0 to 511 (0o777), got 512",
        ),
        ("umask", json!(-1), "got -1"),
        ("umask", json!(18.5), "got 18.5"),
        ("umask", json!("022"), "got \"022\""),
        (
            "environment",
            json!({ "": "x" }),
            "has a variable \"\": a name is not empty",
        ),
        (
            "environment",
            json!({ "A=B": "x" }),
            "has a variable \"A=B\"",
        ),
        (
            "environment",
            json!([["A\0", "x"]]),
            "has a variable \"A\\0\"",
        ),
        (
            "environment",
            json!({ "A": "b\0" }),
            "gives A a value with a NUL character (at byte 1)",
        ),
        (
            "environment",
            json!({ "A": 1 }),
            "`caller.environment`: the value of A must be a string",
        ),
        (
            "environment",
            json!([["A"]]),
            "`caller.environment`: item 1 must be a pair of strings",
        ),
        (
            "home",
            json!("/"),
            "`caller` has no key \"home\"; it has environment, cwd, umask, limits, nice, python",
        ),
    ] {
        let sentence = set(key, value);
        assert!(sentence.contains(told), "{key}: {sentence}");
    }
    let (_, sentence) = home
        .order("a", &json!({ "code": "1", "caller": [] }))
        .usage();
    assert!(
        sentence.contains("`caller` must be a JSON object, got []"),
        "{sentence}"
    );
    // Nothing was made for them, and nothing is lost.
    assert_eq!(home.run(&["sessions"]).1.lines().count(), 2);
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    home.end().await;
}

#[tokio::test]
async fn an_environment_is_an_object_or_a_list_of_pairs() {
    let home = home();
    let mut caller = home.caller();
    caller["environment"]["LC_ALL"] = "C.UTF-8".into();
    caller["directory"] = "sub".into();
    std::fs::create_dir(home.place.work().join("sub")).unwrap();
    let code = "import os; (os.environ['LC_ALL'], os.path.basename(os.getcwd()))";
    let pairs: Vec<_> = caller["environment"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| json!([name, value]))
        .collect();
    for (name, environment) in [
        ("object", caller["environment"].clone()),
        ("pairs", json!(pairs)),
    ] {
        caller["environment"] = environment;
        let answer = home.order(name, &json!({ "code": code, "caller": caller }));
        // Without an interpreter that is named it is one on the PATH; a directory is the caller's.
        assert_eq!(answer.json()["result"], "('C.UTF-8', 'sub')", "{answer:?}");
    }
    home.end().await;
}

#[tokio::test]
async fn numbers_and_keys_that_will_not_do_are_told_as_they_were_written() {
    let home = home();
    for (order, told) in [
        (
            r#"{"code":"1","timeout":-1}"#,
            "`timeout`: a time limit must be from 0.001 to 86400 seconds, got -1",
        ),
        (r#"{"code":"1","timeout":1e999}"#, "got 1e999"),
        (
            r#"{"code":"1","timeout":NaN}"#,
            "JSON has no NaN and no Infinity",
        ),
        (r#"{"code":"1","timeout":"5"}"#, "got \"5\""),
        (r#"{"code":"1","timeout":true}"#, "got true"),
        (
            r#"{"code":"1","wait":-1}"#,
            "`wait`: a time to wait must be from 0 to 31536000 seconds, got -1",
        ),
        (
            r#"{"code":"1","max_tool_calls":1.5}"#,
            "`max_tool_calls` must be an integer from 0 to 4294967295, got 1.5",
        ),
        (r#"{"code":"1","max_tool_calls":-1}"#, "got -1"),
        (
            r#"{"code":"1","reset":"no"}"#,
            "`reset` must be true or false, got \"no\"",
        ),
        (
            r#"{"code":"1","on_timeout":"kill"}"#,
            "`on_timeout` must be \"restart\" or \"interrupt\", got \"kill\"",
        ),
        (r#"{"code":5}"#, "`code` must be a string, got 5"),
        (r#"{"code":" "}"#, "the code is empty"),
        (r"{}", "there is no `code`; give Python source"),
        ("", "there is no `code`; give Python source"),
        ("[]", "must be a JSON object, got []"),
        (
            r#"{"command":"ls"}"#,
            "give Python source as `code`, not a `command`",
        ),
        (
            r#"{"code":"x = 2","tiemout":1}"#,
            "the order of a cell has no key \"tiemout\"; it has code, reset, timeout,",
        ),
        (
            r#"{"code":"x = 2","code":"x = 3"}"#,
            "`code` is given twice",
        ),
    ] {
        let path = "/warmcell/v1/sessions/a/cells";
        let (status, sentence) = home.say("POST", path, "", order).usage();
        assert_eq!(status, 400);
        assert!(sentence.contains(told), "{order}: {sentence}");
    }
    let wait = |order: &str| {
        let path = "/warmcell/v1/sessions/a/wait";
        home.say("POST", path, "", order).usage().1
    };
    assert!(wait(r#"{"timeout":-1}"#).contains("`timeout`: a time to wait must be"));
    assert!(wait(r#"{"wait":1}"#).contains("has no key \"wait\"; it has timeout"));
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    for (seconds, code) in [("-1", 2), ("nan", 2), ("1e300", 2), ("0", 0)] {
        let (ended, _, err) = home.run(&["sessions", "wait", "a", "--timeout", seconds]);
        assert_eq!(ended, code, "{err}");
        assert!(
            code == 0 || err.contains(&format!("got {seconds}")),
            "{err}"
        );
    }
    home.end().await;
}

/// A library's caller is told the same.
#[tokio::test]
async fn a_session_refuses_what_will_not_do_whoever_asks() {
    use warmcell::config::Caller;
    use warmcell::session::{Cell, SessionError};
    use warmcell::tools::Grant;

    let place = crate::support::Place::new();
    let registry = warmcell::session::Registry::start(place.settings())
        .await
        .unwrap();
    let caller = place.caller(crate::support::python());
    let nowhere = Caller {
        cwd: "here".into(),
        ..caller.clone()
    };
    let refused = registry.session("a", &nowhere).unwrap_err();
    assert!(matches!(refused, SessionError::Caller(_)), "{refused}");
    assert_eq!(json!(refused.class()), "usage");
    let session = registry.session("a", &caller).unwrap();
    for (cell, told) in [
        (
            Cell::new("1").grant(Grant::Only(["x".to_owned()].into())),
            "no tool \"x\"",
        ),
        (Cell::new("1").caller(nowhere.into()), "the caller's `cwd`"),
        (Cell::new("1").directory(""), "is empty"),
    ] {
        let outcome = json!(crate::support::run_cell(&session, cell).await);
        assert_eq!(outcome["error_class"], "usage");
        assert!(
            outcome["error"].as_str().unwrap().contains(told),
            "{outcome}"
        );
    }
    registry.shut_down().await;
    place.assert_no_survivors().await;
}

/// `exec` takes its environment as it is, and its paths from where it is.
#[tokio::test]
async fn the_command_line_makes_its_paths_absolute() {
    let home = home();
    let work = home.place.work();
    let sub = work.join("sub");
    std::fs::create_dir(&sub).unwrap();
    std::os::unix::fs::symlink(crate::support::python(), work.join("py")).unwrap();
    for session in [vec![], vec!["-s", "p"]] {
        let exec = |more: &[&str]| home.run(&[&["exec"], &session[..], more].concat());
        let code = "import os; os.path.basename(os.getcwd())";
        let (ended, out, err) = exec(&["--cwd", "sub", "--python", "./py", code]);
        assert_eq!((ended, out.as_str()), (0, "'sub'\n"), "{err}");
        for empty in ["--cwd", "--python"] {
            let (ended, _, err) = exec(&[empty, "", code]);
            assert_eq!(ended, 2, "{err}");
            assert!(err.contains(empty), "{err}");
        }
    }
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    let sub = work.join(odd);
    std::fs::create_dir(&sub).unwrap();
    let output = home
        .command(&["exec", "-s", "p", "1"])
        .current_dir(&sub)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(crate::support::text(&output.stderr).contains("paths in UTF-8 alone"));
    home.end().await;
}

/// What costs state is not done for a request that means something else.
#[tokio::test]
async fn an_order_to_reset_close_or_stop_says_nothing_else() {
    let home = home();
    for (method, path) in [
        ("POST", "/warmcell/v1/sessions/a/reset"),
        ("DELETE", "/warmcell/v1/sessions/a"),
        ("POST", "/warmcell/v1/stop"),
    ] {
        let refused = home.ask(method, path, &json!({ "a": 1 })).json();
        assert_eq!(refused["error_class"], "usage", "{method} {path}");
        let sentence = refused["error"].as_str().unwrap();
        assert_eq!(sentence, "this order has no key \"a\"; it has none");
        let refused = home.ask(method, path, &json!("junk")).json();
        assert_eq!(refused["error_class"], "usage", "{method} {path}");
    }
    assert_eq!(home.run(&["exec", "-s", "a", "x"]).1, "1\n");
    let reset = home.ask("POST", "/warmcell/v1/sessions/a/reset", &json!({}));
    assert_eq!(reset.json()["reset"], true);
    home.end().await;
}
