//! What the fuzz target `zmq_wire` does with its input.

use bytes::Bytes;

use super::message::Channel;
use super::multipart::{Multipart, MultipartLimits};
use super::signature::{SIGNATURE_SCHEME, Signer};
use super::zmtp::{self, ZmtpItem, ZmtpLimits, ZmtpReader};
use super::zmtp_error::ZmtpError;
use super::{Connection, Kernelspec, kernelspec_name, substitute};

/// Limits that a short input can reach.
const NARROW: ZmtpLimits = ZmtpLimits {
    message: 512,
    frames: 8,
};

/// Reads the bytes as a connection of ZeroMQ, with and without a greeting before them, the messages
/// in it as Jupyter's, and the bytes as the files that lead to kernels.
///
/// # Panics
///
/// If the result depends on how the bytes are cut up, if a message that was read is written as
/// something that reads as another, or if one gets in without the key.
pub fn exercise_wire(data: &[u8]) {
    let keyed = Signer::new(SIGNATURE_SCHEME, b"key").ok();
    let open = Signer::new(SIGNATURE_SCHEME, b"").ok();
    for before in [&zmtp::greeting()[..], b""] {
        let bytes = [before, data].concat();
        let (items, fault) = read(&bytes, usize::MAX);
        for step in [1, 3, 64] {
            assert!(
                read(&bytes, step) == (items.clone(), fault.clone()),
                "in steps of {step}"
            );
        }
        for item in items {
            let ZmtpItem::Message(frames) = item else {
                continue;
            };
            let again = [&zmtp::greeting()[..], &zmtp::message(&frames).concat()].concat();
            assert!(
                read(&again, 64).0.last() == Some(&ZmtpItem::Message(frames.clone())),
                "a message that reads as another"
            );
            message(&frames, keyed.as_ref(), open.as_ref());
        }
    }
    // Whatever comes of it is right; it only has to come.
    drop(Connection::parse(data));
    drop(Kernelspec::parse(data));
    if let Ok(text) = std::str::from_utf8(data) {
        drop(kernelspec_name(text));
        drop(substitute(text, |_| Some("value")));
    }
}

fn message(frames: &[Bytes], keyed: Option<&Signer>, open: Option<&Signer>) {
    let limits = MultipartLimits::from_front_end();
    let decode = |signer: Option<&Signer>| {
        let decoded = Multipart::decode(Channel::Shell, frames.to_vec(), signer?, &limits);
        decoded.ok().map(|(multipart, _)| multipart)
    };
    assert!(decode(keyed).is_none(), "a message without the key");
    if let (Some(multipart), Some(signer)) = (decode(open), open) {
        let again = multipart.encode(signer);
        let again = Multipart::decode(Channel::Shell, again, signer, &limits);
        assert!(
            again.is_ok_and(|(again, _)| again == multipart),
            "a message that reads as another"
        );
    }
}

fn read(bytes: &[u8], step: usize) -> (Vec<ZmtpItem>, Option<ZmtpError>) {
    let mut reader = ZmtpReader::new(NARROW);
    let mut items = Vec::new();
    for chunk in bytes.chunks(step) {
        reader.buffer().extend_from_slice(chunk);
        loop {
            match reader.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(fault) => return (items, Some(fault)),
            }
        }
    }
    (items, None)
}

#[cfg(test)]
mod tests {
    use super::super::zmtp::{message, ready};
    use super::*;

    #[test]
    fn every_seed_of_the_wire_runs() {
        // The published package leaves the fuzz folder out.
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/zmq_wire");
        let Ok(seeds) = std::fs::read_dir(folder) else {
            return;
        };
        let seeds: Vec<_> = seeds.map(|seed| seed.unwrap().path()).collect();
        assert!(seeds.len() >= 30);
        let mut fates = [0; 3];
        for seed in seeds {
            let data = std::fs::read(&seed).unwrap();
            exercise_wire(&data);
            let (items, fault) = read(&[&zmtp::greeting()[..], &data].concat(), 64);
            let fate = if fault.is_some() {
                0
            } else {
                1 + usize::from(items.iter().any(|it| matches!(it, ZmtpItem::Message(_))))
            };
            fates[fate] += 1;
        }
        // They lead to faults, and to messages, and to neither.
        assert!(fates.iter().all(|count| *count >= 5), "{fates:?}");
    }

    #[test]
    fn seeds_of_every_kind_are_read() {
        let signer = Signer::new(SIGNATURE_SCHEME, b"key").unwrap();
        let raw = super::super::RawMessage::new(
            Channel::Shell,
            Bytes::from_static(br#"{"msg_id":"1","msg_type":"x"}"#),
            Bytes::from_static(b"{}"),
        );
        let multipart = Multipart {
            identities: vec![Bytes::from_static(b"id")],
            message: raw,
        };
        // Signed with another key: it does not get in.
        let other = Signer::new(SIGNATURE_SCHEME, b"other").unwrap();
        let forged = message(&multipart.encode(&other)).concat();
        for seed in [
            b"".to_vec(),
            ready("DEALER", b"id").to_vec(),
            [&ready("SUB", b"")[..], b"\0\x01\x01"].concat(),
            forged,
            b"\x02\0\0\x40\0\0\0\0\0".to_vec(),
            b"\x01\0".repeat(20),
            br#"{"argv":["a"],"env":{"A":"${B}"}}"#.to_vec(),
        ] {
            exercise_wire(&seed);
        }
        drop(signer);
    }
}
