use proptest::prelude::*;

use super::*;
use crate::jupyter::zmtp_command::{command, pong, ready};

const LIMITS: ZmtpLimits = ZmtpLimits {
    message: 100_000,
    frames: 20,
};

fn read(bytes: &[u8], step: usize) -> (Vec<ZmtpItem>, Option<ZmtpError>) {
    let mut reader = ZmtpReader::new(LIMITS);
    let mut items = Vec::new();
    for chunk in bytes.chunks(step.max(1)) {
        reader.buffer().extend_from_slice(chunk);
        loop {
            match reader.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.next_item(), Err(error.clone()));
                    return (items, Some(error));
                }
            }
        }
    }
    (items, None)
}

fn behind_greeting(bytes: &[u8]) -> (Vec<ZmtpItem>, Option<ZmtpError>) {
    let (mut items, error) = read(&[&greeting(), bytes].concat(), usize::MAX);
    assert_eq!(items.remove(0), ZmtpItem::Greeting);
    (items, error)
}

#[test]
fn the_greeting_is_that_of_zmtp_3_without_security() {
    let bytes = greeting();
    assert_eq!(bytes.len(), 64);
    assert_eq!(&bytes[..16], b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL");
    assert!(bytes[16..].iter().all(|byte| *byte == 0));
    assert_eq!(read(&bytes, 7), (vec![ZmtpItem::Greeting], None));
    let mut newer = bytes.to_vec();
    newer[11] = 1;
    assert_eq!(read(&newer, 64).0, [ZmtpItem::Greeting]);
}

#[test]
fn other_greetings_are_refused_as_soon_as_they_are_seen() {
    let with = |at: usize, value: u8| {
        let mut bytes = greeting().to_vec();
        bytes[at] = value;
        read(&bytes, 1).1
    };
    assert_eq!(read(b"GET / HTTP/1.1", 1).1, Some(ZmtpError::NoGreeting));
    assert_eq!(with(9, 0), Some(ZmtpError::NoGreeting));
    assert_eq!(with(10, 2), Some(ZmtpError::Version { major: 2 }));
    let name = "CULL".to_owned();
    assert_eq!(with(12, b'C'), Some(ZmtpError::Mechanism { name }));
}

#[test]
fn commands_are_read() {
    let identity = Bytes::from_static(b"me");
    let sent = ready("DEALER", &identity);
    assert_eq!(&sent[..8], b"\x04\x2b\x05READY");
    let (items, error) = behind_greeting(&sent);
    let socket_type = "DEALER".to_owned();
    let expected = ZmtpCommand::Ready {
        socket_type,
        identity,
    };
    assert_eq!((items, error), (vec![ZmtpItem::Command(expected)], None));
    for (body, expected) in [
        (&b"\x09SUBSCRIBEab"[..], ZmtpCommand::Subscribe("ab".into())),
        (b"\x06CANCEL", ZmtpCommand::Cancel(Bytes::new())),
        (b"\x04PING\0\x10xy", ZmtpCommand::Ping("xy".into())),
        (b"\x04PONGxy", ZmtpCommand::Pong),
        (b"\x05ERROR\x01a", ZmtpCommand::Error("\x01a".into())),
        (b"\x03NEW...", ZmtpCommand::Unknown),
        (b"\0", ZmtpCommand::Unknown),
    ] {
        assert_eq!(
            behind_greeting(&command(body)).0,
            [ZmtpItem::Command(expected)]
        );
    }
    assert_eq!(&pong(b"xy")[..], b"\x04\x07\x04PONGxy");
}

#[test]
fn what_is_cut_off_or_too_long_is_refused_before_it_takes_room() {
    let identity = [b'x'; 256];
    for (bytes, expected) in [
        (command(b""), ZmtpError::Command),
        (command(b"\x05REA"), ZmtpError::Command),
        (command(b"\x04PING\0"), ZmtpError::Command),
        (command(b"\x05READY\x0bSocket"), ZmtpError::Command),
        (
            command(b"\x05READY\x01a\xff\xff\xff\xff"),
            ZmtpError::Command,
        ),
        (command(b"\x05READY\x01a\0"), ZmtpError::Command),
        (ready("SUB", &identity), ZmtpError::Identity { length: 256 }),
        (Bytes::from_static(b"\x08\0"), ZmtpError::Flags { flags: 8 }),
        (Bytes::from_static(b"\x05\0"), ZmtpError::Flags { flags: 5 }),
        (
            // 2^46 bytes.
            Bytes::from_static(b"\x02\0\0\x40\0\0\0\0\0"),
            ZmtpError::TooLong {
                announced: 1 << 46,
                limit: 100_000,
            },
        ),
        (
            Bytes::from_static(b"\x06\0\0\0\0\0\x01\0\0"),
            ZmtpError::TooLong {
                announced: 1 << 16,
                limit: 8192,
            },
        ),
        (
            Bytes::from_static(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff"),
            ZmtpError::TooLong {
                announced: u64::MAX,
                limit: 100_000,
            },
        ),
        (
            Bytes::from(b"\x01\0".repeat(10_000)),
            ZmtpError::Frames { limit: 20 },
        ),
    ] {
        let (items, error) = behind_greeting(&bytes);
        assert_eq!((items, error), (vec![], Some(expected)));
    }
    // Together they are too long, none is by itself.
    let mut bytes = BytesMut::new();
    for _ in 0..3 {
        put_head(&mut bytes, MORE, 40_000);
        bytes.put_bytes(b'x', 40_000);
    }
    let (_, error) = behind_greeting(&bytes);
    let limit = 20_000;
    assert_eq!(
        error,
        Some(ZmtpError::TooLong {
            announced: 40_000,
            limit
        })
    );
}

#[test]
fn commands_may_come_between_the_frames_of_a_message() {
    let bytes = [&b"\x01\x01a"[..], &command(b"\x04PONG"), b"\0\x01b"].concat();
    let (items, _) = behind_greeting(&bytes);
    assert_eq!(
        items,
        [
            ZmtpItem::Command(ZmtpCommand::Pong),
            ZmtpItem::Message(vec!["a".into(), "b".into()])
        ]
    );
}

fn frame() -> impl Strategy<Value = Bytes> {
    let long = (255..300_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    let longer = (16_380..16_390_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        2 => long,
        1 => longer
    ]
    .prop_map(Bytes::from)
}

proptest! {
    #[test]
    fn what_was_encoded_is_read_however_it_is_cut_up(
        messages in prop::collection::vec(prop::collection::vec(frame(), 1..6), 0..5),
        step in 1..70_000_usize,
    ) {
        let mut bytes = greeting().to_vec();
        for frames in &messages {
            bytes.extend(message(frames).concat());
        }
        let (items, error) = read(&bytes, step);
        let mut expected = vec![ZmtpItem::Greeting];
        expected.extend(messages.into_iter().map(ZmtpItem::Message));
        prop_assert_eq!((items, error), (expected, None));
    }

    #[test]
    fn no_bytes_panic_and_the_cut_does_not_matter(
        bytes in prop::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..300),
        step in 1..50_usize,
    ) {
        let bytes = [&greeting()[..], &bytes].concat();
        prop_assert_eq!(read(&bytes, step), read(&bytes, usize::MAX));
    }
}

#[test]
fn a_message_that_is_too_long_is_let_go_by_without_being_kept() {
    let long = vec![b'x'; 90_000];
    let too_long = [
        Bytes::from_static(b"topic"),
        long.clone().into(),
        long.into(),
    ];
    let next = [Bytes::from_static(b"next")];
    let bytes: Vec<u8> = [greeting()]
        .into_iter()
        .chain(message(&too_long))
        .chain(message(&next))
        .flat_map(|piece| piece.to_vec())
        .collect();
    let read = |most: u64, step: usize| {
        let mut reader = ZmtpReader::passing_over(LIMITS, most);
        let mut items = Vec::new();
        for chunk in bytes.chunks(step) {
            reader.buffer().extend_from_slice(chunk);
            while let Some(item) = reader.next_item()? {
                items.push(item);
            }
            // The first long frame may still have become a message.
            assert!(reader.held() <= 90_000 + step + 100, "{}", reader.held());
        }
        Ok(items)
    };
    for step in [1, 7, 4_096, bytes.len()] {
        let expected = [
            ZmtpItem::Greeting,
            ZmtpItem::PassedOver(180_005),
            ZmtpItem::Message(next.to_vec()),
        ];
        assert_eq!(read(180_005, step), Ok(expected.to_vec()), "{step}");
        let announced = 90_000;
        let limit = 100_000 - 90_005;
        let fault = ZmtpError::TooLong { announced, limit };
        assert_eq!(read(180_004, step), Err(fault), "{step}");
    }
}
