//! Secrets are masked in every text that leaves for a reader: by their shape, and by their value.
//!
//! - [`Rules`]: what is looked for: the known shapes of tokens, and the values of variables that a
//!   kernel did not get, by their fingerprints ([`Hidden`]);
//! - [`Redactor`]: does so in a stream, however it is cut;
//! - [`contains_marker`]: whether a text holds what stands in place of a secret.
//!
//! This is a guard against accidents: a cell that wants to tell a secret can always write it in
//! another way. So what looks like a secret only by its name stays: `MAX_TOKENS = 100` and
//! `token = get_token()` are code.

mod addresses;
mod ahead;
mod anchors;
mod body;
mod hidden;
mod marker;
mod named;
mod redactor;
mod rules;
mod shapes;
mod tokens;
mod values;

pub use hidden::Hidden;
pub use marker::{contains_marker, marker};
pub use redactor::{Edit, Redactor};
pub use rules::Rules;
