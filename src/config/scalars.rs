//! Values of settings that are numbers, sizes, words, names.

use std::path::PathBuf;
use std::time::Duration;

use super::Limits;

/// True or false, in the words of YAML and of environments.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// A time in seconds that ends something.
pub(super) fn time_limit(text: &str) -> Option<Duration> {
    Limits::parse_timeout(text).ok()
}

/// A time in seconds, from nothing on.
pub(super) fn time(text: &str, most: u64) -> Option<Duration> {
    let seconds = text.trim().parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (time <= Duration::from_secs(most)).then_some(time)
}

/// A number without a fraction.
pub(super) fn whole(text: &str, least: u64, most: u64) -> Option<u64> {
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = text.parse().ok()?;
    (least..=most).contains(&number).then_some(number)
}

/// A number of bytes, or of K, M, G or T of them (powers of 1,024).
pub(super) fn size(text: &str, least: u64, most: u64) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (text.get(..text.len() - 1)?, 1 << 10),
        'M' => (text.get(..text.len() - 1)?, 1 << 20),
        'G' => (text.get(..text.len() - 1)?, 1 << 30),
        'T' => (text.get(..text.len() - 1)?, 1 << 40),
        _ => (text, 1),
    };
    let bytes = whole(digits, 0, u64::MAX)?.checked_mul(factor)?;
    (least..=most).contains(&bytes).then_some(bytes)
}

/// One of several words, however its letters are written.
pub(super) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Option<T> {
    let text = text.trim();
    words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
        .map(|(_, meaning)| *meaning)
}

/// A program: an absolute path, one below the user's home, or a name alone.
pub(super) fn program(text: &str) -> Option<PathBuf> {
    let is_name = !text.contains('/') && !matches!(text, "." | ".." | "~");
    let is_path = text.starts_with('/') || text.starts_with("~/");
    (!text.is_empty() && !text.contains('\0') && (is_name || is_path)).then(|| text.into())
}

/// The name of a variable, as a process can have it.
pub(super) fn variable(text: &str) -> Option<String> {
    let name = text.trim();
    let passes = !name.is_empty() && !name.contains(['=', '\0']);
    passes.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_and_sizes_have_letters() {
        assert_eq!(whole("50", 0, 50), Some(50));
        for wrong in [
            "51", "-1", "+1", "1.0", "1_0", "0x1", "", " ", "1e1", "abc", "٣",
        ] {
            assert_eq!(whole(wrong, 0, 50), None, "{wrong}");
        }
        assert_eq!(whole("99999999999999999999", 0, u64::MAX), None);
        let any = |text| size(text, 0, u64::MAX);
        assert_eq!(any("0"), Some(0));
        assert_eq!(any("1k"), Some(1_024));
        assert_eq!(any("2M"), Some(2 << 20));
        assert_eq!(any("3g"), Some(3 << 30));
        assert_eq!(any("1T"), Some(1 << 40));
        for wrong in [
            "",
            "K",
            "1KB",
            "1 KB",
            "1.5G",
            "-1M",
            "99999999999999T",
            "1é",
            "M1",
        ] {
            assert_eq!(any(wrong), None, "{wrong}");
        }
        assert_eq!(size("63M", 64 << 20, u64::MAX), None);
    }

    #[test]
    fn times_are_numbers_of_seconds() {
        assert_eq!(time("0", 10), Some(Duration::ZERO));
        assert_eq!(time("0.5", 10), Some(Duration::from_millis(500)));
        for wrong in [
            "-1", "11", "1e9", "nan", "inf", ".inf", "true", "5s", "5:00", "",
        ] {
            assert_eq!(time(wrong, 10), None, "{wrong}");
        }
    }

    #[test]
    fn a_program_is_a_path_or_a_name() {
        for right in ["/usr/bin/python3", "~/venv/bin/python", "python3.12"] {
            assert_eq!(program(right), Some(right.into()));
        }
        for wrong in ["", "bin/python", "./python", "..", "~", "/a\0"] {
            assert_eq!(program(wrong), None, "{wrong}");
        }
    }
}
