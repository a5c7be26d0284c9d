//! Limits of output.
