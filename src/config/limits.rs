//! What the system lets a process take (`ulimit`), and how nice it is.

use std::collections::BTreeMap;
use std::fmt;

/// Something that the system limits for each process. Core dumps are not among them: a kernel never
/// leaves any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Resource {
    /// Processor time, in seconds.
    Cpu,
    /// The size of a file that is written, in bytes.
    FileSize,
    /// The stack of the first thread, in bytes.
    Stack,
    /// Memory in RAM, in bytes; without effect on Linux.
    Resident,
    /// Processes of the user.
    Processes,
    /// Open descriptors, one more than the highest.
    OpenFiles,
    /// Memory that may be locked, in bytes.
    LockedMemory,
    /// Signals that may wait.
    PendingSignals,
    /// Bytes in POSIX message queues.
    MessageQueues,
    /// How far the nice value may be lowered: 20 minus this.
    Nice,
    /// Real-time priority.
    RealTimePriority,
    /// Processor time between two waits under real-time scheduling, in microseconds.
    RealTime,
    /// Data segment, in bytes.
    Data,
    /// Address space, in bytes.
    AddressSpace,
}

impl Resource {
    /// All of them, in the order in which they are set: what leaves little memory comes last.
    pub const ALL: [Self; 14] = [
        Self::Cpu,
        Self::FileSize,
        Self::Stack,
        Self::Resident,
        Self::Processes,
        Self::OpenFiles,
        Self::LockedMemory,
        Self::PendingSignals,
        Self::MessageQueues,
        Self::Nice,
        Self::RealTimePriority,
        Self::RealTime,
        Self::Data,
        Self::AddressSpace,
    ];

    /// The system's name of it, as `prlimit` and `limits.conf` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::FileSize => "fsize",
            Self::Stack => "stack",
            Self::Resident => "rss",
            Self::Processes => "nproc",
            Self::OpenFiles => "nofile",
            Self::LockedMemory => "memlock",
            Self::PendingSignals => "sigpending",
            Self::MessageQueues => "msgqueue",
            Self::Nice => "nice",
            Self::RealTimePriority => "rtprio",
            Self::RealTime => "rttime",
            Self::Data => "data",
            Self::AddressSpace => "as",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "processor time (ulimit -t, seconds)",
            Self::FileSize => "file size (ulimit -f, in bytes)",
            Self::Stack => "stack (ulimit -s, in bytes)",
            Self::Resident => "resident memory (ulimit -m, in bytes)",
            Self::Processes => "processes (ulimit -u)",
            Self::OpenFiles => "open files (ulimit -n)",
            Self::LockedMemory => "locked memory (ulimit -l, in bytes)",
            Self::PendingSignals => "pending signals (ulimit -i)",
            Self::MessageQueues => "message queues (ulimit -q, bytes)",
            Self::Nice => "nice limit (ulimit -e)",
            Self::RealTimePriority => "real-time priority (ulimit -r)",
            Self::RealTime => "real time (ulimit -R, microseconds)",
            Self::Data => "data segment (ulimit -d, in bytes)",
            Self::AddressSpace => "address space (ulimit -v, in bytes)",
        })
    }
}

/// A limit: the one in force, and up to where a process may raise that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// In force; `None` for unlimited.
    pub soft: Option<u64>,
    /// The most that it can be raised to; `None` for unlimited.
    pub hard: Option<u64>,
}

/// What a new kernel and its commands may take, and how nice they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// The limits; what is not named stays as it is in the manager.
    pub bounds: BTreeMap<Resource, Bound>,
    /// The nice value, -20 to 19; `None` for that of the manager.
    pub nice: Option<i32>,
}

/// A limit as a kernel has it that was to have another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Had {
    /// One of its resources.
    Bound(Resource, Bound),
    /// Its nice value.
    Nice(i32),
}

impl Had {
    /// As a kernel tells it: by name, -1 for unlimited; `None` for what is not known.
    pub fn read(name: &str, soft: i64, hard: i64) -> Option<Self> {
        if name == "nice_value" {
            return Some(Self::Nice(i32::try_from(soft).ok()?));
        }
        let limit = |number: i64| u64::try_from(number).ok();
        let bound = Bound {
            soft: limit(soft),
            hard: limit(hard),
        };
        Some(Self::Bound(Resource::named(name)?, bound))
    }
}

impl ProcessLimits {
    /// What of this a kernel does not have, in a sentence that says what to do; `None` if nothing.
    pub fn not_given(&self, had: &[Had]) -> Option<String> {
        let most = Resource::ALL.len() + 1;
        let differences = had.iter().take(most).filter_map(|it| self.difference(it));
        let differences: Vec<String> = differences.collect();
        (!differences.is_empty()).then(|| {
            format!(
                "this kernel does not have all limits of its caller, because its manager was started \
                 under others: {}; only a manager that is started anew can give them (`warmcell serve \
                 --stop` ends the background server)",
                differences.join(", ")
            )
        })
    }

    fn difference(&self, had: &Had) -> Option<String> {
        let (what, had, wanted) = match had {
            Had::Nice(had) => {
                let wanted = self.nice.filter(|wanted| wanted != had)?;
                ("nice value".to_owned(), had.to_string(), wanted.to_string())
            }
            Had::Bound(resource, had) => {
                let wanted = self.bounds.get(resource)?;
                let (kind, had, wanted) = if had.soft != wanted.soft {
                    ("", had.soft, wanted.soft)
                } else if had.hard != wanted.hard {
                    ("hard limit on ", had.hard, wanted.hard)
                } else {
                    return None;
                };
                (format!("{kind}{resource}"), shown(had), shown(wanted))
            }
        };
        Some(format!("{what} {had}, not {wanted}"))
    }
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_not_have_is_named_with_both_values() {
        let bound = |soft, hard| Bound { soft, hard };
        let wanted = ProcessLimits {
            bounds: BTreeMap::from([
                (Resource::OpenFiles, bound(Some(1_024), Some(8_192))),
                (Resource::AddressSpace, bound(None, None)),
            ]),
            nice: Some(0),
        };
        assert_eq!(wanted.not_given(&[]), None);
        let same = Had::Bound(Resource::OpenFiles, bound(Some(1_024), Some(8_192)));
        // What nobody has asked for is nobody's business.
        let other = Had::Bound(Resource::Cpu, bound(Some(1), Some(1)));
        assert_eq!(wanted.not_given(&[same, other, Had::Nice(0)]), None);
        let had = [
            Had::Bound(Resource::OpenFiles, bound(Some(1_024), Some(4_096))),
            Had::Bound(Resource::AddressSpace, bound(Some(1 << 30), Some(1 << 30))),
            Had::Nice(5),
        ];
        let told = wanted.not_given(&had).unwrap();
        assert!(
            told.contains(
                ": hard limit on open files (ulimit -n) 4096, not 8192, address space (ulimit -v, in \
                 bytes) 1073741824, not unlimited, nice value 5, not 0; only"
            ),
            "{told}"
        );
    }

    #[test]
    fn each_has_a_name_of_its_own() {
        for resource in Resource::ALL {
            assert_eq!(Resource::named(resource.name()), Some(resource));
        }
        assert_eq!(Resource::named("core"), None);
    }
}
