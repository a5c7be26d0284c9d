//! Bytes from a kernel: a stream of link frames, and the JSON inside them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warmcell::jupyter::fuzzing::exercise(data));
