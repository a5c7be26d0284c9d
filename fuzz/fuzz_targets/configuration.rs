//! Bytes as the file of settings in a home, and as the values of variables that say the same.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warmcell::config::exercise(data));
