use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::PathGuard;
use crate::tools::testing::context;
use crate::tools::{ToolContext, ToolFailure};

fn reading(context: &ToolContext, path: &str) -> Result<String, ToolFailure> {
    let end = PathGuard::new(context).for_reading(path, &context.resolve(path)?)?;
    Ok(end.display().to_string())
}

fn writing(context: &ToolContext, path: &str) -> Result<String, ToolFailure> {
    let end = PathGuard::new(context).for_writing(path, &context.resolve(path)?)?;
    Ok(end.display().to_string())
}

#[track_caller]
fn refused(outcome: Result<String, ToolFailure>, path: &str) -> String {
    let failure = outcome.unwrap_err();
    assert_eq!(failure.class, "refused");
    assert!(
        failure.message.contains(&format!("'{path}'")),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("; "),
        "no advice: {}",
        failure.message
    );
    failure.message
}

#[test]
fn devices_and_views_of_processes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    for path in ["/proc/meminfo", "/proc/self/status", "/dev/shm/zero"] {
        reading(&context, path).unwrap();
    }
}

#[test]
fn links_to_devices_are_followed_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    let at = |name: &str| folder.path().join(name);
    symlink("/dev/zero", at("zero")).unwrap();
    symlink("/dev/stdin", at("input")).unwrap();
    symlink("/proc/self", at("process")).unwrap();
    symlink("/dev", at("devices")).unwrap();
    symlink("/", at("top")).unwrap();
    symlink("zero", at("link0")).unwrap();
    for hop in 1..20 {
        symlink(format!("link{}", hop - 1), at(&format!("link{hop}"))).unwrap();
    }
    for path in [
        "zero",
        "input",
        "process/environ",
        "process/fd/0",
        "devices/zero",
        "devices/fd/0",
        "devices/../dev/stdin",
        "top/proc/self/root/proc/thread-self/environ",
        "link19",
    ] {
        refused(reading(&context, path), path);
        refused(writing(&context, path), path);
    }
}

#[test]
fn a_circle_of_links_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    for path in ["a", "a/x"] {
        let failure = writing(&context, path).unwrap_err();
        assert!(failure.message.contains("circle"), "{}", failure.message);
    }
}

#[test]
fn environment_files_are_not_read_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    symlink("deep/.env.local", folder.path().join("settings")).unwrap();
    for path in [
        ".env",
        "deep/.env.local",
        ".env.development",
        ".env.production",
        ".env.test",
        ".env.staging",
        "/srv/app/.envrc",
        "settings",
        "x/../.env",
    ] {
        refused(reading(&context, path), path);
    }
    for path in [".env.example", "env", "x.env", ".env/readme"] {
        reading(&context, path).unwrap();
    }
    // A project's own file may be set up, as long as it is not the agent's.
    writing(&context, ".env").unwrap();
}

#[test]
fn credentials_of_the_agent_are_neither_read_nor_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path());
    let names = [
        ".env",
        "auth.json",
        "auth.lock",
        ".anthropic_oauth.json",
        "webhook_subscriptions.json",
        "auth/google_oauth.json",
        "cache/bws_cache.json",
        "mcp-tokens/server.json",
        "skills/.hub/index",
        "profiles/work/auth.json",
        "profiles/work/mcp-tokens/x",
    ];
    for home in ["agent", "home/.hermes"] {
        for name in names {
            let path = format!("{home}/{name}");
            refused(reading(&context, &path), &path);
            refused(writing(&context, &path), &path);
        }
    }
    for name in [
        "config.yaml",
        "state.db",
        "state.db-wal",
        "sessions/1.json",
        "pairing/x",
    ] {
        for path in [
            format!("agent/{name}"),
            format!("agent/profiles/work/{name}"),
        ] {
            refused(writing(&context, &path), &path);
            reading(&context, &path).unwrap();
        }
    }
    for path in [
        "agent/cache/exec/stdout.txt",
        "agent/notes",
        "auth.json",
        "agent/skills/x",
    ] {
        reading(&context, path).unwrap();
        writing(&context, path).unwrap();
    }
    // In a profile the main home is protected as well.
    context.agent_home = folder.path().join("agent/profiles/work");
    for path in ["agent/auth.json", "agent/profiles/other/auth.json"] {
        refused(reading(&context, path), path);
    }
}

#[test]
fn a_home_behind_a_link_is_protected_under_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real", folder.path().join("agent")).unwrap();
    for path in ["agent/auth.json", "real/auth.json", "real/mcp-tokens/new/x"] {
        refused(reading(&context, path), path);
        refused(writing(&context, path), path);
    }
}

#[test]
fn system_paths_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    symlink("/etc", folder.path().join("settings")).unwrap();
    symlink("/etc/no-such-file", folder.path().join("dangling")).unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    symlink(Path::new("/etc/ssl"), folder.path().join("in/ssl")).unwrap();
    for path in [
        "/etc/passwd",
        "/etc/new/deep/file",
        "/boot/x",
        "/usr/lib/systemd/system/x.service",
        "/var/run/docker.sock",
        "/sys/kernel/x",
        "/proc/sys/kernel/x",
        "/private/etc/hosts",
        "/private/var/db/x",
        "/tmp/../etc/hosts",
        "settings/new/x",
        "dangling",
        "in/ssl/../hosts",
    ] {
        let message = refused(writing(&context, path), path);
        assert!(message.starts_with("Write denied: "), "{message}");
    }
    for path in [
        "/etcetera/x",
        "/usr/lib/x",
        "/private/var/folders/x",
        "/srv/etc/x",
    ] {
        writing(&context, path).unwrap();
    }
    reading(&context, "/etc/passwd").unwrap();
}

#[test]
fn credentials_of_the_user_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    for path in [
        "~/.ssh/config",
        "~/.ssh",
        "home/.aws/credentials",
        "home/x/../.gnupg/new/x",
        "home/.kube/config",
        "home/.docker/config.json",
        "home/.azure/x",
        "home/.config/gh/hosts.yml",
        "home/.config/gcloud/x",
        "home/.netrc",
        "home/.pgpass",
        "home/.npmrc",
        "home/.pypirc",
        "home/.git-credentials",
    ] {
        refused(writing(&context, path), path);
    }
    for path in [
        "home/.config/gh-dash/x",
        ".npmrc",
        "home/project/.npmrc",
        "~/.sshx",
    ] {
        writing(&context, path).unwrap();
    }
}

#[test]
fn the_end_of_the_trail_is_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let context = context(&top);
    fs::create_dir_all(top.join("a/b")).unwrap();
    symlink("a/b", top.join("link")).unwrap();
    for (path, end) in [
        ("x", "x"),
        ("./a//b/x", "a/b/x"),
        ("link/x", "a/b/x"),
        ("link/../x", "a/x"),
        ("new/deep/../x", "new/x"),
    ] {
        assert_eq!(
            writing(&context, path).unwrap(),
            top.join(end).display().to_string()
        );
    }
}

#[test]
fn a_refusal_says_where_a_link_leads() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    symlink("/etc/hosts", folder.path().join("names")).unwrap();
    let message = refused(writing(&context, "names"), "names");
    assert!(
        message.contains("it leads to /etc/hosts") && message.contains("/etc)"),
        "{message}"
    );
}

#[test]
fn an_open_file_is_judged_by_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    fs::write(folder.path().join(".env"), "KEY=1").unwrap();
    fs::write(folder.path().join("plain"), "").unwrap();
    let guard = PathGuard::new(&context);
    let opened = |name: &str| fs::File::open(folder.path().join(name)).unwrap();
    guard.opened_for_reading("plain", &opened("plain")).unwrap();
    let failure = guard
        .opened_for_reading("plain", &opened(".env"))
        .unwrap_err();
    assert_eq!(failure.class, "refused");
    let environment = fs::File::open("/proc/self/environ").unwrap();
    guard.opened_for_reading("plain", &environment).unwrap_err();
}

/// As the system has it: what is followed by `/`, `/.` or `/..` must be a directory.
#[test]
fn a_file_is_no_folder_on_the_way_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    fs::create_dir(folder.path().join("dir")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    symlink("file", folder.path().join("link")).unwrap();
    symlink("file/", folder.path().join("slash")).unwrap();
    for path in [
        "file/",
        "file//",
        "file/.",
        "file/..",
        "file/../file",
        "file/../dir/x",
        "dir/../file/",
        "dir/../file/../file",
        "link/",
        "link/../file",
        "slash",
        "slash/x/..",
    ] {
        let system = fs::metadata(folder.path().join(path)).unwrap_err();
        assert_eq!(system.kind(), std::io::ErrorKind::NotADirectory, "{path}");
        for failure in [
            reading(&context, path).unwrap_err(),
            writing(&context, path).unwrap_err(),
        ] {
            assert_eq!(failure.class, "exception", "{path}");
            assert!(
                failure.message.contains("not a directory"),
                "{path}: {failure:?}"
            );
        }
    }
    for path in ["dir/../file", "./file", "dir/./../file", "dir/.././link"] {
        reading(&context, path).unwrap();
        writing(&context, path).unwrap();
    }
    for path in ["none/../file", "dir/none/../../file", "none/"] {
        let failure = reading(&context, path).unwrap_err();
        assert!(
            failure.message.starts_with("File not found: "),
            "{failure:?}"
        );
    }
}

/// Every sentence that names a path, with one that is too long to read.
#[test]
fn a_long_path_is_cut_and_named_once_in_every_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(folder.path());
    fs::write(folder.path().join("file"), "").unwrap();
    let long = format!("start/{}", "part/".repeat(1_200));
    for path in [
        format!("{long}.env"),
        format!("/etc/{long}x"),
        format!("file/../{long}x"),
        format!("none/../{long}x"),
        format!("home/.ssh/{long}x"),
        format!("{long}\0"),
    ] {
        for outcome in [reading(&context, &path), writing(&context, &path)] {
            let Err(failure) = outcome else { continue };
            let message = &failure.message;
            assert!(message.chars().count() < 600, "{message}");
            assert!(message.matches("[...").count() <= 1, "{message}");
        }
    }
}
