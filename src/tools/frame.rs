//! Frames of the tool socket: a length, then one JSON object.

use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest request, in bytes.
const MAX_REQUEST_BYTES: u32 = 64 << 20;
/// The longest reply, in bytes.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Read at a time: memory grows as data arrives.
const STEP_BYTES: usize = 64 << 10;

/// The first frame of a connection.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) hello: u32,
    pub(super) token: String,
}

/// A call.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) cell: u64,
    pub(super) tool: String,
    #[serde(default)]
    pub(super) args: Map<String, Value>,
    #[serde(default)]
    pub(super) cwd: PathBuf,
}

/// One frame.
#[derive(Debug)]
pub(super) enum Frame {
    /// Its bytes.
    Whole(Vec<u8>),
    /// It was too long and was skipped.
    TooLong(u32),
    /// The other end is gone.
    End,
}

/// Reads a frame.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let length = match stream.read_u32_le().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Frame::End),
        Err(error) => return Err(error),
    };
    if length > MAX_REQUEST_BYTES {
        let mut skipped = stream.take(u64::from(length));
        tokio::io::copy(&mut skipped, &mut tokio::io::sink()).await?;
        return Ok(Frame::TooLong(length));
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(length.min(STEP_BYTES));
    let mut rest = stream.take(length as u64);
    while bytes.len() < length {
        if rest.read_buf(&mut bytes).await? == 0 {
            return Ok(Frame::End);
        }
    }
    Ok(Frame::Whole(bytes))
}

/// Writes a reply; one that is too long becomes a failure of that call.
pub(super) async fn reply(
    stream: &mut (impl AsyncWrite + Unpin),
    id: Option<u64>,
    result: &Map<String, Value>,
) -> io::Result<()> {
    #[derive(serde::Serialize)]
    struct Reply<'a> {
        id: Option<u64>,
        result: &'a Map<String, Value>,
    }

    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, &Reply { id, result }).map_err(io::Error::from)?;
    if frame.len() - 4 > MAX_REPLY_BYTES {
        let bytes = frame.len() - 4;
        let mut result: Map<String, Value> = result
            .keys()
            .map(|key| (key.clone(), Value::Null))
            .collect();
        let sentence = format!(
            "the result has {bytes} bytes, the limit is 16 MiB; ask for less (offset, limit)"
        );
        result.insert("error".to_owned(), sentence.into());
        result.insert("error_class".to_owned(), "limit".into());
        frame.truncate(4);
        serde_json::to_writer(
            &mut frame,
            &Reply {
                id,
                result: &result,
            },
        )
        .map_err(io::Error::from)?;
    }
    let length = u32::try_from(frame.len() - 4)
        .unwrap_or(u32::MAX)
        .to_le_bytes();
    if let Some(head) = frame.get_mut(..4) {
        head.copy_from_slice(&length);
    }
    stream.write_all(&frame).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8]) -> Vec<Frame> {
        let mut stream = bytes;
        let mut frames = Vec::new();
        loop {
            match read(&mut stream).await.unwrap() {
                Frame::End => return frames,
                frame => frames.push(frame),
            }
        }
    }

    #[tokio::test]
    async fn frames_are_read_cut_and_skipped() {
        let mut bytes = b"\x02\x00\x00\x00{}".to_vec();
        bytes.extend_from_slice(&(MAX_REQUEST_BYTES + 1).to_le_bytes());
        bytes.resize(bytes.len() + (64 << 20) + 1, b' ');
        bytes.extend_from_slice(b"\x01\x00\x00\x001");
        bytes.extend_from_slice(b"\x09\x00\x00\x00cut");
        let frames = read_all(&bytes).await;
        assert!(matches!(&frames[0], Frame::Whole(bytes) if bytes == b"{}"));
        assert!(matches!(frames[1], Frame::TooLong(67_108_865)));
        assert!(matches!(&frames[2], Frame::Whole(bytes) if bytes == b"1"));
        assert_eq!(frames.len(), 3);
    }

    #[tokio::test]
    async fn a_long_result_becomes_a_failure_with_the_same_keys() {
        let long = Map::from_iter([("content".to_owned(), Value::from("x".repeat(17 << 20)))]);
        let mut written = Vec::new();
        reply(&mut written, Some(7), &long).await.unwrap();
        assert_eq!(
            written[..4],
            u32::try_from(written.len() - 4).unwrap().to_le_bytes()
        );
        let reply: Value = serde_json::from_slice(&written[4..]).unwrap();
        assert_eq!(reply["id"], 7);
        assert_eq!(reply["result"]["content"], Value::Null);
        assert_eq!(reply["result"]["error_class"], "limit");
    }
}
