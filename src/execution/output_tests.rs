use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::execution::{Files, Store};
use crate::output::strip;

const PATIENCE: Duration = Duration::from_secs(20);

/// What comes of a stdout that is cut so: what was collected, and what is in the file.
fn kept(chunks: &[&[u8]], cap: usize) -> (Collected, Option<Vec<u8>>) {
    let home = TempDir::new().unwrap();
    let store = Store::new(home.path().to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let keeping = Keeping::new(&store, Files::All, cap, 2 << 20, None);
        let caps = Caps {
            stdout: cap,
            stderr: 0,
        };
        let rules = Rules::default();
        let mut output = CellOutput::new(caps, Some(&rules), keeping, None, None);
        for chunk in chunks {
            output.stdout(chunk);
        }
        let collected = output.take();
        let kept = output.take_keeping().unwrap().finish(PATIENCE).await;
        assert_eq!(kept.lost, None);
        let file = kept.output.map(|path| std::fs::read(path).unwrap());
        (collected, file)
    })
}

fn masked(text: &[u8]) -> (Vec<u8>, u64) {
    let mut redactor = Redactor::new(Rules::default());
    let mut masked = Vec::new();
    let mut tell = |edit: crate::output::redact::Edit<'_>| match edit {
        crate::output::redact::Edit::Keep(bytes) => masked.extend_from_slice(bytes),
        crate::output::redact::Edit::Mask { begins, .. } => {
            let marker = begins.map(crate::output::redact::marker);
            masked.extend(marker.unwrap_or_default().into_bytes());
        }
    };
    redactor.push(text, &mut tell);
    redactor.finish(&mut tell);
    (masked, redactor.count())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_file_is_the_masked_whole_and_the_window_its_ends(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "line of text\n", "ghp_0123456789abcdef", "ghp_", "0123456789", "é😀", "10 %\r", "\x08",
                "\x1b[31m", "\x1b", "A_KEY=", "Zx81kQ0pLm27", "\n", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx", " ",
            ]),
            0..60,
        ),
        size in 1_usize..80,
        cap in 0_usize..400,
    ) {
        let given = pieces.concat().into_bytes();
        let chunks: Vec<&[u8]> = given.chunks(size).collect();
        let (collected, file) = kept(&chunks, cap);
        let (whole, count) = masked(&strip(&given));
        prop_assert_eq!(collected.redacted, count);
        let stdout = collected.stdout;
        prop_assert_eq!(stdout.total, given.len() as u64);
        prop_assert_eq!(stdout.captured + stdout.omitted, stdout.total);
        match stdout.text.split_once("\n\n... [OUTPUT TRUNCATED - ") {
            Some((head, rest)) => {
                let (_, tail) = rest.split_once("] ...\n\n").unwrap();
                // Halves of characters that are no UTF-8 by themselves are shown as three bytes.
                let broken = stdout.text.matches('\u{fffd}').count() * 3;
                prop_assert!(head.len() + tail.len() <= cap + broken);
                prop_assert!(file.is_some());
            }
            None => prop_assert!(stdout.text.len() <= cap),
        }
        if whole.len() > cap {
            prop_assert_eq!(file, Some(whole));
        } else {
            prop_assert_eq!(file, None);
        }
    }
}

#[test]
fn a_secret_is_masked_at_every_border() {
    // Each piece is cut in the middle of the secret, wherever that is.
    const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let filler = "x".repeat(1_000_000 - TOKEN.len() - 2);
    let text = format!("{filler} {TOKEN} ");
    let wanted = format!("{filler} [redacted:github-token] ");
    for cut in 0..=TOKEN.len() {
        let (one, other) = text.as_bytes().split_at(filler.len() + 1 + cut);
        let (collected, file) = kept(&[one, other], 50_000);
        assert_eq!(collected.redacted, 1);
        assert!(file == Some(wanted.clone().into_bytes()), "{cut}");
        assert!(!collected.stdout.text.contains("ghp_"), "{cut}");
    }
}
