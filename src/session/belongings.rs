//! What cells leave in the working directory of a kernel in strict mode: it is not where its caller
//! looks, and goes with the kernel, so the result says so.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::in_a_thread;

/// Names in a sentence.
const MOST_SHOWN: usize = 5;
/// Names that are read, and remembered as told.
const MOST_READ: usize = 1_000;
/// The longest name in a sentence, in characters.
const LONGEST: usize = 80;

/// Which files were told.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    folder: PathBuf,
    told: HashSet<OsString>,
}

impl Belongings {
    /// A sentence, if there is something in the kernel's folder that was not told before. Nothing where
    /// the kernel has no folder of its own.
    pub(super) async fn told(&mut self, folder: Option<PathBuf>) -> Option<String> {
        let folder = folder?;
        if self.folder != folder {
            self.told.clear();
            self.folder.clone_from(&folder);
        }
        let names = in_a_thread(move || names(&folder)).await.ok()?;
        let fresh: Vec<OsString> = names
            .into_iter()
            .filter(|name| !self.told.contains(name))
            .collect();
        let sentence = sentence(&self.folder, &fresh)?;
        self.told.extend(fresh);
        Some(sentence)
    }
}

fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = entries
        .take(MOST_READ)
        .map(|entry| entry.file_name())
        .collect();
    names.sort_unstable();
    names
}

fn sentence(folder: &Path, names: &[OsString]) -> Option<String> {
    let shown = |name: &OsString| -> String {
        let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        name.to_string_lossy()
            .chars()
            .take(LONGEST)
            .map(clean)
            .collect()
    };
    let mut list: Vec<String> = names.iter().take(MOST_SHOWN).map(shown).collect();
    let more = names.len().saturating_sub(MOST_SHOWN);
    if more > 0 {
        list.push(format!("{more} more"));
    }
    let folder = folder.display();
    (!list.is_empty()).then(|| {
        format!(
            "strict mode: the kernel's working directory is {folder}, and goes with the kernel; new in \
             it: {}",
            list.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_new_in_the_folder_is_told_once() {
        let temp = tempfile::tempdir().unwrap();
        let (one, other) = (temp.path().join("one"), temp.path().join("other"));
        for folder in [&one, &other] {
            fs::create_dir(folder).unwrap();
        }
        let mut belongings = Belongings::default();
        assert_eq!(belongings.told(None).await, None);
        assert_eq!(belongings.told(Some(one.clone())).await, None);
        for name in ["out.png", "a\nb"] {
            fs::write(one.join(name), "").unwrap();
        }
        let told = belongings.told(Some(one.clone())).await.unwrap();
        assert!(told.contains(&one.display().to_string()), "{told}");
        assert!(told.ends_with("new in it: a\u{fffd}b, out.png"), "{told}");
        assert_eq!(belongings.told(Some(one.clone())).await, None);
        for number in 0..9 {
            fs::write(one.join(format!("f{number}")), "").unwrap();
        }
        let told = belongings.told(Some(one.clone())).await.unwrap();
        assert!(told.ends_with("f0, f1, f2, f3, f4, 4 more"), "{told}");
        // Another kernel has another folder; one that is gone holds nothing.
        fs::write(other.join("out.png"), "").unwrap();
        assert!(belongings.told(Some(other.clone())).await.is_some());
        assert_eq!(belongings.told(Some(temp.path().join("gone"))).await, None);
    }
}
