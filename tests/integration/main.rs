//! Tests with real kernels, in one binary. Each has a home, a runtime folder and a mark of its own;
//! whatever bears the mark and is still there at the end is a survivor, and fails the test.
#![expect(
    clippy::indexing_slicing,
    clippy::unnecessary_debug_formatting,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test that cannot go on fails, and says loudly what it has not tested"
)]

mod architecture;
mod cells;
mod children;
mod command_closed;
mod command_kit;
mod command_limits;
mod command_line;
mod command_policy;
mod command_python;
mod command_secrets;
mod command_source;
mod command_streams;
mod conformance;
mod documentation;
mod endings;
mod envelope;
mod exits;
mod folders_swept;
mod foreign;
mod foreign_command;
mod foreign_hostile;
mod foreign_kit;
mod frames;
mod frontends;
mod games;
mod hostile;
mod jupyter_kit;
mod kernel_kit;
mod kernel_life;
mod kernel_wire;
mod kernelspec;
mod lifecycle_balance;
mod lifecycle_bare;
mod lifecycle_deaths;
mod lifecycle_end;
mod lifecycle_events;
mod lifecycle_exec;
mod lifecycle_forkserver;
mod lifecycle_interrupts;
mod lifecycle_jobs;
mod lifecycle_kept;
mod lifecycle_losses;
mod lifecycle_orphans;
mod lifecycle_policy;
mod lifecycle_policy_moments;
mod lifecycle_queue;
mod lifecycle_spare;
mod lifecycle_start;
mod lifecycle_support;
mod lifecycle_timeouts;
mod messages_ask;
mod messages_cells;
mod messages_display;
mod messages_input;
mod messages_kit;
mod names;
mod namespace;
mod output;
mod policy_kit;
mod results;
mod server_cells;
mod server_detached;
mod server_found;
mod server_hostile;
mod server_interrupts;
mod server_jupyter;
mod server_jupyter_hostile;
mod server_jupyter_messages;
mod server_jupyter_requests;
mod server_jupyter_rest;
mod server_jupyter_states;
mod server_jupyter_tcp;
mod server_kit;
mod server_life;
mod server_looks;
mod server_managers;
mod server_orders;
mod server_serve;
mod server_silent;
mod server_truth;
mod server_unreceived;
mod server_words;
mod session_callers;
mod session_disk;
mod session_idle;
mod session_ledger;
mod session_limits;
mod session_places;
mod session_status;
mod shadowing;
mod shared_memory;
mod standard_streams;
mod support;
mod tools_arguments;
mod tools_budget;
mod tools_cancel;
mod tools_cells;
mod tools_environment;
mod tools_files;
mod tools_fork;
mod tools_helpers;
mod tools_interactive;
mod tools_kit;
mod tools_memory;
mod tools_parallel;
mod tools_places;
mod tools_socket;
mod tools_stubs;
mod tools_terminal;
mod tools_terminal_leftovers;
mod tracebacks;
mod traces;
mod variables;
mod variables_hostile;
