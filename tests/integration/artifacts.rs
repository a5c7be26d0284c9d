//! Images and the like that a cell shows: files beside its result.

use std::fs;

use serde_json::Value;
use warmcell::execution::Files;
use warmcell::session::Cell;

use crate::command_kit::assert_nothing_left;
use crate::support::{Manager, Place, finish, on_each_python, run, run_cell, text};

/// Something that shows itself as an image; the smallest there is of one dot.
const IMAGE: &str = "import base64\n\
    PNG = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\n\
    class Image:\n    def _repr_png_(self): return PNG\n    def __repr__(self): return '<image>'\n";

#[tokio::test]
async fn what_is_shown_is_a_file_and_the_result_says_where() {
    on_each_python(async |session, version| {
        let code = format!("{IMAGE}display(Image())\nImage()");
        let outcome = run(session, &code).await;
        let [shown, value] = outcome.artifacts.as_slice() else {
            panic!("{version}: {outcome:?}");
        };
        // The same twice is one file.
        assert_eq!(shown, value, "{version}");
        assert_eq!(
            (shown.mime.as_str(), shown.bytes),
            ("image/png", 70),
            "{version}"
        );
        assert!(
            fs::read(&shown.path)
                .unwrap()
                .starts_with(b"\x89PNG\r\n\x1a\n")
        );
        let line = format!("[image/png, 70 bytes: {}]", shown.path);
        assert_eq!(
            outcome.output,
            format!("<image>\n<image>\n{line}\n{line}"),
            "{version}"
        );
        assert_eq!(outcome.warning, None, "{version}");
        // A secret in a drawing is masked as in any text.
        let code =
            "display({'image/svg+xml': '<svg>ghp_' + '0123456789abcdef' * 2 + '</svg>'}, raw=True)";
        let outcome = run(session, code).await;
        let drawing = fs::read_to_string(&outcome.artifacts[0].path).unwrap();
        assert_eq!(drawing, "<svg>[redacted:github-token]</svg>", "{version}");
        // Large ones travel in another way.
        let code =
            "display({'application/pdf': base64.b64encode(bytes(3_000_000)).decode()}, raw=True)";
        let outcome = run(session, code).await;
        assert_eq!(
            fs::read(&outcome.artifacts[0].path).unwrap(),
            vec![0; 3_000_000]
        );
        // Front ends show them themselves.
        let cell = Cell {
            files: Files::None,
            ..Cell::new("display(Image()); print('x' * 60_000)")
        };
        let outcome = run_cell(session, cell).await;
        assert_eq!(
            (outcome.artifacts, outcome.stdout_spill_path),
            (Vec::new(), None)
        );
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_images_is_bounded_and_told() {
    let manager = Manager::start().await;
    let session = manager.session("flood");
    let code = format!(
        "{IMAGE}for n in range(150):\n    display({{'image/gif': base64.b64encode(b'GIF' + bytes([n])).decode()}}, raw=True)"
    );
    let outcome = run(&session, &code).await;
    assert_eq!(outcome.artifacts.len(), 100);
    let folder = manager.place.home().join("cache/exec");
    let warning = format!(
        "50 things that the cell has shown were not kept in {}: a cell may have 100",
        folder.display()
    );
    assert_eq!(outcome.warning, Some(warning));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 100);
    manager.end().await;
}

#[tokio::test]
async fn on_the_command_line_a_line_says_where() {
    let place = Place::new();
    let code = format!("{IMAGE}display(Image())");
    let output = finish(&mut place.exec(&[&code]));
    assert_eq!(text(&output.stdout), "<image>\n");
    let told = text(&output.stderr);
    let path = told.strip_prefix("[image/png, 70 bytes: ").expect(&told);
    let path = path.strip_suffix("]\n").expect(&told);
    assert_eq!(fs::metadata(path).unwrap().len(), 70);
    let output = finish(&mut place.exec(&["--json", &code]));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let wanted = serde_json::json!([{ "mime": "image/png", "path": path, "bytes": 70 }]);
    assert_eq!(outcome["artifacts"], wanted);
    assert_nothing_left(&place).await;
}
