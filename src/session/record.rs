//! What a kernel holds: enough to say what is gone when it is lost.

use super::variables::{SHOWN, Variable, Variables};
use crate::execution::{Lost, LostName};
use crate::jupyter::Names;

/// Names that are remembered; a loss tells the latest 20 of them, and deletions may eat into that.
const REMEMBERED: usize = 1_000;
/// Characters of a name or type: a cell may make any string a global name.
const NAME_CHARS: usize = 100;

/// The cells and variables of one kernel.
#[derive(Debug, Default)]
pub(super) struct Record {
    cells: u64,
    /// The latest bound is the last.
    names: Vec<LostName>,
    total: u64,
}

impl Record {
    /// A cell has completed, and this is what it did to the names.
    pub(super) fn completed(&mut self, names: Option<&Names>) {
        self.cells += 1;
        let Some(names) = names else { return };
        for gone in &names.del {
            let gone = shown(gone);
            self.names.retain(|it| it.name != gone);
        }
        for (name, kind) in &names.set {
            let name = shown(name);
            self.names.retain(|it| it.name != name);
            self.names.push(LostName {
                name,
                kind: shown(kind),
            });
        }
        let excess = self.names.len().saturating_sub(REMEMBERED);
        self.names.drain(..excess);
        self.total = names.total;
    }

    /// Cells that the kernel has completed.
    pub(super) fn cells(&self) -> u64 {
        self.cells
    }

    /// What is known of the variables.
    pub(super) fn as_variables(&self) -> Variables {
        let from = self.names.len().saturating_sub(SHOWN);
        let latest = self.names.get(from..).unwrap_or_default();
        Variables {
            taken_live: false,
            total: self.total,
            variables: latest.iter().map(Variable::from).collect(),
        }
    }

    /// All names that are remembered.
    pub(super) fn names(&self) -> Vec<LostName> {
        self.names.clone()
    }

    /// The kernel is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All of it, as a loss.
    pub(super) fn as_lost(&self) -> Lost {
        let from = self.names.len().saturating_sub(Lost::NAMES);
        Lost {
            cells: self.cells,
            names: self.names.get(from..).unwrap_or_default().to_vec(),
            names_total: self.total,
            at_least: false,
            unreceived: Vec::new(),
        }
    }
}

/// What a cell has named, fit to be shown.
pub(super) fn shown(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(NAME_CHARS).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(set: &[(&str, &str)], del: &[&str], total: u64) -> Names {
        Names {
            set: set
                .iter()
                .map(|(n, t)| ((*n).to_owned(), (*t).to_owned()))
                .collect(),
            del: del.iter().map(|name| (*name).to_owned()).collect(),
            total,
        }
    }

    #[test]
    fn the_latest_bound_is_last_and_twenty_are_told() {
        let mut record = Record::default();
        record.completed(Some(&names(&[("a", "int"), ("b", "str")], &[], 2)));
        record.completed(Some(&names(&[("a", "list")], &[], 2)));
        let lost = record.as_lost();
        assert_eq!(lost.cells, 2);
        assert_eq!(lost.names_total, 2);
        let told: Vec<_> = lost
            .names
            .iter()
            .map(|it| (it.name.as_str(), it.kind.as_str()))
            .collect();
        assert_eq!(told, [("b", "str"), ("a", "list")]);
        record.completed(Some(&names(&[], &["b"], 1)));
        assert_eq!(record.as_lost().names.len(), 1);
        let many: Vec<String> = (0..30).map(|n| format!("v{n}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "int")).collect();
        record.completed(Some(&names(&many, &[], 31)));
        let lost = record.as_lost();
        assert_eq!(lost.names.len(), 20);
        assert_eq!(lost.names[19].name, "v29");
        assert_eq!(lost.names_total, 31);
    }

    #[test]
    fn a_hostile_name_is_cut_and_cleaned() {
        let mut record = Record::default();
        let name = format!("\u{1b}[2J\n{}", "x".repeat(1_000));
        record.completed(Some(&names(&[(&name, "t")], &[], 1)));
        let told = &record.as_lost().names[0].name;
        assert_eq!(told.chars().count(), 100);
        assert!(!told.chars().any(char::is_control));
    }
}
