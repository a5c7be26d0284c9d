//! What was kept of a cell, and how its result tells it.

use std::path::PathBuf;

use super::Artifact;
use crate::output::with_commas;
use crate::words::{agreeing, counted};

/// What was kept of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The file that holds all of its output; none if its result shows it all.
    pub output: Option<PathBuf>,
    /// Whether that ends at the limit, and the output goes on.
    pub is_cut: bool,
    /// Why there is no such file, although the result leaves something out.
    pub lost: Option<String>,
    /// What it has shown.
    pub artifacts: Vec<Artifact>,
    /// How much of that is no file, and why the first is none.
    pub unkept: u64,
    /// The reason of the first of those.
    pub why: Option<String>,
    /// Where files would be.
    pub place: PathBuf,
}

impl Kept {
    pub(super) fn with(mut self, artifacts: Vec<Artifact>) -> Self {
        self.artifacts = artifacts;
        self
    }

    /// So many artifacts are no files, the first of them for this reason.
    pub(super) fn without(&mut self, count: u64, why: &str) {
        if count > 0 {
            self.unkept += count;
            self.why.get_or_insert_with(|| why.to_owned());
        }
    }

    /// The path of the output.
    pub(in crate::execution) fn path(&self) -> Option<String> {
        let path = self.output.as_ref()?;
        Some(path.to_string_lossy().into_owned())
    }

    /// The line that says where all of the output is; of a cell whose state is there, that too.
    pub(in crate::execution) fn output_line(
        &self,
        goes_on: bool,
        has_state: bool,
    ) -> Option<String> {
        let Some(path) = self.path() else {
            let why = self.lost.as_ref()?;
            return Some(format!(
                "[what is left out above was not kept ({why}): if you need it, print less at a time or \
                 write it to a file]"
            ));
        };
        let what = match (goes_on, self.is_cut) {
            (_, true) => "the output up to max_spill_bytes",
            (true, false) => "the whole output so far",
            (false, false) => "the whole output",
        };
        let instead = match (goes_on, has_state) {
            (true, _) => "",
            (false, true) => "; the cell has run and its variables exist, so do not run it again",
            (false, false) => "; the cell has run, so do not run it again for its output",
        };
        Some(format!(
            "[{what} is in {path}: page it with read_file({path:?}, offset=...){instead}]"
        ))
    }

    /// A line for each artifact.
    pub(in crate::execution) fn artifact_lines(&self) -> impl Iterator<Item = String> {
        self.artifacts.iter().map(|artifact| {
            let Artifact { mime, path, bytes } = artifact;
            format!("[{mime}, {} bytes: {path}]", with_commas(*bytes))
        })
    }

    /// What was degraded.
    pub(in crate::execution) fn warnings(&self) -> Vec<String> {
        let place = self.place.display();
        let lost = self.lost.as_ref().map(|why| {
            format!("what the window leaves out of stdout was not kept in {place}: {why}")
        });
        let unkept = self.why.as_ref().map(|why| {
            let (things, were) = (
                counted(self.unkept, "thing"),
                agreeing(self.unkept, "was", "were"),
            );
            format!("{things} that the cell has shown {were} not kept in {place}: {why}")
        });
        lost.into_iter().chain(unkept).collect()
    }
}
