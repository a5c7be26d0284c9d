//! What a kernel would have its front end do beside showing a cell's output: of that only the pager
//! concerns everybody (`len?` in ipykernel), and is shown.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::traceback::{cut, plain};
use crate::jupyter::{Channel, RawMessage, header};

/// Pages of one cell.
const MOST_PAGES: usize = 16;

#[derive(Debug, Deserialize)]
struct Reply {
    #[serde(default)]
    payload: Value,
}

/// The pages that the reply to a cell holds, each as a display of its text.
pub(super) fn pages(reply: &[u8]) -> Vec<RawMessage> {
    // Nearly no reply has any.
    let Ok(Reply {
        payload: Value::Array(items),
    }) = serde_json::from_slice(reply)
    else {
        return Vec::new();
    };
    let pages = items
        .iter()
        .filter(|it| it.get("source") == Some(&"page".into()));
    pages.filter_map(page).take(MOST_PAGES).collect()
}

fn page(item: &Value) -> Option<RawMessage> {
    let data = item.get("data")?;
    let text = data.get("text/plain")?.as_str()?;
    let text = cut(plain(text).trim_end());
    let content = json!({ "data": { "text/plain": text }, "metadata": {}, "transient": {} });
    let header = header("page", "display_data", "", "");
    let content = Bytes::from(content.to_string());
    Some(RawMessage::new(Channel::Iopub, header, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_among_whatever_else_a_payload_holds() {
        let text = |reply: &str| -> Vec<String> {
            let read = |it: RawMessage| {
                let content: Value = serde_json::from_slice(&it.content).unwrap();
                content["data"]["text/plain"].as_str().unwrap().to_owned()
            };
            pages(reply.as_bytes()).into_iter().map(read).collect()
        };
        let reply = r#"{"status":"ok","payload":[{"source":"page","data":{"text/plain":"\u001b[1ma\u001b[0m\n"}},
            {"source":"set_next_input","text":"b"},{"source":"page"},{"source":"page","data":{"text/plain":1}},
            7,{"source":"page","data":{"text/plain":"c"}}]}"#;
        assert_eq!(text(reply), ["a", "c"]);
        for reply in ["", "[]", "{}", r#"{"payload":7}"#, r#"{"payload":{}}"#] {
            assert_eq!(text(reply), [""; 0]);
        }
    }
}
