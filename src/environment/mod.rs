//! Interpreter and environment of a kernel.
