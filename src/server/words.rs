//! Every answer that says no is a JSON object with `error` and `error_class`, whoever has found the fault:
//! what the libraries below answer by themselves is put into our words here.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::refusal::Refusal;

/// The most of a library's own words.
const MOST_BYTES: usize = 4 << 10;
/// Characters of a path in a sentence.
const PATH_CHARS: usize = 100;

/// Refuses what nothing behind it could read, and puts refusals into our words.
pub(super) async fn in_our_words(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if let Err(sentence) = decodable(path) {
        return Refusal::usage(sentence).into_response();
    }
    if let Some(encoding) = encoded(request.headers()) {
        let sentence =
            format!("the body is encoded as {encoding:?}; send it as it is, as JSON in UTF-8");
        return Refusal::unreadable(sentence).into_response();
    }
    let path: String = path.chars().take(PATH_CHARS).collect();
    let method = request.method().clone();
    let response = next.run(request).await;
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_json(response.headers()) {
        return response;
    }
    put(response, &method, &path).await
}

/// Whether a path is one that can be read: else what is wrong with it.
fn decodable(path: &str) -> Result<(), String> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits: String = rest.by_ref().take(2).map(char::from).collect();
        let is_hex = digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_hexdigit());
        let value = u8::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        match value {
            Some(0) => return Err("the path holds a NUL (%00); leave it out".to_owned()),
            Some(value) => decoded.push(value),
            None => {
                return Err(format!(
                    "the path holds {:?}, and `%` is followed by two hex digits; a `%` itself is %25",
                    format!("%{digits}")
                ));
            }
        }
    }
    String::from_utf8(decoded)
        .map(drop)
        .map_err(|_bytes| "what is escaped in the path is no UTF-8".to_owned())
}

/// An encoding that is not read here.
fn encoded(headers: &HeaderMap) -> Option<String> {
    let encoding = headers.get(CONTENT_ENCODING)?;
    let encoding: String = String::from_utf8_lossy(encoding.as_bytes())
        .chars()
        .take(40)
        .collect();
    (!encoding.trim().eq_ignore_ascii_case("identity")).then_some(encoding)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"))
}

async fn put(response: Response, method: &Method, path: &str) -> Response {
    let status = response.status();
    let (mut parts, body) = response.into_parts();
    let sentence = if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = parts.headers.get(ALLOW);
        let allowed = allowed.and_then(|allowed| allowed.to_str().ok());
        format!(
            "{method} is not possible at {path:?}; possible: {}",
            allowed.unwrap_or("nothing").replace(',', ", ")
        )
    } else {
        // It is there already: a library's own words are short and whole.
        let own = to_bytes(body, MOST_BYTES).await.unwrap_or_default();
        let own = String::from_utf8_lossy(&own).trim().to_owned();
        if own.is_empty() {
            status.canonical_reason().unwrap_or("refused").to_owned()
        } else {
            own
        }
    };
    let (ours, body) = Refusal::of_status(status, sentence)
        .into_response()
        .into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.extend(ours.headers);
    Response::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_escaped_as_it_should_be() {
        for good in ["/", "/a%2Fb", "/%C3%A9", "/%25zz", "/\u{e9}"] {
            assert_eq!(decodable(good), Ok(()), "{good}");
        }
        for (bad, word) in [
            ("/%zz", "\"%zz\""),
            ("/%", "\"%\""),
            ("/a%2", "\"%2\""),
            ("/%+1", "\"%+1\""),
            ("/a%00", "NUL"),
            ("/%FF", "UTF-8"),
            ("/%C3/%A9", "UTF-8"),
        ] {
            let fault = decodable(bad).unwrap_err();
            assert!(fault.contains(word), "{bad}: {fault}");
        }
    }

    #[tokio::test]
    async fn a_refusal_of_a_library_keeps_its_status_and_headers() {
        let answer = (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET,HEAD")]).into_response();
        let ours = put(answer, &Method::PUT, "/x").await;
        assert_eq!(ours.status(), 405);
        assert_eq!(ours.headers()[ALLOW], "GET,HEAD");
        assert!(is_json(ours.headers()));
        let text = to_bytes(ours.into_body(), MOST_BYTES).await.unwrap();
        let refused: super::super::Refused = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            refused.error,
            "PUT is not possible at \"/x\"; possible: GET, HEAD"
        );
        let answer = (StatusCode::UPGRADE_REQUIRED, " why \n").into_response();
        let ours = put(answer, &Method::GET, "/x").await;
        let text = to_bytes(ours.into_body(), MOST_BYTES).await.unwrap();
        let refused: super::super::Refused = serde_json::from_slice(&text).unwrap();
        assert_eq!(refused.error, "why");
        assert_eq!(refused.error_class, crate::execution::ErrorClass::Usage);
    }
}
