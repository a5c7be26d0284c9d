//! Which variables of a caller a kernel sees: one function decides for kernels, for the commands that
//! tools run, and for kernels that are elsewhere.

use super::credentials::never_passes;
use super::dropped::{DroppedNames, Reason};
use super::scrub::{DROPPED, has_secret_word, scrub_but};
use crate::config::Caller;

/// What a caller's kernels see, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visible {
    /// The variables that pass.
    pub variables: Vec<(String, String)>,
    /// What was set and does not pass; also what was taken out of the environment before it came here.
    pub dropped: DroppedNames,
    /// Variables whose names speak of a secret, with their values, whether they pass or not: what is
    /// masked in all that comes of the kernels.
    pub secrets: Vec<(String, String)>,
}

/// Divides what a caller has: `passed` names variables that pass although they are not on the list.
/// Those that the caller has named itself ([`Caller::named`]) pass too, and count before the others;
/// the agent's own credentials never do.
pub fn visible(caller: &Caller, passed: &[String]) -> Visible {
    let scrubbed = scrub_but(caller.environment.iter().cloned(), passed);
    let mut dropped = scrubbed.dropped_names();
    let earlier = caller.environment.iter().find(|(name, _)| name == DROPPED);
    if let Some((_, text)) = earlier {
        dropped.join(&DroppedNames::parse(text));
    }
    let (mut variables, mut secrets) = (scrubbed.kept, scrubbed.secrets);
    // By the last that names it, as in a shell.
    for (name, value) in &caller.named {
        let is_secret = has_secret_word(name);
        if never_passes(name) {
            dropped.add(name, Reason::NeverPasses, is_secret);
            continue;
        }
        dropped.remove(name);
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), value.clone()));
        if is_secret {
            secrets.push((name.clone(), value.clone()));
        }
    }
    Visible {
        variables,
        dropped,
        secrets,
    }
}

/// A variable that was named on purpose and never passes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the variable {name} cannot be let through (`caller.env`): {}; leave it out, or give what the code \
     needs under a name of its own",
    if super::is_provider_credential(name) {
        "it is a credential or setting of the agent's own"
    } else {
        "it is one of Warmcell's own"
    }
)]
pub struct CredentialError {
    /// Its name.
    pub name: String,
}

/// Whether a caller has named a variable that never passes.
///
/// # Errors
///
/// The first.
pub fn refuse_credentials(caller: &Caller) -> Result<(), CredentialError> {
    let mut named = caller.named.iter();
    match named.find(|(name, _)| never_passes(name)) {
        Some((name, _)) => Err(CredentialError { name: name.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
