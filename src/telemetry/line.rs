//! What a line of the log looks like:
//! `2026-11-30T14:52:01.123Z INFO [session] target: message field=value span.field=value`.
//!
//! A value that is not one plain word stands in quotes, with the escapes of JSON. `[-]` is of no session.

use std::fmt::{self, Debug, Write as _};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The name of the span of a session, and that of its field that names it.
const SESSION: &str = "session";
const SESSION_ID: &str = "session_id";

/// A line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line;

/// The fields of a span, a line each: `name=value`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields;

impl<'a> FormatFields<'a> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'a>, fields: R) -> fmt::Result {
        let mut seen = Seen::default();
        fields.record(&mut seen);
        for (name, value) in seen.fields {
            writeln!(writer, "{name}={value}")?;
        }
        Ok(())
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut seen = Seen::default();
        event.record(&mut seen);
        let mut session = None;
        let mut around = String::new();
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<N>>() else {
                continue;
            };
            for field in fields.fields.lines() {
                match field.split_once('=') {
                    Some((SESSION_ID, name)) if span.name() == SESSION => {
                        session.get_or_insert_with(|| name.to_owned());
                    }
                    _ => write!(around, " {}.{field}", span.name())?,
                }
            }
        }
        let named = seen.fields.iter().position(|(name, _)| *name == SESSION);
        if let Some(at) = named {
            session = Some(seen.fields.remove(at).1);
        }
        let now = Timestamp::now();
        let metadata = event.metadata();
        write!(
            writer,
            "{now:.3} {} [{}] {}: {}",
            metadata.level(),
            session.as_deref().unwrap_or("-"),
            metadata.target(),
            seen.message
        )?;
        for (name, value) in seen.fields {
            write!(writer, " {name}={value}")?;
        }
        writeln!(writer, "{around}")
    }
}

/// What an event or a span says.
#[derive(Default)]
struct Seen {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Seen {
    fn add(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = on_one_line(value);
        } else {
            self.fields.push((field.name(), in_quotes_if_needed(value)));
        }
    }
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, &format!("{value:?}"));
    }
}

fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_control() {
            line.extend(sign.escape_default());
        } else {
            line.push(sign);
        }
    }
    line
}

fn in_quotes_if_needed(text: &str) -> String {
    let is_plain =
        |sign: char| !(sign.is_whitespace() || sign.is_control() || "\"=\\".contains(sign));
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}
