//! `<home>/config.yaml` and the variables `WARMCELL_*`: text in, values and problems out.

use std::path::Path;

use super::foreign_keys::{is_foreign, refused};
use super::given::{Fault, Given};
use super::table::{Key, keys};
use super::yaml::{self, Found, Unreadable};
use super::{Problem, Severity, Values};

/// Problems that are told, at most; how many more there are is told too.
const TOLD: usize = 5;
/// Names in one sentence.
const NAMED: usize = 5;
/// How much another word may differ and still be what was meant.
const NEAR: usize = 2;

/// What every variable begins with.
const PREFIX: &str = "WARMCELL_";

/// What the configuration says, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Configuration {
    /// What it says. Where something is refused nothing is to be run by these.
    pub values: Values,
    /// What is wrong with it, in the order in which it stands there.
    pub problems: Vec<Problem>,
}

impl Configuration {
    /// Reads the text of a file, `path` for display, and variables by name: those that are no keys
    /// are not looked at. Variables win over the file.
    ///
    /// Nothing fails: what cannot be read is a [`Problem`].
    pub fn parse<'a>(
        path: &Path,
        text: &[u8],
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut reading = Reading::of(path);
        match text_of(text) {
            Ok(text) => reading.file(text),
            Err(fault) => reading.unreadable(&fault),
        }
        reading.variables(variables);
        reading.into
    }

    /// With a file that cannot be read, for this reason.
    pub(super) fn without_file<'a>(
        path: &Path,
        reason: &str,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut reading = Reading::of(path);
        reading.file_problem(None, reason);
        reading.variables(variables);
        reading.into
    }

    /// Why nothing is to be run, if so.
    pub fn refusal(&self) -> Option<String> {
        let told = self.told(Severity::Refusal);
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// What is to be told of it, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        self.told(Severity::Warning)
    }

    fn told(&self, severity: Severity) -> Vec<String> {
        let problems = self.problems.iter().filter(|it| it.severity == severity);
        let mut told: Vec<String> = problems.map(ToString::to_string).collect();
        let more = told.len().saturating_sub(TOLD);
        if more > 0 {
            told.truncate(TOLD);
            told.push(format!("and {more} more in the configuration"));
        }
        told
    }
}

/// The name of the variable that a key may be said by, if a name is one; for those who sort
/// variables out.
pub fn is_configuration_variable(name: &str) -> bool {
    name.starts_with(PREFIX) && keys().iter().any(|key| key.variable() == name)
}

fn text_of(bytes: &[u8]) -> Result<&str, Unreadable> {
    let at = match std::str::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            None => return Ok(text),
            Some(at) => at,
        },
        Err(error) => error.valid_up_to(),
    };
    let before = bytes.get(..at).unwrap_or_default();
    let line = 1 + before.split(|byte| *byte == b'\n').skip(1).count();
    let reason = "is no text in UTF-8".to_owned();
    Err(Unreadable { line, reason })
}

/// A configuration that is being read.
struct Reading<'p> {
    path: &'p Path,
    into: Configuration,
}

impl<'p> Reading<'p> {
    fn of(path: &'p Path) -> Self {
        let into = Configuration::default();
        Self { path, into }
    }

    fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }

    fn file(&mut self, text: &str) {
        let root = match yaml::read(text) {
            Ok(Some(root)) => root,
            Ok(None) => return,
            Err(fault) => return self.unreadable(&fault),
        };
        let sections = match root.entries() {
            Some(Ok(sections)) => sections,
            Some(Err(fault)) => return self.unreadable(&fault),
            None => {
                let reason = format!("is {}, and must hold keys and values", root.shown());
                return self.file_problem(Some(root.line), &reason);
            }
        };
        for section in &sections {
            if of_section(section.name).next().is_some() {
                self.section(section);
            }
        }
    }

    fn unreadable(&mut self, fault: &Unreadable) {
        self.file_problem(Some(fault.line), &fault.reason);
    }

    /// What protects may stand in a file that cannot be read.
    fn file_problem(&mut self, line: Option<usize>, reason: &str) {
        let path = self.path.display();
        self.into.problems.push(Problem {
            severity: Severity::Refusal,
            place: line.map_or_else(|| path.to_string(), |line| self.place(line)),
            line,
            key: String::new(),
            value: String::new(),
            sentence: format!(
                "the configuration {reason}; it may hold what protects, so nothing is run without it: correct \
                 it, or move it away"
            ),
        });
    }

    fn section(&mut self, section: &Found<'_>) {
        let name = section.name;
        let protects = of_section(name).any(|key| key.protects);
        if let Some(earlier) = section.earlier {
            let sentence = format!(
                "there are two sections {name} (the first on line {earlier}); join them: only one would count"
            );
            self.problem(severity(protects), section, name, sentence);
        }
        if section.node.is_nothing() {
            return;
        }
        let entries = match section.node.entries() {
            Some(Ok(entries)) => entries,
            Some(Err(fault)) => return self.unreadable(&fault),
            None => {
                let shown = section.node.shown();
                let instead = if protects {
                    "correct it or remove it"
                } else {
                    "the defaults are used"
                };
                let sentence = format!("{name} must hold keys and values, got {shown}; {instead}");
                return self.problem(severity(protects), section, name, sentence);
            }
        };
        let mut unknown = Vec::new();
        for entry in &entries {
            let found = of_section(name).find(|key| key.parts().1 == entry.name);
            match found {
                Some(key) => self.entry(key, entry, &entries),
                None => match refused(name, entry.name) {
                    Some(sentence) if !entry.node.is_nothing() => {
                        let key = format!("{name}.{}", entry.name);
                        let sentence = format!("{key} is set: {sentence}");
                        self.problem(Severity::Refusal, entry, &key, sentence);
                    }
                    _ if is_foreign(name, entry.name) => {}
                    _ => unknown.push(entry),
                },
            }
        }
        self.unknown(name, &unknown);
    }

    fn entry(&mut self, key: &Key, entry: &Found<'_>, beside: &[Found<'_>]) {
        if let Some(earlier) = entry.earlier {
            let instead = if key.protects {
                "leave one of them"
            } else {
                "this one counts"
            };
            let name = key.name;
            let sentence = format!("{name} stands twice (first on line {earlier}); {instead}");
            self.problem(severity(key.protects), entry, name, sentence);
        }
        if entry.node.is_nothing() {
            return;
        }
        let given = Given::File(entry.node, beside);
        let Err(fault) = (key.read)(given, &mut self.into.values) else {
            return;
        };
        let default = format!("the default ({}) is used", key.default);
        let (severity, sentence) = told(key, given, fault, &default);
        self.into.problems.push(Problem {
            severity,
            place: self.place(entry.line),
            line: Some(entry.line),
            key: key.name.to_owned(),
            value: given.shown(),
            sentence,
        });
    }

    /// All of a section in one sentence.
    fn unknown(&mut self, section: &str, unknown: &[&Found<'_>]) {
        let Some(first) = unknown.first() else {
            return;
        };
        let names = of_section(section).map(|key| key.parts().1);
        let names: Vec<&str> = names.collect();
        let shown = unknown.iter().take(NAMED).map(|entry| {
            let meant = near(entry.name, &names);
            let meant = meant.map_or_else(String::new, |it| format!(" (did you mean {it}?)"));
            format!("{}{meant}", yaml::shown(entry.name, true))
        });
        let shown: Vec<String> = shown.collect();
        let more = match unknown.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let key = format!("{section}.{}", first.name);
        let sentence = format!("{section} has no key {}{more}", shown.join(", "));
        self.problem(Severity::Warning, first, &key, sentence);
    }

    fn problem(&mut self, severity: Severity, at: &Found<'_>, key: &str, sentence: String) {
        self.into.problems.push(Problem {
            severity,
            place: self.place(at.line),
            line: Some(at.line),
            key: key.to_owned(),
            value: at.node.shown(),
            sentence,
        });
    }

    /// What the environment says, where it says something.
    fn variables<'a>(&mut self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let ours = variables
            .into_iter()
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
        let mut ours: Vec<(&str, &str)> = ours.collect();
        if ours.is_empty() {
            return;
        }
        ours.sort_unstable();
        let names: Vec<(String, &Key)> = keys().iter().map(|it| (it.variable(), it)).collect();
        for (name, value) in ours {
            let Some((_, key)) = names.iter().find(|(known, _)| known == name) else {
                self.unknown_variable(name, value, &names);
                continue;
            };
            let given = Given::Variable(value);
            let Err(fault) = (key.read)(given, &mut self.into.values) else {
                continue;
            };
            let default = format!(
                "it is left out, and what config.yaml says is used, else the default ({})",
                key.default
            );
            let (severity, sentence) = told(key, given, fault, &default);
            self.variable_problem(severity, name, key.name, given.shown(), sentence);
        }
    }

    /// One that begins like those of a section, and is none.
    fn unknown_variable(&mut self, name: &str, value: &str, names: &[(String, &Key)]) {
        let is_of_section = |(_, key): &(String, &Key)| {
            let section = key.parts().0.to_ascii_uppercase();
            let rest = name.strip_prefix(PREFIX).unwrap_or_default();
            rest.strip_prefix(&section)
                .is_some_and(|it| it.starts_with('_'))
        };
        if !names.iter().any(is_of_section) {
            return;
        }
        let known: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let meant = near(name, &known);
        let meant = meant.map_or_else(String::new, |it| format!(" (did you mean {it}?)"));
        let sentence = format!("there is no such key{meant}; it has no effect");
        let value = yaml::shown(value, true);
        self.variable_problem(Severity::Warning, name, "", value, sentence);
    }

    fn variable_problem(
        &mut self,
        severity: Severity,
        name: &str,
        key: &str,
        value: String,
        sentence: String,
    ) {
        self.into.problems.push(Problem {
            severity,
            place: name.to_owned(),
            line: None,
            key: key.to_owned(),
            value,
            sentence,
        });
    }
}

fn of_section(section: &str) -> impl Iterator<Item = &'static Key> {
    keys().iter().filter(move |key| key.parts().0 == section)
}

fn severity(protects: bool) -> Severity {
    if protects {
        Severity::Refusal
    } else {
        Severity::Warning
    }
}

/// What is told of a value, and how serious it is.
fn told(key: &Key, given: Given<'_>, fault: Fault, default: &str) -> (Severity, String) {
    let (name, must) = (key.name, key.must);
    let shown = given.shown();
    match fault {
        Fault::NotThere(sentence) => (Severity::Refusal, format!("{name} is {shown}: {sentence}")),
        Fault::NoEffect(sentence) => (Severity::Warning, format!("{name} is {shown}: {sentence}")),
        Fault::Bad => {
            let meant = given.text().ok().and_then(|text| near(text, key.words));
            let meant = meant.map_or_else(String::new, |it| format!(" (did you mean {it}?)"));
            let instead = if key.protects {
                "what protects is never replaced: correct it or remove it"
            } else {
                default
            };
            let sentence = format!("{name} must be {must}, got {shown}{meant}; {instead}");
            (severity(key.protects), sentence)
        }
    }
}

/// The word that may have been meant.
fn near<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    // Nobody means a short word by a text.
    let word = word.trim().to_ascii_lowercase();
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    words
        .iter()
        .map(|known| {
            let distance = strsim::osa_distance(&known.to_ascii_lowercase(), &word);
            (distance, *known)
        })
        .filter(|(distance, known)| *distance <= NEAR && distance * 2 < known.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// What the fuzz target `configuration` does with its input: reads it as a file and as the values of
/// variables. It lives here so that the seeds are run by the ordinary tests too.
///
/// # Panics
///
/// If a sentence is longer than a person reads, or what was refused stands in no sentence.
pub fn exercise(data: &[u8]) {
    let path = Path::new("config.yaml");
    let text = String::from_utf8_lossy(data);
    let lines: Vec<&str> = text.lines().collect();
    let names: Vec<String> = keys().iter().map(Key::variable).collect();
    let variables = names.iter().map(String::as_str).zip(lines);
    for configuration in [
        Configuration::parse(path, data, []),
        Configuration::parse(path, b"", variables),
    ] {
        let refused = |it: &Problem| it.severity == Severity::Refusal;
        let is_refused = configuration.problems.iter().any(refused);
        assert_eq!(configuration.refusal().is_some(), is_refused);
        for problem in &configuration.problems {
            assert!(problem.to_string().len() < 4_000, "{problem:?}");
        }
        assert!(configuration.warnings().len() <= TOLD + 1);
    }
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
