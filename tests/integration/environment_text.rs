//! Text at every pipe and file is UTF-8, whatever locale the caller has.

use std::fs;

use serde_json::Value;
use warmcell::config::Caller;

use crate::server_kit::parts;
use crate::support::{Manager, Place, finish, pythons, run};

const TEXT: &str = "→ é 😀 中文";

fn code() -> String {
    format!(
        "# 中文\nimport json, os, subprocess, sys\n\
         print({TEXT:?}); print({TEXT:?}, file=sys.stderr)\n\
         write_file('f', {TEXT:?}); terminal(\"printf 'g\\\\303\\\\251' > g\")\n\
         child = 'print({TEXT:?}); import sys; sys.stdout.flush()'\n\
         said = subprocess.run([sys.executable, '-c', child], stdout=subprocess.PIPE, \
         universal_newlines=True).stdout\n\
         print(json.dumps([read_file('f')['content'], open('f').read(), open('g').read(), \
         terminal('cat f')['output'].splitlines()[-1], said.strip(), sys.stdout.encoding]))\n\
         sys.stdout.buffer.write(b'\\xff\\n');"
    )
}

fn assert_whole(output: &str, what: &str) {
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], TEXT, "{what}: {output}");
    let told: Value = serde_json::from_str(lines[1]).unwrap_or_else(|_| panic!("{what}: {output}"));
    let expected = serde_json::json!([TEXT, TEXT, "gé", TEXT, TEXT, "utf-8"]);
    assert_eq!(told, expected, "{what}");
    assert_eq!(lines[2], "\u{fffd}", "{what}");
}

#[tokio::test]
async fn text_is_utf8_whatever_the_locale() {
    let manager = Manager::start().await;
    for (number, locale) in ["C", "POSIX", "zh_CN.GBK", "C.UTF-8", "nonsense"]
        .iter()
        .enumerate()
    {
        for (version, python) in pythons() {
            let mut environment = manager.place.environment();
            environment.insert("LANG".to_owned(), "zh_CN.GBK".to_owned());
            environment.insert("LC_ALL".to_owned(), (*locale).to_owned());
            let caller = Caller {
                environment: environment.into_iter().collect(),
                ..manager.place.caller(python)
            };
            let name = format!("s{number}-{version}");
            let session = manager.registry.session(&name, &caller).unwrap();
            let outcome = run(&session, &code()).await;
            let what = format!("{version} {locale}");
            assert_whole(&outcome.output, &what);
            assert!(
                outcome.output.contains(&format!("--- stderr ---\n{TEXT}")),
                "{what}"
            );
            drop(session.close().await);
        }
    }
    manager.end().await;
}

#[tokio::test]
async fn the_command_line_speaks_utf8_whatever_its_locale() {
    let place = Place::new();
    fs::write(place.work().join("cell.py"), code()).unwrap();
    for locale in ["C", "zh_CN.GBK"] {
        let mut command = place.exec(&["-f", "cell.py"]);
        command.env("LC_ALL", locale).env("LANG", locale);
        let output = finish(&mut command);
        let (code, out, err) = parts(&output);
        assert_eq!(code, 0, "{err}");
        let whole: Vec<&str> = out.lines().take(2).collect();
        assert_whole(&format!("{}\n\u{fffd}", whole.join("\n")), locale);
        // A stream is as it was written.
        assert!(output.stdout.ends_with(b"\xff\n"), "{out:?}");
        assert_eq!(err, format!("{TEXT}\n"));
    }
    place.assert_no_survivors().await;
}
