//! A kernel that is not ours, as a caller asks for it.

use serde::{Deserialize, Serialize};

use super::order::CallerOrder;
use crate::config::ForeignKernel;
use crate::environment::named_kernel;

/// A kernel that is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KernelOrder {
    /// By the name of its kernelspec, which is looked for as the caller's environment says.
    Named(String),
    /// As its kernelspec says, which the caller has found.
    Found(Box<ForeignKernel>),
}

impl KernelOrder {
    /// What its kernelspec says, if that was found.
    pub(super) fn found(&self) -> Option<&ForeignKernel> {
        match self {
            Self::Named(_) => None,
            Self::Found(kernel) => Some(kernel),
        }
    }
}

impl CallerOrder {
    /// The same, with the kernel found that is asked for by name; one of ours by its Python.
    ///
    /// Reads files where there is one (blocking).
    ///
    /// # Errors
    ///
    /// If there is no such kernel, or a Python was named too.
    pub fn with_kernel(mut self) -> Result<Self, String> {
        match &self.kernel {
            Some(_) if self.python.is_some() => {
                return Err(
                    "give `python` or `kernel`, not both: another kernel has its own".to_owned(),
                );
            }
            Some(KernelOrder::Found(kernel)) if kernel.argv.is_empty() => {
                return Err("`kernel` needs `name` and `argv`, or is a name alone".to_owned());
            }
            None | Some(KernelOrder::Found(_)) => {}
            Some(KernelOrder::Named(name)) => {
                let caller = self.caller();
                let found = named_kernel(name, &caller).map_err(|error| error.to_string())?;
                let caller = found.asked_for_by(caller);
                self.environment = caller.environment;
                self.python = caller.python;
                self.kernel = caller.kernel.map(|it| KernelOrder::Found(Box::new(it)));
            }
        }
        Ok(self)
    }
}
