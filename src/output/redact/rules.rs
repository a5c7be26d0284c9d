//! What is looked for, and where it begins.

use std::sync::{Arc, LazyLock};

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
pub struct Rules {
    /// The same for all, and made once: that takes a while.
    shapes: &'static Set,
    values: Option<Arc<Set>>,
}

/// Things that are looked for together.
#[derive(Debug)]
struct Set {
    search: Option<AhoCorasick>,
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
    Set::new(anchors.chain(tokens).collect(), AhoCorasickKind::DFA, false)
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
    /// The known shapes, and the values of these variables (name, value) where they look like
    /// secrets; the first 256 of them.
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut values: Vec<Rule> = variables
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
        values.sort_by_key(|rule| std::cmp::Reverse(rule.shape.value_bytes()));
        let kind = AhoCorasickKind::ContiguousNFA;
        Self {
            shapes: &SHAPES,
            values: (!values.is_empty()).then(|| Arc::new(Set::new(values, kind, true))),
        }
    }

    fn sets(&self) -> impl Iterator<Item = &Set> {
        // A known value goes before what only looks like a secret.
        self.values.as_deref().into_iter().chain([self.shapes])
    }

    /// The next place from `from` on where something may begin.
    pub(super) fn next(&self, text: &[u8], from: usize, ended: bool) -> Option<usize> {
        let places = self.sets().filter_map(|set| set.next(text, from, ended));
        places.min()
    }

    /// Whether a secret begins at this place.
    pub(super) fn judge(&self, text: &[u8], at: usize, ended: bool) -> Verdict {
        let verdicts = self.sets().map(|set| set.judge(text, at, ended));
        first_of(verdicts)
    }

    /// The first known value that begins in a part of the text.
    pub(super) fn value_within(
        &self,
        text: &[u8],
        places: std::ops::Range<usize>,
        ended: bool,
    ) -> Verdict {
        let Some(values) = &self.values else {
            return Verdict::No;
        };
        first_of(places.map(|at| values.judge(text, at, ended)))
    }

    /// Where, from `from` on, the text ends with the beginning of something that is masked from there.
    pub(super) fn begun(&self, text: &[u8], from: usize) -> usize {
        let places = self.sets().map(|set| {
            let is_masked = |rule: &Rule| rule.shape.is_masked_whole();
            set.begun(text, from, true, is_masked)
        });
        places.min().unwrap_or(text.len())
    }
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
    fn new(rules: Vec<Rule>, kind: AhoCorasickKind, prefilter: bool) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for (index, rule) in rules.iter().enumerate() {
            let first = rule.anchor.first().copied().unwrap_or_default();
            if let Some(list) = by_first.get_mut(usize::from(first)) {
                list.push(index);
            }
        }
        // It fails for more patterns than there can be; then there is a look at each place.
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .kind(Some(kind))
            .prefilter(prefilter)
            .build(rules.iter().map(|rule| &rule.anchor))
            .ok();
        let longest = rules.iter().map(|rule| rule.anchor.len()).max();
        Self {
            search,
            rules,
            by_first,
            longest: longest.unwrap_or(1),
        }
    }

    fn next(&self, text: &[u8], from: usize, ended: bool) -> Option<usize> {
        let whole = match &self.search {
            Some(search) => search
                .find(Input::new(text).span(from.min(text.len())..text.len()))
                .map(|found| found.start()),
            None => (from < text.len()).then_some(from),
        };
        if ended {
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
