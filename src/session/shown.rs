//! What a cell shows, as the events of its session have it.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::EventKind;
use crate::jupyter::{Published, PublishedKind};

/// Bytes of what is shown in one event: those who watch may lag behind by hundreds of events.
const SHOWN_BYTES: usize = 256 << 10;
/// Bytes of the text of what is longer than that.
const TEXT_BYTES: usize = 16 << 10;

/// What a cell shows.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// Its data by MIME type, as a JSON object. Of more than 256 KiB only `text/plain` is here, cut
    /// to 16 KiB.
    pub data: Box<RawValue>,
    /// How it is to be shown, keyed as the data.
    pub metadata: Box<RawValue>,
    /// The name under which it may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
    /// The MIME types that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
}

/// The event that tells it; `None` for what only front ends understand.
pub(super) fn shown_in_event(published: &Published) -> Option<EventKind> {
    Some(match published.kind {
        PublishedKind::Result => EventKind::Result {
            data: published.text().unwrap_or_default(),
            shown: Some(Shown::of(published)?),
        },
        PublishedKind::Display => EventKind::Display(Shown::of(published)?),
        PublishedKind::Update => EventKind::UpdateDisplay(Shown::of(published)?),
        PublishedKind::Clear => EventKind::ClearOutput {
            wait: published.waits(),
        },
        _ => return None,
    })
}

impl Shown {
    fn of(published: &Published) -> Option<Self> {
        let display_id = published.display_id();
        let nothing = || RawValue::from_string("{}".to_owned()).ok();
        if published.len() <= SHOWN_BYTES {
            return Some(Self {
                data: RawValue::from_string(published.data.to_json()).ok()?,
                metadata: match published.data_metadata() {
                    Some(metadata) if metadata.get().starts_with('{') => metadata.to_owned(),
                    _ => nothing()?,
                },
                display_id,
                omitted: Vec::new(),
            });
        }
        let mut text = published.data.text_plain().unwrap_or_default();
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        let omitted = published.data.mimes().filter(|mime| *mime != "text/plain");
        Some(Self {
            data: to_raw_value(&serde_json::json!({ "text/plain": text })).ok()?,
            metadata: nothing()?,
            display_id,
            // A cell may name as many as it likes.
            omitted: omitted
                .take(20)
                .map(|mime| mime.chars().take(100).collect())
                .collect(),
        })
    }
}
