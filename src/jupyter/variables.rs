//! The variables of a kernel, as our own kernel lists them between cells.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ContentError;
use super::lenient::{self, Text, or_default};

/// Variables that one reply may list; of more the last are taken.
const MAX_VARIABLES: usize = 200;
/// Bytes of a reply; our kernel writes less than half of it at the worst.
const MAX_BYTES: usize = 1 << 20;
/// Dimensions of a shape.
const MAX_DIMENSIONS: usize = 64;

/// The content of a `warmcell_variables_reply`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariablesReply {
    /// At most 200, the latest bound last.
    pub variables: Vec<VariableEntry>,
    /// How many there are.
    pub total: u64,
}

/// A variable. Its texts are a cell's own: of any length and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableEntry {
    /// Its name.
    pub name: String,
    /// The name of its type.
    pub kind: String,
    /// Bytes that it takes, without what it refers to; `None` where that cannot be had.
    pub size: Option<u64>,
    /// How much is in it, where that is known.
    pub extent: Option<Extent>,
}

/// How much is in a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// The length of a container.
    Length(u64),
    /// The shape of an array or table.
    Shape(Vec<u64>),
}

impl VariablesReply {
    /// The type of the message that asks for it; its content is empty.
    pub const REQUEST: &str = "warmcell_variables_request";

    /// Reads a reply. An entry that is none is left out.
    ///
    /// # Errors
    ///
    /// If it is no JSON object with a list `variables`, as when the kernel could not make one; if it
    /// has more than 1 MiB.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        let fault = |reason: String| ContentError {
            message: "warmcell_variables_reply".into(),
            reason,
        };
        if bytes.len() > MAX_BYTES {
            return Err(fault(format!("it has {} bytes", bytes.len())));
        }
        let Listing { variables, total } =
            lenient::read(bytes).map_err(|error| fault(error.to_string()))?;
        let items = variables.ok_or_else(|| fault("it lists no variables".to_owned()))?;
        let from = items.len().saturating_sub(MAX_VARIABLES);
        let latest = items.get(from..).unwrap_or_default();
        Ok(Self {
            variables: latest.iter().filter_map(|raw| entry(raw)).collect(),
            total,
        })
    }
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default, deserialize_with = "or_default")]
    variables: Option<Vec<Box<RawValue>>>,
    #[serde(default, deserialize_with = "or_default")]
    total: u64,
}

type Entry = (Text, Text, Box<RawValue>, Box<RawValue>);

fn entry(raw: &RawValue) -> Option<VariableEntry> {
    let (Text(name), Text(kind), size, extent): Entry = lenient::raw_value(raw)?;
    let length = || lenient::raw_value(&extent).map(Extent::Length);
    let shape = || {
        let mut shape: Vec<u64> = lenient::raw_value(&extent)?;
        shape.truncate(MAX_DIMENSIONS);
        Some(Extent::Shape(shape))
    };
    Some(VariableEntry {
        name: name?,
        kind: kind.unwrap_or_default(),
        size: lenient::raw_value(&size),
        extent: length().or_else(shape),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<VariablesReply, ContentError> {
        VariablesReply::parse(text.as_bytes())
    }

    #[test]
    fn variables_are_read_and_what_is_odd_is_left_out() {
        let text = r#"{"variables": [
            ["x", "list", 88, 3], ["a", "ndarray", 48, [2, 3]], ["f", "F", null, null],
            ["odd", 5, -1, "3"], ["\ud800", "t", 1e99, [-1]], ["deep", "t", NaN, [[1]]],
            [7, "no name", 1, 1], ["short"], {}, null
        ], "total": 12, "more": 1}"#;
        let reply = parse(text).unwrap();
        assert_eq!(reply.total, 12);
        let entry = |name: &str, kind: &str, size, extent| VariableEntry {
            name: name.to_owned(),
            kind: kind.to_owned(),
            size,
            extent,
        };
        assert_eq!(
            reply.variables,
            [
                entry("x", "list", Some(88), Some(Extent::Length(3))),
                entry("a", "ndarray", Some(48), Some(Extent::Shape(vec![2, 3]))),
                entry("f", "F", None, None),
                entry("odd", "", None, None),
                entry("\u{fffd}", "t", None, None),
                entry("deep", "t", None, None),
            ]
        );
    }

    #[test]
    fn a_listing_is_capped() {
        let items: Vec<String> = (0..300).map(|n| format!("[\"v{n}\",\"t\",1,2]")).collect();
        let text = format!("{{\"variables\":[{}],\"total\":300}}", items.join(","));
        let reply = parse(&text).unwrap();
        assert_eq!((reply.variables.len(), reply.total), (200, 300));
        assert_eq!(reply.variables[0].name, "v100");
        let dimensions = vec!["1"; 500].join(",");
        let text = format!("{{\"variables\":[[\"a\",\"t\",1,[{dimensions}]]]}}");
        let reply = parse(&text).unwrap();
        assert_eq!(reply.variables[0].extent, Some(Extent::Shape(vec![1; 64])));
        assert_eq!(reply.total, 0);
    }

    #[test]
    fn what_lists_nothing_is_no_reply() {
        for text in ["{}", "[]", "7", "", r#"{"variables": 7, "total": 1}"#] {
            assert!(parse(text).is_err(), "{text}");
        }
        let long = format!("{{\"variables\":[],\"x\":\"{}\"}}", "x".repeat(1 << 20));
        assert!(parse(&long).is_err());
    }
}
