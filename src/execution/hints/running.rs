//! Time, memory, loops and processes.

use super::rules::Case;
use super::setting::Setting;
use crate::execution::ErrorClass;
use crate::kernel::Death;
use crate::provisioner::KernelExit;

/// A cell whose time was up.
pub(super) fn out_of_time(is_kept: bool, setting: &Setting<'_>) -> String {
    let more = "give it more time (`timeout`, exec -t), split the work into smaller cells, or let it run \
                without waiting for it (exec --detach)";
    if is_kept {
        format!("{more}; what it has made so far is there")
    } else if setting.is_interrupted_in_place {
        more.to_owned()
    } else {
        format!(
            "{more}; with on_timeout `interrupt` (exec --on-timeout) state is kept if the cell can be \
                 interrupted"
        )
    }
}

/// A loop in a loop.
pub(super) fn loop_runs(case: &Case<'_>) -> Option<String> {
    if !case.exception.is(&["RuntimeError"]) {
        return None;
    }
    let text = case.exception.text;
    let is_one = text.starts_with("asyncio.run() cannot be called from a running event loop")
        || text.starts_with("This event loop is already running")
        || text.starts_with("Cannot run the event loop while another loop is running");
    is_one.then(|| {
        "this code runs in an event loop already: write `await main()` instead of asyncio.run(main()), \
         cells may await at top level"
            .to_owned()
    })
}

/// What cannot go to another process.
pub(super) fn cannot_be_sent(case: &Case<'_>) -> Option<String> {
    let exception = case.exception;
    let text = exception.text;
    let is_local = exception.is(&["AttributeError", "PicklingError"])
        && ["Can't pickle local object", "Can't get local object"]
            .iter()
            .any(|known| text.starts_with(known));
    let is_nameless = exception.is(&["PicklingError"]) && text.contains("<lambda>");
    if is_local || is_nameless {
        return Some(
            "only functions and classes that stand at the top level of a cell can be pickled and sent to \
             processes: make it one with def or class there, or use threads (ThreadPoolExecutor)"
                .to_owned(),
        );
    }
    if !exception.is(&["TypeError"]) {
        return None;
    }
    let kind = text.strip_prefix("cannot pickle '")?.split('\'').next()?;
    Some(format!(
        "a {kind} belongs to its process and cannot be pickled: make it where it is used, or use threads \
         instead of processes"
    ))
}

/// A limit on processes and threads.
pub(super) fn too_many(case: &Case<'_>) -> Option<String> {
    let is_limit = case.class == Some(ErrorClass::Limit);
    (is_limit && case.exception.is(&["RuntimeError", "BlockingIOError"])).then(|| {
        "the limit on processes and threads is reached: use fewer at once, and join or end those that \
         are done"
            .to_owned()
    })
}

/// Memory.
pub(super) fn memory(case: &Case<'_>) -> Option<String> {
    let exception = case.exception;
    if !exception.is(&["MemoryError", "_ArrayMemoryError", "ArrayMemoryError"]) {
        return None;
    }
    Some(if case.class == Some(ErrorClass::Limit) {
        "the memory of this kernel is limited (ulimit -v, limits.memory): work in smaller pieces, and del \
         what is not needed any more"
            .to_owned()
    } else {
        "it is more than there is: work in smaller pieces, read files line by line or in chunks, and del \
         what is not needed any more"
            .to_owned()
    })
}

/// A debugger, or a question, without anybody to answer.
pub(super) fn keyboard(case: &Case<'_>) -> Option<String> {
    let exception = case.exception;
    if exception.is(&["BdbQuit"]) {
        return Some(
            "nobody is at the keyboard of this cell, so a debugger ends at once: take breakpoint() or \
             pdb.set_trace() out, and print what you want to see"
                .to_owned(),
        );
    }
    exception.is(&["StdinNotImplementedError"]).then(|| {
        "nobody is at the keyboard of this cell: put the value into the code, or read it from a file or \
         an environment variable"
            .to_owned()
    })
}

/// A kernel that has died under its cell.
pub(super) fn died(death: &Death, setting: &Setting<'_>) -> Option<String> {
    let Death::Exited(exit) = death else {
        return None;
    };
    match exit {
        KernelExit::Signal(9) if !setting.code.contains("kill") => Some(
            "nothing here has sent that signal: often it is the system that has run out of memory; work \
             in smaller pieces"
                .to_owned(),
        ),
        KernelExit::Signal(4 | 7 | 8 | 11) => Some(
            "compiled code has crashed; stderr shows in which call. Run that step in a process of its own \
             (subprocess, multiprocessing) to keep the kernel"
                .to_owned(),
        ),
        _ => None,
    }
}
