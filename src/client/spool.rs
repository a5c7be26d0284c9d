//! Output that a manager has sent and that this process's reader has not taken yet: on disk, so that
//! neither the cell waits for the reader nor memory grows.

use std::io::{self, SeekFrom};

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::execution::LiveEvent;
use crate::process::in_words;

/// The most that is kept on disk.
const MOST_BYTES: u64 = 1 << 30;
/// A piece's kind and length.
const HEAD_BYTES: usize = 5;

/// A queue of pieces in a file without a name.
#[derive(Debug, Default)]
pub(super) struct Spool {
    file: Option<File>,
    read: u64,
    written: u64,
    missed: Missed,
}

/// Output that was not handed on.
#[derive(Debug, Default)]
pub struct Missed {
    /// How much of it.
    pub bytes: u64,
    /// Why, if the reason is here: what kept it from waiting for its reader on the disk.
    pub why: Option<String>,
}

impl Spool {
    pub(super) fn is_empty(&self) -> bool {
        self.read == self.written
    }

    /// What found no room since this was asked last.
    pub(super) fn take_missed(&mut self) -> Missed {
        std::mem::take(&mut self.missed)
    }

    /// Appends a piece; without room on the disk it is counted as missed.
    pub(super) async fn push(&mut self, event: LiveEvent) {
        let (kind, bytes) = match event {
            LiveEvent::Stdout(bytes) => (0, bytes),
            LiveEvent::Stderr(bytes) => (1, bytes),
            LiveEvent::Result(text) => (2, text.into()),
            LiveEvent::Published(shown) => match shown.text() {
                Some(text) => (3, text.into()),
                None => return,
            },
        };
        let why = if self.written - self.read > MOST_BYTES {
            Some("1 GiB waits for its reader".to_owned())
        } else {
            let appended = self.append(kind, &bytes).await;
            appended.err().map(|error| in_words(&error))
        };
        if let Some(why) = why {
            self.missed.bytes += bytes.len() as u64;
            self.missed.why.get_or_insert(why);
        }
    }

    async fn append(&mut self, kind: u8, bytes: &[u8]) -> io::Result<()> {
        if self.is_empty() {
            (self.read, self.written) = (0, 0);
        }
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let [a, b, c, d] = length.to_le_bytes();
        let at = SeekFrom::Start(self.written);
        let file = self.file()?;
        file.seek(at).await?;
        file.write_all(&[kind, a, b, c, d]).await?;
        file.write_all(bytes).await?;
        file.flush().await?;
        // A piece that was written in part is overwritten by the next.
        self.written += (HEAD_BYTES + bytes.len()) as u64;
        Ok(())
    }

    /// Takes the oldest piece.
    pub(super) async fn pop(&mut self) -> io::Result<Option<LiveEvent>> {
        if self.is_empty() {
            return Ok(None);
        }
        let at = SeekFrom::Start(self.read);
        let file = self.file()?;
        file.seek(at).await?;
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head).await?;
        let [kind, a, b, c, d] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes).await?;
        self.read += (HEAD_BYTES + length) as u64;
        if self.is_empty() {
            // What was read need not stay on the disk.
            self.file()?.set_len(0).await?;
        }
        Ok(Some(match kind {
            0 => LiveEvent::Stdout(Bytes::from(bytes)),
            1 => LiveEvent::Stderr(Bytes::from(bytes)),
            3 => LiveEvent::display(&String::from_utf8_lossy(&bytes)),
            _ => LiveEvent::Result(String::from_utf8_lossy(&bytes).into_owned()),
        }))
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::from_std(tempfile::tempfile()?),
        };
        Ok(self.file.insert(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_come_out_as_they_went_in() {
        let mut spool = Spool::default();
        let pieces = [
            LiveEvent::Stdout(Bytes::from(vec![b'x'; 300_000])),
            LiveEvent::Stderr(Bytes::from_static(b"\xff")),
            LiveEvent::Result("é".to_owned()),
            LiveEvent::Stdout(Bytes::new()),
        ];
        for _ in 0..2 {
            for (number, piece) in pieces.iter().enumerate() {
                spool.push(piece.clone()).await;
                if number == 1 {
                    let first = spool.pop().await.unwrap();
                    assert_eq!(first.as_ref(), Some(&pieces[0]));
                }
            }
            for piece in &pieces[1..] {
                assert_eq!(spool.pop().await.unwrap().as_ref(), Some(piece));
            }
            assert_eq!(spool.pop().await.unwrap(), None);
        }
        assert_eq!(spool.take_missed().bytes, 0);
    }
}
