//! What tells forkservers of one interpreter apart.

/// What of a kernel's environment counts only when an interpreter starts.
pub(super) fn start_environment(environment: &[(String, String)]) -> Vec<(String, String)> {
    let of_start = environment.iter().filter(|(name, _)| only_at_start(name));
    of_start.cloned().collect()
}

/// Whether a variable counts only when an interpreter starts: a forked kernel cannot take it over,
/// so it is part of what tells forkservers apart.
fn only_at_start(name: &str) -> bool {
    const PREFIXES: [&str; 5] = ["PYTHON", "LD_", "LC_", "OMP_", "MALLOC_"];
    // A start wrapper of the interpreter finds it by PATH and HOME, and so does the user's own
    // package folder. Unbuffered output would make print-heavy cells three times slower.
    const NAMES: [&str; 5] = ["LANG", "LANGUAGE", "PATH", "HOME", "TZ"];
    name != "PYTHONUNBUFFERED"
        && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::only_at_start;

    #[test]
    fn what_a_fork_cannot_change_tells_forkservers_apart() {
        for name in [
            "PYTHONPATH",
            "PYTHONHASHSEED",
            "LD_LIBRARY_PATH",
            "LC_ALL",
            "LANG",
            "PATH",
        ] {
            assert!(only_at_start(name), "{name}");
        }
        for name in ["PYTHONUNBUFFERED", "HERMES_HOME", "VIRTUAL_ENV", "MY_LANG"] {
            assert!(!only_at_start(name), "{name}");
        }
    }
}
