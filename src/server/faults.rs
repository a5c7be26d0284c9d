//! What can be wrong with what a client sends.

/// What is wrong with an object that a client has sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// It is no JSON.
    #[error("{what} makes no sense: {source}{}", if *has_nan { " (JSON has no NaN and no Infinity)" } else { "" })]
    Json {
        /// What was read.
        what: &'static str,
        /// Whether it holds what JSON has not and others write.
        has_nan: bool,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// It is JSON, but no object.
    #[error("{what} must be a JSON object, got {got}")]
    NoObject {
        /// What was read.
        what: &'static str,
        /// What it is, as it was written.
        got: String,
    },
    /// It has keys that mean nothing.
    #[error("{what} has no {}; {}{}", in_words(unknown, *more), those(known), likely(unknown))]
    UnknownKeys {
        /// What was read.
        what: &'static str,
        /// The first of them.
        unknown: Vec<String>,
        /// How many more there are.
        more: usize,
        /// The keys that it may have.
        known: &'static [&'static str],
    },
    /// A key has a value that will not do.
    #[error("`{key}` must be {must}, got {got}")]
    Value {
        /// The key, with those of the objects around it.
        key: String,
        /// What would do.
        must: &'static str,
        /// What was sent, as it was written.
        got: String,
    },
    /// A number is out of range, or what has a shape of its own has another.
    #[error("`{key}`: {fault}")]
    Number {
        /// The key.
        key: String,
        /// The range, and what was sent.
        fault: String,
    },
    /// A key is missing.
    #[error("there is no `{key}`; give {what}")]
    Missing {
        /// The key, with those of the objects around it.
        key: String,
        /// What it is for.
        what: &'static str,
    },
    /// A variable will not do. Its value may be a secret, so it is not told.
    #[error("`{key}`: {fault}")]
    Environment {
        /// The key.
        key: String,
        /// Which one, and why.
        fault: String,
    },
}

fn those(known: &[&str]) -> String {
    if known.is_empty() {
        return "it has none".to_owned();
    }
    format!("it has {}", known.join(", "))
}

fn in_words(unknown: &[String], more: usize) -> String {
    let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
    let key = if unknown.len() == 1 { "key" } else { "keys" };
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!("{key} {}{more}", names.join(", "))
}

/// What some callers know from elsewhere, and what it is here.
fn likely(unknown: &[String]) -> String {
    let told: Vec<&str> = unknown
        .iter()
        .filter_map(|name| {
            Some(match name.as_str() {
                "command" | "cmd" => {
                    "; give Python source as `code`, not a `command`: a shell command runs in a cell \
                     as terminal(\"...\")"
                }
                "source" | "script" | "python" | "text" => "; Python source is given as `code`",
                "environment" | "env" | "cwd" | "umask" => {
                    "; environment and directory are keys of `caller`: `environment`, `cwd`"
                }
                "session" | "name" => "; the session is named by the path",
                "timeout_seconds" | "timeout_ms" | "time_limit" => "; `timeout` is in seconds",
                _ => return None,
            })
        })
        .take(1)
        .collect();
    told.concat()
}
