//! What is looked for, and where it begins.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::shapes::{self, Shape};
use super::tokens::TOKENS;
use super::values;

/// Bytes of a value by which it is found.
const ANCHOR: usize = 16;
/// Values of variables that are looked for.
const MOST_VALUES: usize = 256;

/// The known shapes of secrets, and the values that one session hides. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rules(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    search: Option<AhoCorasick>,
    /// By their order they are tried at one place.
    rules: Vec<Rule>,
    /// Which of them may begin with a byte.
    by_first: Vec<Vec<usize>>,
    longest: usize,
}

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
    /// The known shapes, and the values of these variables (name, value) where they look like
    /// secrets; the first 256 of them.
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut rules: Vec<Rule> = variables
            .into_iter()
            .map(|(name, value)| values::forms(name, value))
            .filter(|forms| !forms.is_empty())
            .take(MOST_VALUES)
            .flatten()
            .map(|value| Rule {
                anchor: value.get(..ANCHOR).unwrap_or(&value).to_vec(),
                shape: Shape::Value(value),
            })
            .collect();
        // The longest first: one may begin with another.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.shape.value_bytes()));
        for (anchor, any_case, shape) in shapes::ANCHORS {
            rules.extend(spellings(anchor, *any_case).map(|anchor| Rule {
                anchor: anchor.into_bytes(),
                shape: shape.clone(),
            }));
        }
        rules.extend(TOKENS.iter().map(|token| Rule {
            anchor: token.prefix.as_bytes().to_vec(),
            shape: Shape::Token(token),
        }));
        let mut by_first = vec![Vec::new(); 256];
        for (index, rule) in rules.iter().enumerate() {
            let first = rule.anchor.first().copied().unwrap_or_default();
            if let Some(list) = by_first.get_mut(usize::from(first)) {
                list.push(index);
            }
        }
        // It fails for more patterns than there can be; then what is known by its shape is found
        // by a look at each place.
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .kind(Some(AhoCorasickKind::DFA))
            .prefilter(false)
            .build(rules.iter().map(|rule| &rule.anchor))
            .ok();
        let longest = rules.iter().map(|rule| rule.anchor.len()).max();
        Self(Arc::new(Inner {
            search,
            rules,
            by_first,
            longest: longest.unwrap_or(1),
        }))
    }

    /// The longest anchor.
    pub(super) fn longest(&self) -> usize {
        self.0.longest
    }

    /// The next place from `from` on where something may begin.
    pub(super) fn next(&self, text: &[u8], from: usize) -> Option<usize> {
        match &self.0.search {
            Some(search) => search
                .find(Input::new(text).span(from.min(text.len())..text.len()))
                .map(|found| found.start()),
            None => (from < text.len()).then_some(from),
        }
    }

    /// Whether a secret begins at this place.
    pub(super) fn judge(&self, text: &[u8], at: usize, ended: bool) -> Verdict {
        let rest = text.get(at..).unwrap_or_default();
        for rule in self.at(text, at) {
            let verdict = match rule.stands(rest) {
                Stands::No => continue,
                Stands::Begun if ended || !rule.shape.may_begin(text, at) => continue,
                Stands::Begun if rule.shape.is_masked_whole() => Verdict::More,
                Stands::Begun => Verdict::Wait,
                Stands::Whole => rule.shape.judge(text, at, rule.anchor.len(), ended),
            };
            if verdict != Verdict::No {
                return verdict;
            }
        }
        Verdict::No
    }

    /// The first known value that begins in a part of the text.
    pub(super) fn value_within(
        &self,
        text: &[u8],
        places: std::ops::Range<usize>,
        ended: bool,
    ) -> Verdict {
        for at in places {
            for rule in self.at(text, at) {
                if !matches!(rule.shape, Shape::Value(_)) {
                    continue;
                }
                match rule.shape.judge(text, at, rule.anchor.len(), ended) {
                    Verdict::No => {}
                    verdict => return verdict,
                }
            }
        }
        Verdict::No
    }

    /// Where, from `from` on, the text ends with the beginning of an anchor that is masked itself;
    /// if asked for, with all of it.
    pub(super) fn begun(&self, text: &[u8], from: usize, whole_too: bool) -> usize {
        let first = from.max(text.len().saturating_sub(self.0.longest));
        (first..text.len())
            .find(|at| {
                let rest = text.get(*at..).unwrap_or_default();
                self.at(text, *at).any(|rule| {
                    rule.shape.is_masked_whole()
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
        let list = self.0.by_first.get(usize::from(first));
        list.into_iter()
            .flatten()
            .filter_map(|index| self.0.rules.get(*index))
    }
}

impl Default for Rules {
    /// The known shapes alone.
    fn default() -> Self {
        Self::new([])
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
