use std::path::Path;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::message::Channel;
use super::*;

#[test]
fn every_seed_runs() {
    // The published package leaves the fuzz folder out.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/link_frame");
    let Ok(seeds) = std::fs::read_dir(folder) else {
        return;
    };
    let seeds: Vec<_> = seeds.map(|seed| seed.unwrap().path()).collect();
    assert!(seeds.len() >= 15);
    for seed in seeds {
        exercise(&std::fs::read(seed).unwrap());
    }
}

fn bytes(longest: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..longest).prop_map(Bytes::from)
}

fn message() -> impl Strategy<Value = RawMessage> {
    let parts = [bytes(80), bytes(80), bytes(20), bytes(200)];
    // Some larger than what is copied out of the read buffer.
    let buffer = prop_oneof![4 => bytes(40), 1 => (0..40_000_usize).prop_map(|length| vec![7; length].into())];
    let buffers = prop::collection::vec(buffer, 0..5);
    (prop::sample::select(&Channel::ALL[..]), parts, buffers).prop_map(
        |(channel, [header, parent_header, metadata, content], buffers)| RawMessage {
            channel,
            header,
            parent_header,
            metadata,
            content,
            buffers,
        },
    )
}

/// A frame of which some bytes were changed: most of these reach deeper than noise does.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), any::<u8>());
    (message(), prop::collection::vec(change, 0..4)).prop_map(|(message, changes)| {
        let mut frame = encode(&message, &Limits::from_kernel()).unwrap();
        for (index, value) in changes {
            // The head is small and the rest is large: let most changes hit the head.
            let near = frame.len().min(80);
            frame[index.index(near)] = value;
        }
        frame
    })
}

/// Text that is nearly JSON, rich in what a repair looks at.
fn nearly_json() -> impl Strategy<Value = String> {
    let word = prop::sample::select(
        &[
            "\"",
            "\\",
            "\\u",
            "d800",
            "dc00",
            "\\ud83d",
            "\\ude00",
            "NaN",
            "-",
            "Infinity",
            "N",
            "I",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "1",
            "null",
            "\"status\":",
            "\"ok\"",
            "\"data\":",
            "\"msg_id\":",
            "\"traceback\":",
            "\"warmcell\":",
            "\u{e9}",
            "\u{1f600}",
        ][..],
    );
    prop::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn messages_survive_any_cut_of_the_stream(
        messages in prop::collection::vec(message(), 0..6),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let limits = Limits::from_kernel();
        let frames = messages.iter().map(|message| encode(message, &limits).unwrap());
        let stream = frames.collect::<Vec<_>>().concat();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(stream.len());

        let mut reader = FrameReader::new(limits);
        let mut read = Vec::new();
        let mut start = 0;
        for end in ends {
            reader.buffer().extend_from_slice(&stream[start..end]);
            start = end;
            while let Some(message) = reader.next_message().unwrap() {
                read.push(message);
            }
        }
        prop_assert!(!reader.is_mid_frame());
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn noise_is_a_fault_or_waits_for_more(data in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise(&data);
    }

    #[test]
    fn memory_follows_what_was_fed(
        length in any::<u32>(),
        data in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut reader = FrameReader::new(Limits::from_kernel());
        reader.feed(&length.to_le_bytes());
        reader.feed(&data);
        drop(reader.next_message());
        prop_assert!(reader.buffer().capacity() <= 3 * 64 * 1024);
    }

    #[test]
    fn damaged_frames_end_in_order(data in damaged()) {
        exercise(&data);
    }

    #[test]
    fn nearly_json_is_read_or_refused(text in nearly_json()) {
        views(text.as_bytes());
    }

    /// What Python would have written without the damage is what is read after it.
    #[test]
    fn a_text_keeps_all_but_its_lone_surrogates(
        pieces in prop::collection::vec(("[^\\pC]{0,5}", any::<bool>()), 0..6),
    ) {
        let mut json = String::new();
        let mut expected = String::new();
        for (text, is_followed_by_a_surrogate) in &pieces {
            let quoted = serde_json::to_string(text).unwrap();
            json.push_str(quoted.strip_prefix('"').unwrap().strip_suffix('"').unwrap());
            expected.push_str(text);
            if *is_followed_by_a_surrogate {
                json.push_str("\\udbff");
                expected.push('\u{fffd}');
            }
        }
        let content = format!("{{\"ename\":\"{json}\",\"evalue\":NaN}}");
        let error = ErrorContent::parse(content.as_bytes()).unwrap();
        prop_assert_eq!(error.ename, expected);
    }
}
