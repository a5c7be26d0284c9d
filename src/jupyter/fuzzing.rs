//! What the fuzz target `link_frame` does with its input.
//!
//! It lives here so that the seeds in `fuzz/corpus/link_frame` are run by the ordinary tests too,
//! and so that the target keeps compiling.

use super::content::{DisplayData, ErrorContent, ExecuteReply, ExecuteResult};
use super::error::FrameError;
use super::frame::{FrameReader, Limits, encode};
use super::lenient::repair;
use super::message::{Header, RawMessage};
use super::variables::VariablesReply;

/// Limits that a short input can reach.
const NARROW: Limits = Limits {
    frame: 4096,
    json: 256,
    buffers: 512,
    parts: 12,
};

/// Reads the bytes as a stream of frames and as JSON of every kind that is read from a kernel.
///
/// # Panics
///
/// If the result depends on how the stream is cut up, if a message does not encode to the bytes it
/// came from, or if repairing repaired JSON changes it.
pub fn exercise(data: &[u8]) {
    for limits in [Limits::from_kernel(), NARROW] {
        let whole = Reading::of(data, data.len().max(1), limits);
        for step in [1, 3, 64] {
            assert_eq!(Reading::of(data, step, limits), whole, "in steps of {step}");
        }
        let mut encoded = Vec::new();
        for message in &whole.messages {
            // A message that was taken in is within the limits that it was taken in by.
            encoded.extend(encode(message, &limits).unwrap_or_default());
            views(&message.header);
            views(&message.content);
            for buffer in &message.buffers {
                views(buffer);
            }
        }
        assert!(
            data.starts_with(&encoded),
            "messages differ from the bytes they came from"
        );
        if let Ok(is_mid_frame) = whole.end {
            assert_eq!(is_mid_frame, encoded.len() < data.len(), "bytes were lost");
        }
    }
    views(data);
}

/// All that came of a stream.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    messages: Vec<RawMessage>,
    /// Whether it ended in the middle of a frame, or what was wrong with it.
    end: Result<bool, FrameError>,
}

impl Reading {
    fn of(data: &[u8], step: usize, limits: Limits) -> Self {
        let mut reader = FrameReader::new(limits);
        let mut messages = Vec::new();
        for chunk in data.chunks(step) {
            reader.feed(chunk);
            loop {
                match reader.next_message() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(fault) => {
                        return Self {
                            messages,
                            end: Err(fault),
                        };
                    }
                }
            }
        }
        Self {
            messages,
            end: Ok(reader.is_mid_frame()),
        }
    }
}

/// Reads the bytes as each thing that a kernel may send.
fn views(json: &[u8]) {
    // Whatever comes of it is right; it only has to come.
    drop(Header::parse(json));
    drop(ExecuteReply::parse(json));
    drop(ErrorContent::parse(json));
    drop(VariablesReply::parse(json));
    if let Ok(result) = ExecuteResult::parse(json) {
        drop(result.data.text_plain());
    }
    if let Ok(display) = DisplayData::parse(json) {
        for mime in display.data.mimes() {
            drop(display.data.text(mime));
        }
    }
    let repaired = repair(json);
    assert_eq!(repair(repaired.as_bytes()), repaired, "repaired twice");
}

#[cfg(test)]
#[path = "fuzzing_tests.rs"]
mod tests;
