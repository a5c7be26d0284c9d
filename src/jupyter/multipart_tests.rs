use proptest::prelude::*;

use super::super::signature::{SIGNATURE_SCHEME, SeenDigests};
use super::*;

const LIMITS: MultipartLimits = MultipartLimits {
    header: 100,
    metadata: 100,
    content: 200,
    buffers: 3,
};

fn signer() -> Signer {
    Signer::new(SIGNATURE_SCHEME, b"key").unwrap()
}

fn frames(parts: &[&[u8]]) -> Vec<Bytes> {
    parts.iter().map(|it| Bytes::copy_from_slice(it)).collect()
}

fn decode(frames: Vec<Bytes>) -> Result<Multipart, Unreadable> {
    Multipart::decode(Channel::Shell, frames, &signer(), &LIMITS).map(|(it, _)| it)
}

fn message() -> Multipart {
    Multipart {
        identities: frames(&[b"a", b""]),
        message: RawMessage {
            buffers: frames(&[b"buffer", DELIMITER]),
            ..RawMessage::new(
                Channel::Shell,
                Bytes::from_static(b"{ \"msg_id\": \"1\" }"),
                Bytes::from_static(b"{\"x\":NaN}"),
            )
        },
    }
}

#[test]
fn bytes_are_kept_and_buffers_are_not_signed() {
    let mut sent = message().encode(&signer());
    assert_eq!(decode(sent.clone()), Ok(message()));
    sent[8] = Bytes::from_static(b"another");
    assert_eq!(
        decode(sent).unwrap().message.buffers[0].as_ref(),
        b"another"
    );
}

#[test]
fn each_signed_part_changes_the_signature() {
    for part in 4..8 {
        let mut sent = message().encode(&signer());
        sent[part] = Bytes::from_static(b"{\"forged\":1}");
        assert_eq!(
            decode(sent),
            Err(Unreadable::Signature(SignatureError::Wrong)),
            "{part}"
        );
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let form = |parts: &[&[u8]]| match decode(frames(parts)) {
        Err(Unreadable::Form(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(form(&[]), MultipartError::NoDelimiter { frames: 0 });
    assert_eq!(
        form(&[b"a".as_slice(); 16]),
        MultipartError::NoDelimiter { frames: 16 }
    );
    let many = vec![b"a".as_slice(); 10_000];
    assert!(matches!(
        form(&many),
        MultipartError::Identities {
            identities: 10_000,
            ..
        }
    ));
    let mut far = vec![b"a".as_slice(); 17];
    far.push(DELIMITER);
    assert!(matches!(form(&far), MultipartError::Identities { .. }));
    let sent = message().encode(&signer());
    for cut in 3..8 {
        let parts: Vec<&[u8]> = sent[..cut].iter().map(AsRef::as_ref).collect();
        assert_eq!(form(&parts), MultipartError::TooFew { parts: cut - 3 });
    }
    let long = [b' '; 201];
    let mut wrong = message();
    wrong.message.content = Bytes::copy_from_slice(&long);
    assert!(matches!(
        decode(wrong.encode(&signer())),
        Err(Unreadable::Form(MultipartError::PartTooLong {
            part: "content",
            length: 201,
            ..
        }))
    ));
    let mut wrong = message();
    wrong.message.buffers = frames(&[b"".as_slice(); 4]);
    assert!(matches!(
        decode(wrong.encode(&signer())),
        Err(Unreadable::Form(MultipartError::Buffers { buffers: 4, .. }))
    ));
}

#[test]
fn the_same_message_twice_is_a_replay() {
    let mut seen = SeenDigests::default();
    let mut take = || {
        let sent = message().encode(&signer());
        let (_, digest) = Multipart::decode(Channel::Shell, sent, &signer(), &LIMITS).unwrap();
        seen.enter(digest.unwrap())
    };
    assert_eq!(take(), Ok(()));
    assert_eq!(take(), Err(SignatureError::Replayed));
}

fn part(most: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(
        identities in prop::collection::vec(part(9), 0..=16),
        parts in prop::array::uniform4(part(100)),
        buffers in prop::collection::vec(part(300), 0..=3),
        key in part(5),
    ) {
        prop_assume!(!identities.iter().any(|it| it.as_ref() == DELIMITER));
        let signer = Signer::new(SIGNATURE_SCHEME, &key).unwrap();
        let [header, parent_header, metadata, content] = parts;
        let channel = Channel::Control;
        let message = RawMessage { channel, header, parent_header, metadata, content, buffers };
        let multipart = Multipart { identities, message };
        let sent = multipart.encode(&signer);
        let (read, _) = Multipart::decode(channel, sent, &signer, &LIMITS).unwrap();
        prop_assert_eq!(read, multipart);
    }

    #[test]
    fn no_frames_panic_and_none_get_in_without_the_key(
        frames in prop::collection::vec(
            prop_oneof![Just(Bytes::from_static(DELIMITER)), part(70)],
            0..30,
        )
    ) {
        prop_assert!(decode(frames).is_err());
    }
}
