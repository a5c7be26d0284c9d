//! In which folder and with which Python a kernel runs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// In which folder and with which Python kernels run. Environment and limits are the same in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the caller's working directory, with the Python of its project.
    #[default]
    Project,
    /// In an empty folder of the kernel's own, which goes with it, with a Python that no active
    /// environment says.
    Strict,
}

/// A mode that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a mode must be `project` or `strict`, got {:.80}", format!("{got:?}"))]
pub struct ModeError {
    /// What was asked for, as it was written.
    pub got: String,
}

impl Mode {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Self); 2] =
        [("project", Self::Project), ("strict", Self::Strict)];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl std::str::FromStr for Mode {
    type Err = ModeError;

    /// Reads a name, in any case and with space around it.
    fn from_str(text: &str) -> Result<Self, ModeError> {
        let name = text.trim();
        Self::NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, mode)| *mode)
            .ok_or_else(|| ModeError {
                got: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_by_its_name() {
        for (name, mode) in Mode::NAMES {
            assert_eq!(name.parse(), Ok(mode));
            assert_eq!(mode.to_string(), name);
            assert_eq!(format!(" {} ", name.to_uppercase()).parse(), Ok(mode));
        }
        for text in ["", "strcit", "project strict", "true"] {
            let error = text.parse::<Mode>().unwrap_err();
            assert_eq!(error.got, text);
            assert!(error.to_string().contains("`project` or `strict`"));
        }
    }
}
