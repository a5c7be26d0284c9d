//! A value that a key was given, in a file or in a variable.

use super::yaml::{Found, Node, Value, shown};

/// A value, and what stands beside it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
    /// In a file; the section that it stands in.
    File(&'a Node, &'a [Found<'a>]),
    /// In a variable of the environment.
    Variable(&'a str),
}

/// Why a value will not do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not what it must be.
    Bad,
    /// It is what it must be, and asks for what is not there: what that is, and what to do.
    NotThere(String),
    /// It has no effect, which takes no protection away: why.
    NoEffect(&'static str),
}

impl<'a> Given<'a> {
    /// A text, if it is one.
    pub(super) fn text(self) -> Result<&'a str, Fault> {
        match self {
            Self::Variable(text) => Ok(text),
            Self::File(node, _) => match &node.value {
                Value::Scalar { text, .. } => Ok(text),
                _ => Err(Fault::Bad),
            },
        }
    }

    /// Texts in a row: a list in a file, with commas between them in a variable.
    pub(super) fn texts(self) -> Result<Vec<&'a str>, Fault> {
        let Self::File(node, _) = self else {
            let texts = self.text()?.split(',').map(str::trim);
            return Ok(texts.filter(|text| !text.is_empty()).collect());
        };
        let Value::List(items) = &node.value else {
            return Err(Fault::Bad);
        };
        let text = |item: &'a std::rc::Rc<Node>| match &item.value {
            Value::Scalar { text, .. } if !item.is_nothing() => Ok(text.as_str()),
            _ => Err(Fault::Bad),
        };
        items.iter().map(text).collect()
    }

    /// What another key of the same section says.
    pub(super) fn beside(self, name: &str) -> Option<&'a str> {
        let Self::File(_, section) = self else {
            return None;
        };
        let found = section.iter().find(|found| found.name == name)?;
        match &found.node.value {
            Value::Scalar { text, .. } if !found.node.is_nothing() => Some(text),
            _ => None,
        }
    }

    /// As it was written, cut.
    pub(super) fn shown(self) -> String {
        match self {
            Self::File(node, _) => node.shown(),
            Self::Variable(text) => shown(text, true),
        }
    }
}

/// What reading a value makes of what was parsed.
pub(super) fn set<T>(place: &mut Option<T>, value: Option<T>) -> Result<(), Fault> {
    *place = Some(value.ok_or(Fault::Bad)?);
    Ok(())
}
