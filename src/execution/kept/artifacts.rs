//! What is shown and is a file: images, sounds, films, documents.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};

use crate::jupyter::{Published, PublishedKind};

/// Those that are files, with the extension that such files have.
const TYPES: [(&str, &str); 17] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/bmp", "bmp"),
    ("image/tiff", "tiff"),
    ("image/avif", "avif"),
    ("image/x-icon", "ico"),
    ("image/svg+xml", "svg"),
    ("application/pdf", "pdf"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/flac", "flac"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
];

/// Base64 as programs write it: with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A file with what a cell has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its format.
    pub mime: String,
    /// Where it is.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// The forms of what is shown that are files: place in the table.
pub(super) fn forms(shown: &Published) -> Vec<usize> {
    let shows = matches!(
        shown.kind,
        PublishedKind::Result | PublishedKind::Display | PublishedKind::Update
    );
    let place = |mime: &str| TYPES.iter().position(|(it, _)| *it == mime);
    let mimes = shown.data.mimes().filter(|_| shows);
    mimes.filter_map(place).collect()
}

/// The type of a form, and the extension of its files.
pub(super) fn form(place: usize) -> (&'static str, &'static str) {
    TYPES.get(place).copied().unwrap_or_default()
}

/// The bytes of the file; `None` if they make no sense.
pub(super) fn bytes_of(shown: &Published, mime: &str) -> Option<Vec<u8>> {
    let text = shown.data.text(mime)?;
    if mime.ends_with("+xml") {
        return Some(text.into_bytes());
    }
    let mut text = text.into_bytes();
    text.retain(|byte| !byte.is_ascii_whitespace());
    BASE64.decode(text).ok()
}
