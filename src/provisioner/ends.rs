//! The descriptors of a new kernel.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::ProvisionError;
use crate::process::{InterruptPage, PipeReader, output_pipe, socket_pair};

/// Our ends, and the others as they go with the order to fork.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) link: UnixStream,
    pub(super) stdout: PipeReader,
    pub(super) stderr: PipeReader,
    pub(super) page: InterruptPage,
    /// Link, stdout, stderr, page.
    pub(super) theirs: Vec<OwnedFd>,
}

impl Ends {
    pub(super) fn new() -> Result<Self, ProvisionError> {
        let (link, their_link) = socket_pair()?;
        let (stdout, their_stdout) = output_pipe()?;
        let (stderr, their_stderr) = output_pipe()?;
        let page = InterruptPage::new()?;
        let their_page = page.share()?;
        Ok(Self {
            link,
            stdout,
            stderr,
            page,
            theirs: vec![their_link, their_stdout, their_stderr, their_page],
        })
    }
}
