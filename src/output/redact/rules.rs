//! What is looked for, and where it begins.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use super::anchors::Anchors;
use super::hidden::Hidden;
use super::shapes::{self, Shape};
use super::tokens::TOKENS;

/// The known shapes of secrets, and the values that one session hides. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The same for all, and made once: that takes a while.
    shapes: &'static Set,
    values: Vec<Arc<Hidden>>,
}

/// Things that are looked for together.
#[derive(Debug)]
struct Set {
    search: Anchors,
    /// By their order they are tried at one place.
    rules: Vec<Rule>,
    /// Which of them may begin with a byte.
    by_first: Vec<Vec<usize>>,
    longest: usize,
}

static SHAPES: LazyLock<Set> = LazyLock::new(|| {
    let anchors = shapes::ANCHORS
        .iter()
        .flat_map(|(anchor, any_case, shape)| {
            spellings(anchor, *any_case).map(|anchor| Rule {
                anchor: anchor.into_bytes(),
                shape: shape.clone(),
            })
        });
    let tokens = TOKENS.iter().map(|token| Rule {
        anchor: token.prefix.as_bytes().to_vec(),
        shape: Shape::Token(token),
    });
    // Words begin with most letters: to look for these first would take longer than one automaton.
    Set::new(anchors.chain(tokens).collect())
});

/// One thing that is looked for.
#[derive(Debug)]
pub(super) struct Rule {
    /// What it begins with.
    anchor: Vec<u8>,
    pub(super) shape: Shape,
}

/// Whether a secret begins at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    No,
    /// Bytes that are to come must tell; these are to wait for them.
    More,
    /// Bytes that are to come must tell; none of these is of a secret.
    Wait,
    Yes(Found),
}

/// A secret: which bytes of the text it is, as far as is known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: &'static str,
    pub(super) rest: shapes::Rest,
}

impl Rules {
    /// The known shapes, and the values behind these fingerprints.
    pub fn new(hidden: impl IntoIterator<Item = Hidden>) -> Self {
        let hidden = hidden.into_iter().filter(|hidden| !hidden.is_empty());
        Self {
            shapes: &SHAPES,
            values: hidden.map(Arc::new).collect(),
        }
    }

    /// And those that somebody else hides.
    #[must_use]
    pub fn and(mut self, hidden: Hidden) -> Self {
        if !hidden.is_empty() {
            self.values.push(Arc::new(hidden));
        }
        self
    }

    /// The next place from `from` on where something may begin; `known` is what was found before in this
    /// text, from an earlier place.
    pub(super) fn next(
        &self,
        text: &[u8],
        from: usize,
        ended: bool,
        known: &mut Next,
    ) -> Option<usize> {
        if known.value.is_none_or(|at| at < from) {
            let values = self.values.iter();
            let values = values.filter_map(|hidden| hidden.next(text, from, ended));
            known.value = Some(values.min().unwrap_or(usize::MAX));
        }
        if known.shape.is_none_or(|at| at < from) {
            let shape = self.shapes.next(text, from, ended);
            known.shape = Some(shape.unwrap_or(usize::MAX));
        }
        let next = known.value.min(known.shape)?;
        (next < text.len()).then_some(next)
    }

    /// Whether a secret begins at this place.
    pub(super) fn judge(&self, text: &[u8], at: usize, ended: bool) -> Verdict {
        // A known value goes before what only looks like a secret.
        match self.value_within(text, at..at + 1, ended) {
            Verdict::No => self.shapes.judge(text, at, ended),
            verdict => verdict,
        }
    }

    /// The first known value that begins in a part of the text.
    pub(super) fn value_within(&self, text: &[u8], places: Range<usize>, ended: bool) -> Verdict {
        if self.values.is_empty() {
            return Verdict::No;
        }
        let values = |at| {
            let values = self.values.iter();
            values.map(move |hidden| hidden.judge(text, at, ended))
        };
        first_of(places.flat_map(values))
    }

    /// Where, from `from` on, the text ends with the beginning of something that is masked from there.
    pub(super) fn begun(&self, text: &[u8], from: usize) -> usize {
        let is_masked = |rule: &Rule| rule.shape.is_masked_whole();
        let shapes = self.shapes.begun(text, from, true, is_masked);
        let values = self.values.iter().map(|hidden| hidden.begun(text, from));
        values.fold(shapes, usize::min)
    }
}

/// Where something may begin next, as far as that was looked for: nothing does at the largest number.
#[derive(Debug, Default)]
pub(super) struct Next {
    value: Option<usize>,
    shape: Option<usize>,
}

/// The first that is something.
fn first_of(mut verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts
        .find(|verdict| *verdict != Verdict::No)
        .unwrap_or(Verdict::No)
}

impl Default for Rules {
    /// The known shapes alone.
    fn default() -> Self {
        Self::new([])
    }
}

impl Set {
    fn new(rules: Vec<Rule>) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for (index, rule) in rules.iter().enumerate() {
            let first = rule.anchor.first().copied().unwrap_or_default();
            if let Some(list) = by_first.get_mut(usize::from(first)) {
                list.push(index);
            }
        }
        let search = Anchors::new(rules.iter().map(|rule| rule.anchor.as_slice()));
        let longest = rules.iter().map(|rule| rule.anchor.len()).max();
        Self {
            search,
            rules,
            by_first,
            longest: longest.unwrap_or(1),
        }
    }

    fn next(&self, text: &[u8], from: usize, ended: bool) -> Option<usize> {
        let whole = self.search.find(text, from);
        if ended || whole.is_some_and(|at| at + self.longest <= text.len()) {
            return whole;
        }
        // What has begun before and is not whole yet goes before.
        let begun = self.begun(text, from, false, |_| true);
        let first = whole.map_or(begun, |whole| whole.min(begun));
        (first < text.len()).then_some(first)
    }

    fn judge(&self, text: &[u8], at: usize, ended: bool) -> Verdict {
        let rest = text.get(at..).unwrap_or_default();
        first_of(self.at(text, at).map(|rule| match rule.stands(rest) {
            Stands::No => Verdict::No,
            Stands::Begun if ended || !rule.shape.may_begin(text, at) => Verdict::No,
            Stands::Begun if rule.shape.is_masked_whole() => Verdict::More,
            Stands::Begun => Verdict::Wait,
            Stands::Whole => rule.shape.judge(text, at, rule.anchor.len(), ended),
        }))
    }

    /// Where, from `from` on, the text ends with the beginning of an anchor; if asked for, with all of
    /// it.
    fn begun(
        &self,
        text: &[u8],
        from: usize,
        whole_too: bool,
        counts: impl Fn(&Rule) -> bool,
    ) -> usize {
        let first = from.max(text.len().saturating_sub(self.longest));
        (first..text.len())
            .find(|at| {
                let rest = text.get(*at..).unwrap_or_default();
                self.at(text, *at).any(|rule| {
                    counts(rule)
                        && match rule.stands(rest) {
                            Stands::No => false,
                            Stands::Begun => true,
                            Stands::Whole => whole_too,
                        }
                        && rule.shape.may_begin(text, *at)
                })
            })
            .unwrap_or(text.len())
    }

    fn at(&self, text: &[u8], at: usize) -> impl Iterator<Item = &Rule> {
        let first = text.get(at).copied().unwrap_or_default();
        let list = self.by_first.get(usize::from(first));
        list.into_iter()
            .flatten()
            .filter_map(|index| self.rules.get(*index))
    }
}

impl Rule {
    /// Whether it stands at the beginning of these bytes.
    fn stands(&self, bytes: &[u8]) -> Stands {
        let size = bytes.len().min(self.anchor.len());
        match bytes.get(..size) {
            Some(beginning) if self.anchor.starts_with(beginning) => {
                if size == self.anchor.len() {
                    Stands::Whole
                } else {
                    Stands::Begun
                }
            }
            _ => Stands::No,
        }
    }
}

/// As it stands; in small letters, capitals, and with a capital at each word if that is no matter.
fn spellings(anchor: &str, any_case: bool) -> impl Iterator<Item = String> {
    let words: Vec<String> = anchor
        .split('-')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            format!("{}{rest}", first.to_ascii_uppercase())
        })
        .collect();
    let others = [anchor.to_ascii_uppercase(), words.join("-")];
    let others = others.into_iter().filter(move |_| any_case);
    std::iter::once(anchor.to_owned()).chain(others)
}

/// How much of an anchor is there.
#[derive(Clone, Copy)]
enum Stands {
    No,
    /// What there is of it; the text ends here.
    Begun,
    Whole,
}
