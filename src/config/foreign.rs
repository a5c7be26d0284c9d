//! Kernels that are not ours.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A kernel of Jupyter's that is not ours, as its kernelspec says that it is started. Front ends find
/// it (`environment::foreign_kernel`); nothing below them looks for kernelspecs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForeignKernel {
    /// The name of the kernelspec, in lower case.
    pub name: String,
    /// The command; `{connection_file}` and `{resource_dir}` in it stand for paths.
    pub argv: Vec<String>,
    /// Variables that it wants, with `${NAME}` for those that it gets.
    pub env: Vec<(String, String)>,
    /// The language of its cells, `python` for one; empty where that is not said.
    pub language: String,
    /// Whether it is interrupted by a message, and not by SIGINT.
    pub interrupted_by_message: bool,
    /// How its sockets are reached.
    pub transport: KernelTransport,
    /// The folder of the kernelspec.
    pub folder: PathBuf,
}

/// How the sockets of a kernel that is not ours are reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelTransport {
    /// By Unix sockets; if it does not come up with those it is started once more, over TCP.
    #[default]
    Any,
    /// By Unix sockets, in a folder that no other user can enter.
    Ipc,
    /// Over TCP at 127.0.0.1.
    Tcp,
}

/// In a kernel's argv: the path of its connection file.
pub const CONNECTION_FILE: &str = "{connection_file}";

impl ForeignKernel {
    /// Whether its command says where the connection file goes; without that no kernel can be reached.
    pub fn takes_connection_file(&self) -> bool {
        self.argv.iter().any(|word| word.contains(CONNECTION_FILE))
    }

    /// Whether its kernelspec names another language than Python: then it has no tools.
    pub fn is_another_language(&self) -> bool {
        !self.language.is_empty() && !self.is_python()
    }

    /// Whether its cells are Python: then it gets the tools, and tells its variables.
    pub fn is_python(&self) -> bool {
        self.language.eq_ignore_ascii_case("python")
    }
}
