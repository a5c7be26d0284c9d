//! Values that ask for what is not there yet: what protects is refused with a sentence, never passed
//! over. What asks for what is so anyway passes.

use super::Values;
use super::given::{Fault, Given};
use super::scalars::{flag, word};
use super::yaml::Value;

type Read = Result<(), Fault>;

fn not_there(sentence: impl Into<String>) -> Read {
    Err(Fault::NotThere(sentence.into()))
}

/// `code_execution.sandbox`
pub(super) fn sandbox(given: Given<'_>, _values: &mut Values) -> Read {
    if !flag(given.text()?).ok_or(Fault::Bad)? {
        return Ok(());
    }
    not_there(
        "there is no sandbox yet: cells run as you, with your rights; say false, or run warmcell itself in \
         a container",
    )
}

/// Backends of the other system, with the keys beside them that say where, and how they will be
/// written here; and ours.
const BACKENDS: [(&str, &[&str], &str); 11] = [
    ("docker", &["docker_image"], "docker-image:IMAGE"),
    ("podman", &["docker_image"], "podman-image:IMAGE"),
    (
        "ssh",
        &["ssh_host", "ssh_user", "ssh_port"],
        "ssh:[USER@]HOST[:PORT]",
    ),
    ("singularity", &["singularity_image"], ""),
    ("modal", &["modal_image"], "modal:SANDBOX"),
    ("daytona", &["daytona_image"], ""),
    ("vercel_sandbox", &["vercel_runtime"], ""),
    ("kubernetes", &[], "kubernetes:[NAMESPACE/]POD"),
    ("docker-image", &[], ""),
    ("command", &[], ""),
    ("shell", &[], ""),
];

/// `terminal.backend`
pub(super) fn backend(given: Given<'_>, _values: &mut Values) -> Read {
    let text = given.text()?.trim();
    if text.eq_ignore_ascii_case("local") {
        return Ok(());
    }
    let (kind, place) = match text.split_once(':') {
        Some((kind, place)) => (kind, Some(place)),
        None => (text, None),
    };
    let kind = kind.to_ascii_lowercase();
    let known = BACKENDS.iter().find(|(name, ..)| {
        *name == kind || (place.is_some() && kind.strip_suffix("-image") == Some(*name))
    });
    let Some((_, beside, form)) = known else {
        return Err(Fault::Bad);
    };
    let beside: Vec<String> = beside
        .iter()
        .filter_map(|name| Some(format!("{name}: {:.60}", given.beside(name)?)))
        .collect();
    let with = if beside.is_empty() {
        String::new()
    } else {
        format!(" (with {})", beside.join(", "))
    };
    let form = if form.is_empty() || place.is_some() {
        String::new()
    } else {
        format!(", and will be written {form}")
    };
    not_there(format!(
        "cells run on this machine alone{with}: containers and other machines are not there yet{form}; \
         nothing is run here instead: say local if it may be"
    ))
}

/// `approvals.mode`
pub(super) fn approvals(given: Given<'_>, _values: &mut Values) -> Read {
    let words = [
        ("smart", false),
        ("off", false),
        ("false", false),
        ("manual", true),
    ];
    if !word(given.text()?, &words).ok_or(Fault::Bad)? {
        return Ok(());
    }
    not_there(
        "nobody is asked before a dangerous command yet, what can never be meant is refused, and nothing \
         else; leave it out, or say off",
    )
}

/// `approvals.deny`
pub(super) fn denied(given: Given<'_>, _values: &mut Values) -> Read {
    if given.texts()?.is_empty() {
        return Ok(());
    }
    not_there(
        "commands are not refused by patterns yet; remove them, or give cells no tools (--no-tools)",
    )
}

/// `security.redact_secrets`
pub(super) fn redaction(given: Given<'_>, _values: &mut Values) -> Read {
    if flag(given.text()?).ok_or(Fault::Bad)? {
        return Ok(());
    }
    Err(Fault::NoEffect(
        "secrets are masked all the same; `exec --no-redact` shows them",
    ))
}

/// `security.website_blocklist`: no tool here goes to the web, so there is nothing to be kept from it.
pub(super) fn blocklist(given: Given<'_>, _values: &mut Values) -> Read {
    match given {
        Given::File(node, _) if matches!(node.value, Value::Scalar { .. }) => Err(Fault::Bad),
        _ => Ok(()),
    }
}

/// A number that is the other system's business.
pub(super) fn any_number(given: Given<'_>, _values: &mut Values) -> Read {
    let number = given.text()?.trim().parse::<f64>();
    number.map(drop).map_err(|_no_number| Fault::Bad)
}
