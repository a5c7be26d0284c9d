use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::ReadFile;
use crate::tools::testing::{call, context, error_of};
use crate::tools::{Tool, ToolResult};

fn read_with(bytes: &[u8], arguments: &Value) -> ToolResult {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), bytes).unwrap();
    let mut arguments = arguments.clone();
    arguments["path"] = "f".into();
    call(&ReadFile, &context(folder.path()), arguments)
}

fn read(bytes: &[u8]) -> ToolResult {
    read_with(bytes, &json!({}))
}

#[test]
fn an_unterminated_last_line_is_a_line() {
    let result = read_with(b"a\nb\nc", &json!({"limit": 2}));
    assert_eq!(
        Value::Object(result),
        json!({
            "content": "a\nb\n", "total_lines": 3, "file_size": 5, "truncated": true,
            "next_offset": 3, "is_binary": false,
        })
    );
    let result = read_with(b"a\nb\nc", &json!({"offset": 3}));
    assert_eq!(result["content"], "c");
    assert_eq!(
        (&result["truncated"], &result["next_offset"]),
        (&json!(false), &Value::Null)
    );
}

#[test]
fn content_is_what_is_on_disk_without_numbers() {
    assert_eq!(read(b"a\r\n\r\n\tb\r")["content"], "a\r\n\r\n\tb\r");
    assert_eq!(read(b"1|a\n2|b\n")["content"], "1|a\n2|b\n");
    assert_eq!(read("x\u{85}y\u{2028}z\n".as_bytes())["total_lines"], 1);
}

#[test]
fn an_empty_file_has_no_lines() {
    let result = read(b"");
    assert_eq!(result["content"], "");
    assert_eq!(
        (&result["total_lines"], &result["file_size"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(result["truncated"], false);
}

#[test]
fn an_offset_past_the_end_is_an_empty_page() {
    let result = read_with(b"a\nb\n", &json!({"offset": 3}));
    assert_eq!(
        Value::Object(result),
        json!({
            "content": "", "total_lines": 2, "file_size": 4, "truncated": false,
            "next_offset": null, "is_binary": false,
        })
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_content() {
    let result = read(b"\xEF\xBB\xBFa\n");
    assert_eq!(
        (&result["content"], &result["file_size"]),
        (&json!("a\n"), &json!(5))
    );
    assert_eq!(read(b"\xEF\xBB\xBF")["total_lines"], 0);
    assert_eq!(read(b"a\xEF\xBB\xBF")["content"], "a\u{FEFF}");
}

#[test]
fn a_limit_is_brought_between_1_and_2000_lines() {
    let text = "x\n".repeat(2500);
    for limit in [2000, 2400, i64::MAX] {
        let result = read_with(text.as_bytes(), &json!({"limit": limit}));
        assert_eq!(result["content"].as_str().unwrap().len(), 4000);
        assert_eq!(
            (
                &result["total_lines"],
                &result["truncated"],
                &result["next_offset"]
            ),
            (&json!(2500), &json!(true), &json!(2001))
        );
    }
    assert_eq!(read_with(b"a\nb\n", &json!({"limit": 0}))["content"], "a\n");
    assert_eq!(
        read_with(b"a\nb\n", &json!({"offset": 0, "limit": null}))["content"],
        "a\nb\n"
    );
    assert_eq!(read_with(b"a", &json!({"offset": i64::MAX}))["content"], "");
}

#[test]
fn a_negative_number_is_named() {
    let error = error_of(&read_with(b"a", &json!({"offset": -3})), "usage");
    assert!(
        error.contains("'offset'") && error.contains("-3"),
        "{error}"
    );
    let error = error_of(&read_with(b"a", &json!({"limit": -1})), "usage");
    assert!(error.contains("'limit'") && error.contains("-1"), "{error}");
}

#[test]
fn arguments_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    for wrong in [
        json!({}),
        json!({"path": 3}),
        json!({"path": "f", "encoding": "x"}),
    ] {
        error_of(&call(&ReadFile, &context, wrong), "usage");
    }
    error_of(&call(&ReadFile, &context, json!({"path": ""})), "usage");
    error_of(&call(&ReadFile, &context, json!({"path": "a\0b"})), "usage");
    assert_eq!(ReadFile.spec().name, "read_file");
}

#[test]
fn a_character_across_byte_1000_is_text() {
    let text = format!("{}{}", "a".repeat(999), "漢字".repeat(50));
    let result = read(text.as_bytes());
    assert_eq!(
        (&result["is_binary"], &result["content"]),
        (&json!(false), &json!(text))
    );
}

#[test]
fn characters_across_chunks_are_text() {
    let text = format!("a{}", "漢".repeat(100_000));
    assert_eq!(read(text.as_bytes())["content"], text);
}

#[test]
fn binary_files_are_told_by_kind_and_size() {
    for (bytes, kind) in [
        (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "PNG"),
        (b"%PDF-1.7\n\xE2\xE3\xCF\xD3\n", "PDF"),
        (b"\x1F\x8B\x08\0\0\0", "gzip"),
        (b"\x7FELF\x02\x01\x01\0", "ELF"),
        (b"SQLite format 3\0", "SQLite"),
        (b"PK\x03\x04\x14\0", "ZIP"),
        (b"\xFF\xD8\xFF\xE0\0\x10JFIF", "JPEG"),
        (b"GIF89a\x01\0", "GIF"),
        (b"\xFF\xFEa\0", "UTF-16"),
        (b"plain\0", "NUL"),
        (b"caf\xE9\n", "0xE9"),
        (b"cut \xE6\xBC", "0xE6"),
    ] {
        let result = read(bytes);
        let error = error_of(&result, "exception");
        assert!(error.contains(kind), "{error}");
        assert!(error.contains(&format!("{} bytes", bytes.len())), "{error}");
        assert_eq!(result["is_binary"], true);
        assert_eq!(result["content"], Value::Null);
        assert_eq!(result["file_size"], bytes.len());
    }
}

#[test]
fn only_what_would_be_returned_must_be_text() {
    let result = read_with(b"good\nb\xFFd\n", &json!({"limit": 1}));
    assert_eq!(result["content"], "good\n");
    let mut late = vec![b'a'; 1000];
    late.push(0);
    assert_eq!(read(&late)["is_binary"], false);
}

#[test]
fn a_huge_line_is_cut_and_the_rest_still_counted() {
    let mut text = "漢".repeat(3_400_000);
    text.push_str("\nnext");
    let result = read(text.as_bytes());
    let content = result["content"].as_str().unwrap();
    assert_eq!(content.len(), 9_999_999);
    assert!(text.starts_with(content));
    assert_eq!(
        (
            &result["total_lines"],
            &result["truncated"],
            &result["next_offset"]
        ),
        (&json!(2), &json!(true), &json!(2))
    );
}

#[test]
fn an_answer_fits_a_reply_also_when_its_json_is_much_longer() {
    let line = format!("{}\n", "\u{1}".repeat(100_000));
    let mut bytes = vec![b'\n'];
    bytes.extend(line.repeat(90).into_bytes());
    let result = read(&bytes);
    assert!(serde_json::to_vec(&result).unwrap().len() <= 15 * 1024 * 1024 + 1024);
    let next = result["next_offset"].as_u64().unwrap();
    let lines = result["content"].as_str().unwrap().lines().count() as u64;
    assert_eq!(
        (next, result["truncated"].clone()),
        (lines + 1, json!(true))
    );
}

#[test]
fn lines_late_in_a_large_sparse_file_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("f")).unwrap();
    file.write_all_at(&[b'a'; 1024], 0).unwrap();
    file.write_all_at(b"\nlast\n", 40_000_000).unwrap();
    let arguments = json!({"path": "f", "offset": 2});
    let result = call(&ReadFile, &context(folder.path()), arguments);
    assert_eq!(
        (&result["content"], &result["total_lines"]),
        (&json!("last\n"), &json!(2))
    );
}

#[test]
fn a_missing_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such");
    let context = context(folder.path());
    let result = call(&ReadFile, &context, json!({"path": missing}));
    let expected = format!("File not found: {}", missing.display());
    assert_eq!(error_of(&result, "exception"), expected);
    assert_eq!(result["is_binary"], Value::Null);
    let error = error_of(
        &call(&ReadFile, &context, json!({"path": "gone"})),
        "exception",
    );
    let place = folder.path().join("gone");
    assert_eq!(
        error,
        format!("File not found: gone (that is {})", place.display())
    );
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    symlink(&fifo, folder.path().join("link")).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    let context = context(folder.path());
    for (path, kind) in [
        ("fifo", "a FIFO"),
        ("link", "a FIFO"),
        ("socket", "a socket"),
        (".", "a directory"),
        ("/dev/null", "a device"),
    ] {
        let result = call(&ReadFile, &context, json!({"path": path}));
        let error = error_of(&result, "refused");
        assert!(error.contains(kind) && error.contains(path), "{error}");
    }
}

#[test]
fn guards_hold_and_a_home_is_expanded() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("home")).unwrap();
    fs::write(folder.path().join("home/notes"), "n").unwrap();
    fs::write(folder.path().join(".env"), "KEY=1").unwrap();
    symlink(".env", folder.path().join("innocent")).unwrap();
    let context = context(folder.path());
    for path in [
        ".env",
        "innocent",
        "home/../.env",
        "/proc/self/environ",
        "/dev/stdin",
    ] {
        let error = error_of(&call(&ReadFile, &context, json!({"path": path})), "refused");
        assert!(
            error.starts_with("Access denied: '") && error.contains(path),
            "{error}"
        );
    }
    assert_eq!(
        call(&ReadFile, &context, json!({"path": "~/notes"}))["content"],
        "n"
    );
}

#[test]
fn files_without_a_size_are_read_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = json!({"path": "/proc/version"});
    let result = call(&ReadFile, &context(folder.path()), arguments);
    assert!(result["content"].as_str().unwrap().starts_with("Linux"));
    assert_eq!(
        result["file_size"],
        result["content"].as_str().unwrap().len()
    );
}

#[test]
fn reading_stops_when_the_cell_ends() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "a").unwrap();
    let context = context(folder.path());
    context.cancelled.cancel();
    error_of(
        &call(&ReadFile, &context, json!({"path": "f"})),
        "interrupted",
    );
}

#[test]
fn a_second_read_is_like_the_first() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "a\nb\n").unwrap();
    let context = context(folder.path());
    let first = call(&ReadFile, &context, json!({"path": "f"}));
    for _ in 0..5 {
        assert_eq!(call(&ReadFile, &context, json!({"path": "f"})), first);
    }
}

#[test]
fn a_file_with_a_slash_behind_it_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    let context = context(folder.path());
    for path in ["file/", "file/.", "file/../file"] {
        let result = call(&ReadFile, &context, json!({"path": path}));
        let error = error_of(&result, "exception");
        assert!(error.contains("not a directory"), "{error}");
    }
    let error = error_of(
        &call(&ReadFile, &context, json!({"path": "file/x"})),
        "exception",
    );
    assert!(error.contains("Not a directory"), "{error}");
    fs::create_dir(folder.path().join("dir")).unwrap();
    let result = call(&ReadFile, &context, json!({"path": "dir/../file"}));
    assert_eq!(result["content"], "text");
}

#[test]
fn a_long_path_is_cut_and_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    for path in [
        "part/".repeat(1_200) + "end.txt",
        "a".repeat(6_000),
        format!("{}/{}", folder.path().display(), "part/".repeat(500)),
    ] {
        let error = error_of(
            &call(&ReadFile, &context, json!({"path": path})),
            "exception",
        );
        assert!(error.chars().count() < 400, "{error}");
        assert_eq!(error.matches("[...").count(), 1, "{error}");
    }
}
