//! Bytes from anybody who reaches a socket of `warmcell kernel`, and the files that lead to kernels.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warmcell::jupyter::exercise_wire(data));
