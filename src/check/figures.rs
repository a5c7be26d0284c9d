//! Numbers with units.

use std::fmt;
use std::time::Duration;

use serde::ser::{SerializeMap, Serializer};

/// In what something was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// Millions of bytes.
    Mb,
    /// How many.
    Count,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What was measured, in words with underscores.
    pub name: &'static str,
    /// How much, rounded to two decimals.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

impl Figure {
    /// How long something took.
    pub(super) fn ms(name: &'static str, time: Duration) -> Self {
        Self::new(name, time.as_secs_f64() * 1_000.0, Unit::Ms)
    }

    /// Bytes.
    #[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 bytes")]
    pub(super) fn mb(name: &'static str, bytes: u64) -> Self {
        Self::new(name, bytes as f64 / 1e6, Unit::Mb)
    }

    /// How many.
    #[expect(clippy::cast_precision_loss, reason = "what is counted is below 2^52")]
    pub(super) fn count(name: &'static str, count: u64) -> Self {
        Self::new(name, count as f64, Unit::Count)
    }

    fn new(name: &'static str, value: f64, unit: Unit) -> Self {
        let value = (value * 100.0).round() / 100.0;
        Self { name, value, unit }
    }

    /// Its name with the unit, as JSON has it.
    fn key(&self) -> String {
        let name = self.name;
        match self.unit {
            Unit::Ms => format!("{name}_ms"),
            Unit::Mb => format!("{name}_mb"),
            Unit::Count => name.to_owned(),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (self.name.replace('_', " "), self.value);
        match self.unit {
            Unit::Ms if value >= 10.0 => write!(formatter, "{name} {value:.0} ms"),
            Unit::Ms => write!(formatter, "{name} {value} ms"),
            Unit::Mb => write!(formatter, "{name} {value:.1} MB"),
            Unit::Count => write!(formatter, "{name} {value}"),
        }
    }
}

/// As one object.
pub(super) fn as_object<S: Serializer>(
    figures: &[Figure],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(figures.len()))?;
    for figure in figures {
        if figure.unit == Unit::Count {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it was a count"
            )]
            let count = figure.value as u64;
            object.serialize_entry(&figure.key(), &count)?;
        } else {
            object.serialize_entry(&figure.key(), &figure.value)?;
        }
    }
    object.end()
}

/// How long something took, as sentences have it: `3.1 ms`, `512 ms`, `3.02 s`.
pub(super) fn shown(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1_000.0;
    if ms < 9.95 {
        format!("{ms:.1} ms")
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1_000.0)
    }
}

/// A limit of time, as sentences have it: `3 s`.
pub(super) fn limit(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// The middle and the largest of some times; nothing of none.
pub(super) fn median_and_worst(mut times: Vec<Duration>) -> Option<(Duration, Duration)> {
    times.sort_unstable();
    Some((*times.get(times.len() / 2)?, *times.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_with_their_units() {
        let figures = [
            Figure::ms("first_reply", Duration::from_micros(3_456)),
            Figure::ms("end", Duration::from_millis(1_234)),
            Figure::mb("rss", 61_250_000),
            Figure::count("cells", 50),
        ];
        let told: Vec<String> = figures.iter().map(Figure::to_string).collect();
        assert_eq!(
            told,
            [
                "first reply 3.46 ms",
                "end 1234 ms",
                "rss 61.2 MB",
                "cells 50"
            ]
        );
        let mut json = Vec::new();
        as_object(&figures, &mut serde_json::Serializer::new(&mut json)).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"first_reply_ms":3.46,"end_ms":1234.0,"rss_mb":61.25,"cells":50}"#
        );
    }

    #[test]
    fn times_are_shown_as_people_say_them() {
        let told = [40, 3_149, 9_960, 512_400, 999_700, 3_021_000].map(|microseconds| {
            let time = Duration::from_micros(microseconds);
            shown(time)
        });
        assert_eq!(
            told,
            ["0.0 ms", "3.1 ms", "10 ms", "512 ms", "1.00 s", "3.02 s"]
        );
        assert_eq!(limit(Duration::from_millis(2_500)), "2.5 s");
        let times = [3, 1, 2].map(Duration::from_secs).to_vec();
        let expected = (Duration::from_secs(2), Duration::from_secs(3));
        assert_eq!(median_and_worst(times), Some(expected));
        assert_eq!(median_and_worst(Vec::new()), None);
    }
}
