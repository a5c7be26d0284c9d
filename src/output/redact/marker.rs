//! What stands in place of a secret.

/// Kinds of secrets. They stand in markers, and by them a marker is known again.
pub(super) const KINDS: &[&str] = &[
    "api-key",
    "authorization",
    "aws-key",
    "credential",
    "environment",
    "github-token",
    "gitlab-token",
    "jwt",
    "password",
    "private-key",
    "slack-token",
    "telegram-token",
    "url-token",
];

/// The marker of a kind.
pub fn marker(kind: &str) -> String {
    format!("[redacted:{kind}]")
}

/// Whether a text holds a marker, and which: it was made from a shown text, and the secret is lost.
pub fn contains_marker(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("[redacted:") {
        if let Some((kind, _)) = after.split_once(']')
            && let Some(known) = KINDS.iter().find(|known| **known == kind)
        {
            return Some(known);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_known_again() {
        for kind in KINDS {
            let text = format!("key = '{}'", marker(kind));
            assert_eq!(contains_marker(&text), Some(*kind));
        }
        for other in [
            "",
            "[redacted]",
            "[redacted:",
            "[redacted:other]",
            "redacted:jwt]",
        ] {
            assert_eq!(contains_marker(other), None);
        }
        assert_eq!(
            contains_marker("[redacted:x] [redacted:[redacted:jwt]"),
            Some("jwt")
        );
    }
}
