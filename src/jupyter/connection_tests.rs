use proptest::prelude::*;

use super::*;

fn file(changes: &[(&str, Value)]) -> Vec<u8> {
    let mut file = json!({
        "shell_port": 50001, "iopub_port": 50002, "stdin_port": 50003, "control_port": 50004,
        "hb_port": 50005, "ip": "127.0.0.1", "key": "5ecret-5ecret", "transport": "tcp",
        "signature_scheme": "hmac-sha256", "kernel_name": "python3", "jupyter_session": "a.ipynb",
    });
    for (key, value) in changes {
        if value.is_null() {
            file.as_object_mut().unwrap().remove(*key);
        } else {
            file[*key] = value.clone();
        }
    }
    file.to_string().into_bytes()
}

#[test]
fn a_file_of_jupyters_is_read_and_written() {
    let connection = Connection::parse(&file(&[])).unwrap();
    assert_eq!(connection.ports, [50001, 50002, 50003, 50004, 50005]);
    assert_eq!(
        connection.endpoint(SocketName::Control).to_string(),
        "tcp://127.0.0.1:50004"
    );
    assert_eq!(connection.key, "5ecret-5ecret");
    assert_eq!(connection.kernel_name.as_deref(), Some("python3"));
    assert_eq!(
        Connection::parse(connection.to_json().as_bytes()),
        Ok(connection)
    );
}

#[test]
fn what_may_be_left_out_has_jupyters_defaults() {
    let left_out = [
        ("ip", Value::Null),
        ("transport", Value::Null),
        ("signature_scheme", Value::Null),
        ("kernel_name", Value::Null),
    ];
    let connection = Connection::parse(&file(&left_out)).unwrap();
    assert_eq!(
        connection.endpoint(SocketName::Shell).to_string(),
        "tcp://127.0.0.1:50001"
    );
    assert_eq!(connection.kernel_name, None);
}

#[test]
fn unix_sockets_are_named_by_prefix_and_number() {
    let changes = [
        ("transport", json!("ipc")),
        ("ip", json!("/tmp/k/kernel-a")),
        ("shell_port", json!(1)),
    ];
    let connection = Connection::parse(&file(&changes)).unwrap();
    assert_eq!(
        connection.endpoint(SocketName::Shell),
        Endpoint::Ipc(PathBuf::from("/tmp/k/kernel-a-1"))
    );
    assert_eq!(
        Connection::parse(connection.to_json().as_bytes()),
        Ok(connection)
    );
}

#[test]
fn addresses_that_mean_this_machine_are_taken() {
    for (text, shown) in [
        ("*", "tcp://0.0.0.0:50001"),
        ("localhost", "tcp://127.0.0.1:50001"),
        ("::1", "tcp://[::1]:50001"),
        ("[::1]", "tcp://[::1]:50001"),
    ] {
        let connection = Connection::parse(&file(&[("ip", json!(text))])).unwrap();
        assert_eq!(connection.endpoint(SocketName::Shell).to_string(), shown);
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_key_and_value() {
    let long = "x".repeat(10_000);
    for (key, value, sentence) in [
        ("shell_port", json!(0), "shell_port is 0; it must be a port"),
        ("shell_port", json!(65_536), "shell_port is 65536"),
        ("shell_port", json!(-1), "shell_port is -1"),
        ("shell_port", json!(1.5), "shell_port is 1.5"),
        ("hb_port", json!("50005"), "hb_port is \"50005\""),
        ("hb_port", json!([1]), "hb_port is a list"),
        ("hb_port", Value::Null, "hb_port is missing"),
        (
            "hb_port",
            json!(50001),
            "shell_port and hb_port are both 50001",
        ),
        (
            "ip",
            json!("example.org"),
            "ip is \"example.org\"; it must be an address",
        ),
        ("ip", json!(long), "ip is \"xxx"),
        ("ip", json!(7), "ip is 7; it must be a string"),
        ("transport", json!("pgm"), "transport is \"pgm\""),
        ("key", Value::Null, "key is missing"),
        ("key", json!(["5ecret"]), "key is not shown"),
        ("key", json!(long), "key is not shown"),
        (
            "signature_scheme",
            json!("hmac-md5"),
            "signature_scheme \"hmac-md5\" is not known",
        ),
        (
            "signature_scheme",
            json!({}),
            "signature_scheme is an object",
        ),
        ("curve_publickey", json!("a"), "curve_publickey is set"),
    ] {
        let error = Connection::parse(&file(&[(key, value)])).unwrap_err();
        let found = error.to_string();
        assert!(found.contains(sentence), "{found}");
        assert!(found.len() < 300 && !found.contains("5ecret"), "{found}");
    }
    for prefix in ["", "@abstract", "nul\0", &"x".repeat(97)] {
        let changes = [("transport", json!("ipc")), ("ip", json!(prefix))];
        let error = Connection::parse(&file(&changes)).unwrap_err().to_string();
        assert!(error.contains("ip is \""), "{error}");
    }
}

#[test]
fn what_is_no_object_is_refused_without_showing_it() {
    let deep = "[".repeat(60_000);
    let cut = &file(&[])[..100];
    for bytes in [
        b"".as_slice(),
        b"[]",
        b"5ecret",
        b"\"5ecret\"",
        deep.as_bytes(),
        cut,
    ] {
        let error = Connection::parse(bytes).unwrap_err().to_string();
        assert!(error.contains("no JSON object"), "{error}");
        assert!(!error.contains("5ecret"), "{error}");
    }
    let long = vec![b' '; MOST_CONNECTION_BYTES + 1];
    assert!(matches!(
        Connection::parse(&long),
        Err(ConnectionError::TooLong { .. })
    ));
}

#[test]
fn the_key_is_not_shown() {
    let connection = Connection::parse(&file(&[])).unwrap();
    assert!(!format!("{connection:?}").contains("5ecret"));
}

proptest! {
    #[test]
    fn what_was_written_is_read_back(
        ports in prop::collection::hash_set(1..65_536_u32, 5),
        key in "\\PC{0,40}",
        is_ipc in any::<bool>(),
        name in prop::option::of("[a-z0-9]{1,10}"),
    ) {
        let ports: Vec<u32> = ports.into_iter().collect();
        let connection = Connection {
            transport: if is_ipc {
                Transport::Ipc("/tmp/é x".to_owned())
            } else {
                Transport::Tcp(IpAddr::V4(Ipv4Addr::LOCALHOST))
            },
            ports: ports.try_into().unwrap(),
            key,
            kernel_name: name.or(Some(String::new())),
        };
        let read = Connection::parse(connection.to_json().as_bytes());
        prop_assert_eq!(read, Ok(connection));
    }

    #[test]
    fn nothing_that_is_read_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        drop(Connection::parse(&bytes));
    }
}
