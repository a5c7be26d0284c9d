//! Commands inside commands, and texts that are meant to do harm; nothing here is ever run.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::hard_floor::hard_floor;
use super::hard_floor_tests::{HOME, passed, refused, rule};

#[test]
fn payloads_are_unpacked() {
    refused(
        "rm-root",
        &[
            "sh -c 'rm -rf /'",
            "bash -c \"rm -rf /\"",
            "bash -lc 'rm -rf /'",
            "bash -euo pipefail -c 'rm -rf /'",
            "bash --norc -c 'rm -rf /'",
            "bash -c -e 'rm -rf /'",
            "/bin/sh -c 'rm -rf /'",
            "sudo bash -c 'rm -rf /'",
            "sh -c \"bash -c 'rm -rf /'\"",
            "sh -c 'sh -c \"sh -c \\\"rm -rf /\\\"\"'",
            "eval 'rm -rf /'",
            "eval rm -rf /",
            "eval \"r\"m '-rf' /",
            "su -c 'rm -rf /'",
            "su root --command='rm -rf /'",
            "trap 'rm -rf /' EXIT",
            "bash <<E\nrm -rf /\nE",
            "bash <<'E'\nrm -rf /\nE",
            "sudo bash -s x <<E\nrm -rf /\nE",
            "cat <<E | bash\nrm -rf /\nE",
            "cat <<E | sudo tee x | sh -\nrm -rf /\nE",
            "sh <<< 'rm -rf /'",
            "echo 'rm -rf /' | sh",
            "printf 'true\\nrm -rf /' | bash",
            "echo 'rm -rf /' |\n bash",
            "xargs rm -rf /",
            "echo / | xargs rm -rf",
            "echo / | xargs -n 1 sudo rm -rf",
            "echo / | xargs -I{} rm -rf {}",
            "find . | xargs -0 sh -c 'rm -rf /'",
            "find . -exec rm -rf / \\;",
            "find . -name x -exec true \\; -execdir sh -c 'rm -rf /' \\;",
            "env -S 'rm -rf /'",
            "env -S'rm -rf' /",
            "env -iS 'rm -rf /'",
            "env --split-string='rm -rf /'",
            "busybox sh -c 'rm -rf /'",
            "timeout -k 5 10 sh -c 'rm -rf /'",
        ],
    );
    refused(
        "malformed-payload",
        &[
            "bash -c 'echo \"'",
            "eval \"echo 'x\"",
            "sh -c 'echo $(x'",
            "bash <<E\necho it's\nE",
        ],
    );
    passed(&[
        "echo \"rm -rf /\"",
        "echo 'rm -rf /' > notes.txt",
        "printf '%s' 'rm -rf /' | wc -c",
        "git commit -m \"never rm -rf /\"",
        "grep -r 'rm -rf /' .",
        "bash -c 'echo \"rm -rf /\"'",
        "bash script.sh 'rm -rf /'",
        "echo 'rm -rf /' | bash script.sh",
        "bash -c \"$cmd\"",
        "eval \"$(ssh-agent -s)\"",
        "python -c 'print(\"rm -rf /\")'",
        "echo it's",
        "echo \"unclosed",
        "sh -c 'true' _ 'it'\\''s'",
        "awk '{ print $1 }' x | sed 's/(/[/' | sh -c 'cat'",
    ]);
}

#[test]
fn sudo_with_a_password_from_input_is_refused() {
    refused(
        "sudo-stdin",
        &[
            "sudo -S ls",
            "echo pw | sudo -S ls",
            "sudo -kS ls",
            "sudo -p '' -S ls",
            "sudo --stdin ls",
            "sudo --user root -S ls",
            "env A=1 sudo -S true",
        ],
    );
    passed(&[
        "sudo ls -S",
        "sudo -s",
        "sudo -u S ls",
        "sudo -n true",
        "echo sudo -S",
    ]);
}

#[test]
fn hostile_texts_take_bounded_time() {
    let size = 100_000;
    for part in [
        "'",
        "\"",
        "`",
        "\\`",
        "$(",
        "(",
        ")",
        "((",
        "${",
        "{",
        "}",
        "{a,",
        "\\",
        "$",
        "|",
        "a|",
        ":|",
        "<<a ",
        "<<a\n",
        "<<",
        "<",
        "\u{1b}]",
        "\u{1b}[",
        "#",
        "a=(",
        "sudo ",
        "xargs ",
        "cat|",
        "sh|",
        "find -exec ",
        "-exec ;",
        "[[ ",
        "case x in ",
        "f()",
        "f() { f|f; ",
        "echo x|cat|sh;",
        "eval ",
        "bash -c '",
        "env -S ",
        "~",
        "*",
        "[",
        "/..",
        "$IFS",
        "\n",
        ";",
        "; (",
        "echo `",
        "${x:-",
        "\"$(",
        "'\"`",
    ] {
        let text: String = part.chars().cycle().take(size).collect();
        for text in [format!("rm -rf {text}"), text] {
            let began = Instant::now();
            let _: Option<_> = hard_floor(&text, Some(Path::new(HOME)));
            let took = began.elapsed();
            assert!(took < Duration::from_secs(5), "{part:?} took {took:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC*") {
        let _: Option<_> = hard_floor(&text, None);
    }

    #[test]
    fn any_shell_like_text_is_read(
        text in "([ \n\t;&|<>(){}'\"`$\\\\*?~#=/!\\[\\]-]|\\$\\(|\\$\\{|<<|rm|sh|-c|case|in|esac|E\n){0,60}",
    ) {
        let _: Option<_> = hard_floor(&text, None);
    }

    #[test]
    fn spaces_around_separators_change_nothing(
        words in proptest::collection::vec("echo x|rm -rf /|rm -rf x|reboot|true|kill -1 5", 1..5),
        separators in proptest::collection::vec("&&|\\|\\||;|\\||&", 5),
    ) {
        let join = |space: &str| {
            let pairs = words.iter().zip(&separators);
            let parts: Vec<_> =
                pairs.map(|(word, separator)| format!("{word}{space}{separator}{space}")).collect();
            parts.concat()
        };
        prop_assert_eq!(rule(&join("")), rule(&join("  ")));
    }

    #[test]
    fn a_payload_is_judged_as_the_command(
        command in "rm -rf (/|/tmp|/usr/?|~|x)|reboot|halt|echo (reboot|x)|dd of=/dev/(sda|null)",
    ) {
        let inner = rule(&command);
        prop_assert_eq!(rule(&format!("sh -c '{command}'")), inner);
        prop_assert_eq!(rule(&format!("eval \"{command}\"")), inner);
        prop_assert_eq!(rule(&format!("x=$({command}); true")), inner);
        prop_assert_eq!(rule(&format!("bash <<E\n{command}\nE\n")), inner);
        prop_assert_eq!(rule(&format!("echo '{command}' | sh")), inner);
        prop_assert_eq!(rule(&format!("grep '{command}' x")), None);
    }
}
