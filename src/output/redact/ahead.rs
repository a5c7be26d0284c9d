//! The text from a place on, of which more may come.

use super::body::Class;
use super::rules::Found;

/// Bytes that are to come must tell.
pub(super) struct Unknown;

/// What is found at a place, if anything.
pub(super) type Judged = Result<Option<Found>, Unknown>;

/// The text from a place on.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) ended: bool,
}

impl<'a> Ahead<'a> {
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte; `None` at the end.
    pub(super) fn peek(&self) -> Result<Option<u8>, Unknown> {
        match self.rest().first() {
            None if !self.ended => Err(Unknown),
            byte => Ok(byte.copied()),
        }
    }

    /// Takes up to so many bytes that are like this.
    pub(super) fn take(
        &mut self,
        most: usize,
        is: impl Fn(u8) -> bool,
    ) -> Result<&'a [u8], Unknown> {
        let from = self.at;
        while self.at - from < most {
            match self.peek()? {
                Some(byte) if is(byte) => self.at += 1,
                _ => break,
            }
        }
        Ok(self.text.get(from..self.at).unwrap_or_default())
    }

    /// Takes one byte if it is like this.
    pub(super) fn skip(&mut self, is: impl Fn(u8) -> bool) -> Result<bool, Unknown> {
        Ok(!self.take(1, is)?.is_empty())
    }

    pub(super) fn run(&self, class: Class, most: usize) -> Result<&'a [u8], Unknown> {
        let rest = self.rest();
        let size = class.run(rest, most, self.ended).ok_or(Unknown)?;
        Ok(rest.get(..size).unwrap_or_default())
    }
}
