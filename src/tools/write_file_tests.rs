use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{WriteFile, is_numbered};
use crate::tools::testing::{call, context, error_of};
use crate::tools::{ReadFile, ToolResult};

fn write(folder: &Path, path: &str, content: &str) -> ToolResult {
    call(
        &WriteFile,
        &context(folder),
        json!({"path": path, "content": content}),
    )
}

#[track_caller]
fn writes(folder: &Path, path: &str, content: &str) {
    let result = write(folder, path, content);
    assert!(!result.contains_key("error"), "{result:?}");
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What a file holds after it held `old` and `content` was written to it.
fn over(old: &[u8], content: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, old).unwrap();
    let result = write(folder.path(), "f", content);
    let bytes = fs::read(&file).unwrap();
    assert_eq!(result["bytes_written"], bytes.len(), "{result:?}");
    bytes
}

#[test]
fn a_new_file_is_written_and_its_folders_made() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let result = write(&top, "a/b/c.txt", "héllo\n");
    let expected = json!({
        "bytes_written": 7, "dirs_created": true, "resolved_path": top.join("a/b/c.txt"),
    });
    assert_eq!(Value::Object(result), expected);
    assert_eq!(
        fs::read(top.join("a/b/c.txt")).unwrap(),
        "héllo\n".as_bytes()
    );
    assert_eq!(write(&top, "a/b/d", "")["dirs_created"], false);
    assert_eq!(entries(&top.join("a/b")), ["c.txt", "d"]);
}

#[test]
fn a_new_file_has_the_mode_that_the_umask_leaves() {
    let folder = tempfile::tempdir().unwrap();
    fs::File::create(folder.path().join("by the system")).unwrap();
    writes(folder.path(), "by us", "x");
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().mode();
    assert_eq!(mode("by us"), mode("by the system"));
}

#[test]
fn mode_stays_and_the_file_is_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, "old").unwrap();
    for mode in [0o600, 0o755, 0o640, 0o666] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let before = fs::metadata(&file).unwrap();
        writes(folder.path(), "f", "new");
        let after = fs::metadata(&file).unwrap();
        assert_eq!(after.mode() & 0o7777, mode);
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert_ne!(after.ino(), before.ino());
    }
    assert_eq!(entries(folder.path()), ["f"]);
}

#[test]
fn the_owner_stays_where_that_is_permitted() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root may give files away.
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::chown(&file, Some(1234), Some(4321)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6750)).unwrap();
    writes(folder.path(), "f", "new");
    let after = fs::metadata(&file).unwrap();
    assert_eq!(
        (after.uid(), after.gid(), after.mode() & 0o7777),
        (1234, 4321, 0o6750)
    );
}

#[test]
fn a_link_stays_and_its_target_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/target"), "old").unwrap();
    symlink("d/target", at("link")).unwrap();
    symlink("link", at("link to link")).unwrap();
    symlink("new/deep", at("dangling")).unwrap();
    writes(folder.path(), "link to link", "new");
    let result = write(folder.path(), "dangling", "made");
    assert_eq!(result["dirs_created"], true);
    for link in ["link", "link to link", "dangling"] {
        assert!(
            fs::symlink_metadata(at(link)).unwrap().is_symlink(),
            "{link}"
        );
    }
    assert_eq!(fs::read(at("d/target")).unwrap(), b"new");
    assert_eq!(fs::read(at("new/deep")).unwrap(), b"made");
}

#[test]
fn a_circle_of_links_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    let error = error_of(&write(folder.path(), "a", "x"), "exception");
    assert!(error.contains("'a'") && error.contains("circle"), "{error}");
}

#[test]
fn hard_links_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("one"), "a long old text").unwrap();
    fs::hard_link(at("one"), at("two")).unwrap();
    for text in ["short", "something much longer than before", ""] {
        writes(folder.path(), "one", text);
        assert_eq!(fs::read_to_string(at("two")).unwrap(), text);
    }
    assert_eq!(fs::metadata(at("one")).unwrap().nlink(), 2);
}

#[test]
fn line_ends_and_mark_of_the_file_stay() {
    let mark = "\u{FEFF}";
    assert_eq!(over(b"a\r\nb\r\n", "x\ny\n"), b"x\r\ny\r\n");
    assert_eq!(over(b"a\r\nb\r\n", "x\r\ny\n"), b"x\r\ny\r\n");
    assert_eq!(over(b"a\r\nb\r\n", "x\r\r\n\ry"), b"x\r\r\n\ry");
    assert_eq!(over(b"a\nb\n", "x\r\ny\n"), b"x\r\ny\n");
    assert_eq!(over(b"a\rb\r", "x\ny"), b"x\ny");
    assert_eq!(over(b"", "x\n"), b"x\n");
    assert_eq!(over(b"\xEF\xBB\xBFa\n", "x\n"), b"\xEF\xBB\xBFx\n");
    assert_eq!(over(b"\xEF\xBB\xBFa\r\n", "x\n"), b"\xEF\xBB\xBFx\r\n");
    assert_eq!(
        over(b"\xEF\xBB\xBFa\n", &format!("{mark}x")),
        b"\xEF\xBB\xBFx"
    );
    assert_eq!(over(b"a\n", &format!("{mark}x")), b"\xEF\xBB\xBFx");
}

#[test]
fn only_the_head_decides_about_line_ends() {
    let mut late = vec![b'a'; 4096];
    late.extend(b"\r\n");
    assert_eq!(over(&late, "x\n"), b"x\n");
    let mut early = vec![b'a'; 4094];
    early.extend(b"\r\n");
    assert_eq!(over(&early, "x\n"), b"x\r\n");
}

#[test]
fn a_file_of_both_line_ends_comes_back_as_it_was_read() {
    let mut late = b"a\r\n".repeat(2000);
    late.extend(b"b\n");
    for bytes in [&b"a\r\nb\nc"[..], b"a\nb\r\n", &late] {
        assert_eq!(over(bytes, std::str::from_utf8(bytes).unwrap()), bytes);
    }
    assert_eq!(over(b"a\r\nb\n", "x\ny\n"), b"x\r\ny\r\n");
}

#[test]
fn a_display_with_line_numbers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for text in [
        "1|a\n2|b\n3|c\n",
        "10|\n11|x\n12|y",
        "1|a\n2|b\n\n3|c\nnote\nnote\n",
    ] {
        let result = write(folder.path(), "f", text);
        let error = error_of(&result, "refused");
        assert!(error.contains("'f'") && error.contains("open()"), "{error}");
        assert_eq!(result["bytes_written"], Value::Null);
    }
    assert_eq!(entries(folder.path()), [""; 0]);
    for text in [
        "1|a",
        "1|a\n2|b\n",
        "7|a\n3|b\n9|c\n",
        "1|a\n1|b\n1|c\n",
        "|\n|\n|\n",
    ] {
        writes(folder.path(), "f", text);
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), text);
    }
    assert!(!is_numbered("1|a\n2|b\n3|c\nx\ny\nz\n"));
}

#[test]
fn a_file_that_truly_holds_numbered_lines_survives() {
    let folder = tempfile::tempdir().unwrap();
    let text = "1|a\r\n2|b\r\n3|c\r\n";
    fs::write(folder.path().join("f"), text).unwrap();
    for _ in 0..3 {
        let read = call(&ReadFile, &context(folder.path()), json!({"path": "f"}));
        writes(folder.path(), "f", read["content"].as_str().unwrap());
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), text);
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for (path, kind) in [
        ("fifo", "a FIFO"),
        (".", "a directory"),
        ("/dev/null", "a device"),
    ] {
        let error = error_of(&write(folder.path(), path, "x"), "refused");
        assert!(error.contains(kind) && error.contains(path), "{error}");
    }
    error_of(&write(folder.path(), "new/", "x"), "usage");
    assert_eq!(entries(folder.path()), ["fifo"]);
}

#[test]
fn guards_come_before_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    symlink("/etc", folder.path().join("innocent")).unwrap();
    for path in [
        "/etc/warmcell-test",
        "innocent/warmcell-test",
        "~/.ssh/new/config",
    ] {
        let error = error_of(&write(folder.path(), path, "x"), "refused");
        assert!(
            error.starts_with("Write denied: '") && error.contains(path),
            "{error}"
        );
    }
    assert_eq!(entries(folder.path()), ["innocent"]);
}

#[test]
fn arguments_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    for wrong in [
        json!({"path": "f"}),
        json!({"content": "x"}),
        json!({"path": "f", "content": 3}),
        json!({"path": "f", "content": null}),
        json!({"path": "f", "content": "x", "mode": "a"}),
        json!({"path": "", "content": "x"}),
        json!({"path": "a\0b", "content": "x"}),
    ] {
        error_of(&call(&WriteFile, &context, wrong), "usage");
    }
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn errors_name_the_target_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let long = format!("new/{}", "n".repeat(300));
    for (path, errno) in [("file/x", "os error 20"), (long.as_str(), "os error 36")] {
        let error = error_of(&write(folder.path(), path, "x"), "exception");
        let head = path.get(..40).unwrap_or(path);
        assert!(error.contains(head) && error.contains(errno), "{error}");
        assert!(
            error.contains("; ") && !error.contains(".warmcell-"),
            "{error}"
        );
    }
    assert_eq!(entries(folder.path()), ["file"]);
}

#[test]
fn without_permission_the_target_is_named() {
    if rustix::process::geteuid().is_root() {
        return; // Nothing is forbidden to root.
    }
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("old"), "old").unwrap();
    fs::write(closed.join("protected"), "old").unwrap();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&closed.join("protected"), 0o444);
    set(&closed, 0o555);
    for path in ["closed/new", "closed/protected"] {
        let error = error_of(&write(folder.path(), path, "x"), "exception");
        assert!(
            error.contains(path) && error.contains("os error 13"),
            "{error}"
        );
        assert!(!error.contains(".warmcell-"), "{error}");
    }
    // The folder is closed, the file in it is not.
    writes(folder.path(), "closed/old", "new");
    assert_eq!(fs::read(closed.join("old")).unwrap(), b"new");
    assert_eq!(entries(&closed), ["old", "protected"]);
    set(&closed, 0o755);
}

#[test]
fn nothing_is_written_once_the_cell_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "old").unwrap();
    let context = context(folder.path());
    context.cancelled.cancel();
    for path in ["f", "new/g"] {
        let arguments = json!({"path": path, "content": "new"});
        error_of(&call(&WriteFile, &context, arguments), "interrupted");
    }
    assert_eq!(fs::read(folder.path().join("f")).unwrap(), b"old");
    assert_eq!(entries(folder.path()), ["f"]);
}

/// Any text that is not refused as a display and not read as binary.
fn text() -> impl Strategy<Value = String> {
    let any = prop_oneof![
        any::<String>(),
        "(?s).{0,300}",
        "[a\r\n\u{FEFF}|12\\\\\"'漢]{0,80}",
    ];
    any.prop_filter("binary or numbered", |text| {
        !text.contains('\0') && !is_numbered(text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read(text in text()) {
        let folder = tempfile::tempdir().unwrap();
        let result = write(folder.path(), "f", &text);
        prop_assert_eq!(&result["bytes_written"], &json!(text.len()));
        prop_assert_eq!(fs::read(folder.path().join("f")).unwrap(), text.as_bytes());
        let read = call(&ReadFile, &context(folder.path()), json!({"path": "f"}));
        let plain = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
        prop_assert_eq!(&read["content"], &json!(plain));
        prop_assert_eq!(&read["file_size"], &json!(text.len()));
    }

    #[test]
    fn what_is_read_and_written_back_is_the_same_file(text in text()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        // Two marks in a row read as one in the text, which then stands for both.
        prop_assume!(!text.starts_with("\u{FEFF}\u{FEFF}"));
        fs::write(&file, &text).unwrap();
        for _ in 0..2 {
            let read = call(&ReadFile, &context(folder.path()), json!({"path": "f"}));
            writes(folder.path(), "f", read["content"].as_str().unwrap());
            prop_assert_eq!(fs::read(&file).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_file_of_crlf_stays_one(lines in proptest::collection::vec("[a-z漢 ]{0,9}", 1..9)) {
        let unix = lines.join("\n");
        prop_assert_eq!(over(b"old\r\n", &unix), lines.join("\r\n").into_bytes());
        prop_assert_eq!(over(b"old\n", &unix), unix.into_bytes());
    }
}

#[test]
fn a_path_that_names_a_folder_is_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "old").unwrap();
    let context = context(folder.path());
    for path in ["file/", "file/.", "file/..", "new/", "new/.", "new/x/.."] {
        let result = call(
            &WriteFile,
            &context,
            json!({"path": path, "content": "new"}),
        );
        let error = error_of(&result, "usage");
        assert!(error.contains("names a folder"), "{path}: {error}");
    }
    for path in ["file/../file", "file/x", "file/../new"] {
        let result = call(
            &WriteFile,
            &context,
            json!({"path": path, "content": "new"}),
        );
        let error = error_of(&result, "exception").to_lowercase();
        assert!(error.contains("not a directory"), "{path}: {error}");
    }
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_long_path_is_cut_and_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    for path in ["part/".repeat(1_200) + "end.txt", "a".repeat(6_000)] {
        let result = call(&WriteFile, &context, json!({"path": path, "content": ""}));
        let error = error_of(&result, "exception");
        assert!(error.chars().count() < 400, "{error}");
        assert_eq!(error.matches("[...").count(), 1, "{error}");
    }
}
