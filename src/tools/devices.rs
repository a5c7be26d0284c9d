//! Names under which there is no file: devices, descriptors, views of processes.

use std::path::{Component, Path};

use super::paths::Rule;

const DEVICES: &[&str] = &[
    "zero", "random", "urandom", "full", "stdin", "tty", "console", "stdout", "stderr",
];

const PROCESS_FILES: &[&str] = &[
    "environ",
    "cmdline",
    "maps",
    "smaps",
    "smaps_rollup",
    "numa_maps",
    "mem",
    "auxv",
    "pagemap",
];

/// Why such a name may not be touched.
pub(super) fn device_rule(name: &Path) -> Option<Rule> {
    let parts: Vec<&str> = name
        .components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part.to_str().unwrap_or_default()),
            _ => None,
        })
        .collect();
    let endless = || {
        Rule::new(
            "a device, whose data may never come or never end",
            "name a regular file (a cell's own input is empty; it writes with print)",
        )
    };
    // A descriptor would be one of the process that runs the tools, never one of the caller.
    let descriptor = || {
        Rule::new(
            "an open descriptor of another process than your cell",
            "use the file object in the cell, or name a regular file",
        )
    };
    let process = || {
        Rule::new(
            "a view of the memory, arguments or environment of a process",
            "use os.environ, sys.argv or a library such as psutil in the cell",
        )
    };
    match parts.as_slice() {
        ["dev", device] if DEVICES.contains(device) => Some(endless()),
        ["dev", "fd", _] | ["proc", _, "fd", ..] | ["proc", _, "task", _, "fd", ..] => {
            Some(descriptor())
        }
        ["proc", _, file] | ["proc", _, "task", _, file] if PROCESS_FILES.contains(file) => {
            Some(process())
        }
        _ => None,
    }
}
