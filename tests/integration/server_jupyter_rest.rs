//! Jupyter Server's paths for kernels: what is asked for plainly.

use serde_json::{Value, json};

use crate::jupyter_kit::{Client, Form, House, in_short};
use crate::support::{Signal, run};

#[tokio::test]
async fn what_front_ends_ask_first_is_answered() {
    let house = House::open().await;
    let (status, version) = house.ask("GET", "/api", &json!({})).await;
    assert_eq!(
        (status, &version["version"]),
        (200, &env!("CARGO_PKG_VERSION").into())
    );
    let (status, specs) = house.ask("GET", "/api/kernelspecs", &json!({})).await;
    assert_eq!((status, &specs["default"]), (200, &"python3".into()));
    let spec = &specs["kernelspecs"]["python3"];
    assert_eq!(spec["spec"]["language"], "python");
    assert_eq!(spec["spec"]["display_name"], "Python (Warmcell)");
    let one = house
        .ask("GET", "/api/kernelspecs/python3", &json!({}))
        .await;
    assert_eq!(one, (200, spec.clone()));
    for path in ["/api/kernelspecs/julia", "/api/kernels/x", "/api/x"] {
        let (status, refused) = house.ask("GET", path, &json!({})).await;
        assert_eq!(status, 404, "{path}");
        assert!(refused["error"].is_string(), "{refused}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_session_is_a_kernel_that_can_be_interrupted_restarted_and_ended() {
    let house = House::open().await;
    let session = house.session("mine");
    run(&session, "x = 1").await;
    let (status, kernels) = house.ask("GET", "/api/kernels", &json!({})).await;
    let kernel = &kernels[0];
    let id = kernel["id"].as_str().unwrap().to_owned();
    assert_eq!((status, kernels.as_array().unwrap().len()), (200, 1));
    assert_eq!(id.replace('-', ""), session.id());
    assert_eq!(kernel["warmcell"]["session"], "mine");
    assert_eq!(
        [
            &kernel["name"],
            &kernel["execution_state"],
            &kernel["connections"]
        ],
        [&json!("python3"), &json!("idle"), &json!(0)]
    );
    let path = format!("/api/kernels/{id}");
    // Nothing runs: nothing happens.
    let interrupt = format!("{path}/interrupt");
    assert_eq!(house.ask("POST", &interrupt, &json!({})).await.0, 204);
    assert_eq!(run(&session, "x").await.output, "1");

    let mut client = house.client(&session, Form::V1).await;
    let gate = Signal::in_place(&house.place, "gate");
    let header = client
        .execute("open('gate').read()\nwhile True: pass")
        .await;
    gate.give().await;
    let (_, kernel) = house.ask("GET", &path, &json!({})).await;
    assert_eq!(
        [&kernel["execution_state"], &kernel["connections"]],
        [&json!("busy"), &json!(1)]
    );
    assert_eq!(house.ask("POST", &interrupt, &json!({})).await.0, 204);
    let words = in_short(&client.all_of(&header).await);
    assert!(words[2].starts_with("KeyboardInterrupt: "), "{words:?}");
    assert_eq!(words[3], "execute_reply error");
    // State is kept.
    let words = client.run("x").await;
    assert!(words.contains(&"[4]: 1".to_owned()), "{words:?}");

    client.run("x = 2").await;
    let restart = format!("{path}/restart");
    let (status, model) = house.ask("POST", &restart, &json!({})).await;
    assert_eq!((status, &model["id"]), (200, &Value::from(id.clone())));
    let words = client.run("'x' in globals()").await;
    assert!(words.contains(&"[1]: False".to_owned()), "{words:?}");

    // By message it is the same.
    for (kind, content) in [
        ("interrupt_request", json!({})),
        ("shutdown_request", json!({ "restart": true })),
        ("shutdown_request", json!({ "restart": false })),
    ] {
        let header = client.send("control", kind, &content).await;
        let mut messages = client.all_of(&header).await;
        let reply = messages.remove(1);
        assert_eq!(
            (reply.channel.as_str(), &reply.content["status"]),
            ("control", &"ok".into())
        );
        assert_eq!(reply.content["restart"], content["restart"]);
    }
    let mut last = Vec::new();
    let close = loop {
        match client.next().await {
            Ok(message) => last.push(message),
            Err(close) => break close.unwrap(),
        }
    };
    assert_eq!(in_short(&last).last().unwrap(), "dead");
    assert_eq!(u16::from(close.code), 1001);
    assert_eq!(house.ask("GET", &path, &json!({})).await.0, 404);
    house.close().await;
}

#[tokio::test]
async fn a_kernel_is_made_for_whoever_asks_with_what_was_sent() {
    let house = House::open().await;
    let work = house.place.work();
    let folder = work.join("books");
    std::fs::create_dir(&folder).unwrap();
    let wanted = json!({
        "name": "python3",
        "path": folder.join("book.ipynb"),
        "env": { "OMP_NUM_THREADS": "3", "MY_TOKEN": "secret", "KERNEL_WORKING_DIR": "/" },
    });
    let (status, kernel) = house.ask("POST", "/api/kernels", &wanted).await;
    assert_eq!(status, 201, "{kernel}");
    let id = kernel["id"].as_str().unwrap();
    let path = format!("/api/kernels/{id}/channels");
    let mut client = Client::open(house.stream().await, &path, Form::V1)
        .await
        .unwrap();
    let code = "import os; (os.getcwd(), os.environ.get('OMP_NUM_THREADS'), \
                os.environ.get('MY_TOKEN'), os.environ['HOME'])";
    let words = client.run(code).await;
    let expected = format!(
        "[1]: ('{}', '3', None, '{}')",
        folder.display(),
        work.display()
    );
    assert!(words.contains(&expected), "{words:?}");
    let name = kernel["warmcell"]["session"].as_str().unwrap();
    assert!(name.starts_with("kernel-") && name.len() == 15, "{name}");

    let (status, other) = house.ask("POST", "/api/kernels", &json!({})).await;
    assert_eq!(status, 201);
    let path = format!("/api/kernels/{}", other["id"].as_str().unwrap());
    let channels = format!("{path}/channels");
    let mut client = Client::open(house.stream().await, &channels, Form::Text)
        .await
        .unwrap();
    let words = client.run("import os; os.getcwd()").await;
    assert!(
        words.contains(&format!("[1]: '{}'", work.display())),
        "{words:?}"
    );
    assert_eq!(house.ask("DELETE", &path, &json!({})).await.0, 204);
    while client.next().await.is_ok() {}

    for (wanted, status) in [
        (json!({ "name": "julia" }), 400),
        (json!({ "env": 1 }), 400),
        (json!({ "env": { "PATH": "/nowhere" } }), 503),
    ] {
        let (found, refused) = house.ask("POST", "/api/kernels", &wanted).await;
        assert_eq!(found, status, "{refused}");
        assert!(refused["message"].is_string(), "{refused}");
    }
    let (_, kernels) = house.ask("GET", "/api/kernels", &json!({})).await;
    assert_eq!(kernels.as_array().unwrap().len(), 1);
    house.close().await;
}
