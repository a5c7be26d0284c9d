//! The `warmcell` command; everything is in the library.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[used]
#[expect(
    unsafe_code,
    reason = "the system calls what stands in this section before Rust opens /dev/null in the place \
              of streams that are closed; the function needs nothing that is not there yet"
)]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = warmcell::cli::note_closed_streams;

fn main() -> ExitCode {
    warmcell::cli::main()
}
