//! The limits of a caller, as they go through the door: `{"nofile": [1024, 4096], "cpu": "unlimited"}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{Bound, Resource};

/// The largest number that the system takes for a limit.
const MOST: u64 = i64::MAX as u64;
/// The nice values that there are.
const NICE: std::ops::RangeInclusive<i64> = -20..=19;
/// Characters of a value that is shown.
const SHOWN_CHARS: usize = 40;

/// Limits by the system's names, each a number or `"unlimited"`, or a pair of the one in force and
/// the hard one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>", into = "BTreeMap<String, Value>")]
pub struct LimitsOrder(pub BTreeMap<Resource, Bound>);

/// How nice a kernel is to be: -20 to 19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "i32")]
pub struct NiceOrder(pub i32);

impl TryFrom<BTreeMap<String, Value>> for LimitsOrder {
    type Error = String;

    fn try_from(named: BTreeMap<String, Value>) -> Result<Self, String> {
        let mut bounds = BTreeMap::new();
        for (name, value) in named {
            let resource = Resource::named(&name).ok_or_else(|| unknown(&name))?;
            let bound = match &value {
                Value::Array(pair) => match pair.as_slice() {
                    [soft, hard] => (read(&name, soft)?, read(&name, hard)?),
                    _ => return Err(not_a_limit(&name, &value)),
                },
                both => (read(&name, both)?, read(&name, both)?),
            };
            let (soft, hard) = bound;
            if soft.unwrap_or(u64::MAX) > hard.unwrap_or(u64::MAX) {
                let shown = shown(&value);
                return Err(format!(
                    "{name} is {shown}, and the first (in force) must not be more than the \
                     second (hard)"
                ));
            }
            bounds.insert(resource, Bound { soft, hard });
        }
        Ok(Self(bounds))
    }
}

fn read(name: &str, value: &Value) -> Result<Option<u64>, String> {
    match value {
        Value::String(word) if word == "unlimited" => Ok(None),
        Value::Number(number) => number
            .as_u64()
            .filter(|number| *number <= MOST)
            .map(Some)
            .ok_or_else(|| not_a_limit(name, value)),
        _ => Err(not_a_limit(name, value)),
    }
}

fn unknown(name: &str) -> String {
    let known: Vec<&str> = Resource::ALL.iter().map(|it| it.name()).collect();
    let name = shown(&Value::from(name));
    format!(
        "there is no limit {name} to be set; there are {}",
        known.join(", ")
    )
}

fn not_a_limit(name: &str, value: &Value) -> String {
    format!(
        "{name} is {}; give a number from 0 to {MOST} or \"unlimited\", or a pair of them",
        shown(value)
    )
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

impl From<LimitsOrder> for BTreeMap<String, Value> {
    fn from(LimitsOrder(bounds): LimitsOrder) -> Self {
        let number = |limit: Option<u64>| limit.map_or_else(|| json!("unlimited"), |it| json!(it));
        let pair = |bound: Bound| json!([number(bound.soft), number(bound.hard)]);
        bounds
            .into_iter()
            .map(|(resource, bound)| (resource.name().to_owned(), pair(bound)))
            .collect()
    }
}

impl TryFrom<Value> for NiceOrder {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = value.as_i64().filter(|number| NICE.contains(number));
        let number = number.and_then(|number| i32::try_from(number).ok());
        number
            .map(Self)
            .ok_or_else(|| format!("it is {}; give a number from -20 to 19", shown(&value)))
    }
}

impl From<NiceOrder> for i32 {
    fn from(NiceOrder(nice): NiceOrder) -> Self {
        nice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<LimitsOrder, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_numbers_words_or_pairs() {
        let order = parsed(r#"{"nofile":[100,"unlimited"],"cpu":5,"as":"unlimited"}"#).unwrap();
        let bound = |soft, hard| Bound { soft, hard };
        let expected = BTreeMap::from([
            (Resource::OpenFiles, bound(Some(100), None)),
            (Resource::Cpu, bound(Some(5), Some(5))),
            (Resource::AddressSpace, bound(None, None)),
        ]);
        assert_eq!(order.0, expected);
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(parsed(&text).unwrap(), order);
        assert_eq!(parsed("{}").unwrap(), LimitsOrder::default());
    }

    #[test]
    fn what_is_no_limit_is_named() {
        for (text, words) in [
            (r#"{"core":1}"#, "there is no limit \"core\""),
            (r#"{"":1}"#, "there are cpu, fsize"),
            (r#"{"cpu":-1}"#, "cpu is -1; give a number from 0"),
            (r#"{"cpu":1.5}"#, "cpu is 1.5;"),
            (
                r#"{"cpu":9223372036854775808}"#,
                "cpu is 9223372036854775808;",
            ),
            (r#"{"cpu":"7"}"#, "cpu is \"7\";"),
            (r#"{"cpu":null}"#, "cpu is null;"),
            (r#"{"cpu":[1]}"#, "cpu is [1];"),
            (r#"{"cpu":[1,2,3]}"#, "cpu is [1,2,3];"),
            (r#"{"cpu":[[1],2]}"#, "cpu is [1];"),
            (r#"{"cpu":{"a":1}}"#, "cpu is {\"a\":1};"),
            (r#"{"as":["unlimited",5]}"#, "must not be more than"),
            (r#"{"as":[6,5]}"#, "as is [6,5], and the first"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let long = format!(r#"{{"{}":1}}"#, "x".repeat(1 << 20));
        assert!(parsed(&long).unwrap_err().len() < 400);
    }

    #[test]
    fn nice_is_a_number_in_its_range() {
        for (text, nice) in [("-20", -20), ("0", 0), ("19", 19)] {
            assert_eq!(serde_json::from_str(text).ok(), Some(NiceOrder(nice)));
        }
        for text in ["20", "-21", "1e3", "\"5\"", "[5]", "99999999999999999999"] {
            let error = serde_json::from_str::<NiceOrder>(text).unwrap_err();
            assert!(error.to_string().contains("from -20 to 19"), "{error}");
        }
    }
}
