//! Names of sessions.

/// The longest name, in characters.
const MAX_CHARS: usize = 64;

/// The name of a session: 1 to 64 of `A-Z a-z 0-9 . _ -`, not starting with a dot; one `/` makes
/// the name of a sub-agent's session (`lead/worker-3`), whose two parts follow the same rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(String);

/// A name that will not do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "session name {name:?} {fault}; use 1 to 64 of A-Z a-z 0-9 . _ - not starting with a dot, with \
     at most one / for a sub-agent"
)]
pub struct NameError {
    /// What was given, cut to 80 characters.
    pub name: String,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl SessionName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// If it breaks the rules.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        match fault_of(name) {
            None => Ok(Self(name.to_owned())),
            Some(fault) => Err(NameError {
                name: name.chars().take(80).collect(),
                fault,
            }),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SessionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn fault_of(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("is empty");
    }
    if name.chars().count() > MAX_CHARS {
        return Some("is too long");
    }
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        return Some("has more than one /");
    }
    if parts.iter().any(|part| part.is_empty()) {
        return Some("has an empty part");
    }
    if parts.iter().any(|part| part.starts_with('.')) {
        return Some("has a part that starts with a dot");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    (!name.chars().all(allowed)).then_some("holds a character that is not allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "default", "A-1_b.c", "lead/worker-3", &"x".repeat(64)] {
            assert_eq!(SessionName::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(65);
        let bad = [
            "", ".", ".a", "a/.b", "a/..", "/a", "a/", "a/b/c", "a b", "a\0b", "é", "a\n", &long,
        ];
        for name in bad {
            let error = SessionName::parse(name).unwrap_err();
            assert!(error.to_string().contains("use 1 to 64"), "{error}");
        }
    }
}
