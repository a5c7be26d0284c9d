//! Tests with real kernels, in one binary.
