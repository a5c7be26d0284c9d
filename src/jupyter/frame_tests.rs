use super::*;

fn message() -> RawMessage {
    RawMessage {
        channel: Channel::Shell,
        header: Bytes::from_static(b"{\"msg_id\":\"1\",\"msg_type\":\"x\"}"),
        parent_header: Bytes::from_static(b"{}"),
        metadata: Bytes::from_static(b"{}"),
        content: Bytes::from_static(b"{\"a\":1}"),
        buffers: vec![
            Bytes::from_static(b"\x00\xff"),
            Bytes::new(),
            Bytes::from_static(b"b"),
        ],
    }
}

/// The body that Jupyter Server's layout gives for these parts, built without `encode`.
fn body(parts: &[&[u8]]) -> Vec<u8> {
    let count = parts.len() + 1;
    let mut offset = 8 * (count + 1);
    let mut body = wide(count).to_le_bytes().to_vec();
    body.extend(wide(offset).to_le_bytes());
    for part in parts {
        offset += part.len();
        body.extend(wide(offset).to_le_bytes());
    }
    for part in parts {
        body.extend(*part);
    }
    body
}

fn decode(body: Vec<u8>) -> Result<RawMessage, FrameError> {
    decode_body(&Bytes::from(body), &Limits::from_kernel())
}

const PLAIN: [&[u8]; 5] = [b"iopub", b"{}", b"{}", b"{}", b"{}"];

/// The plain body with one word of its head (count, offset 0, ...) changed.
fn with_word(index: usize, value: u64) -> Vec<u8> {
    let mut body = body(&PLAIN);
    body[8 * index..8 * (index + 1)].copy_from_slice(&value.to_le_bytes());
    body
}

#[test]
fn encode_writes_the_layout_of_jupyter_server() {
    let message = message();
    let parts: [&[u8]; 8] = [
        b"shell",
        &message.header,
        &message.parent_header,
        &message.metadata,
        &message.content,
        &message.buffers[0],
        &message.buffers[1],
        &message.buffers[2],
    ];
    let body = body(&parts);
    let frame = encode(&message, &Limits::from_kernel()).unwrap();
    assert_eq!(
        &frame[..4],
        &u32::try_from(body.len()).unwrap().to_le_bytes()
    );
    assert_eq!(&frame[4..], &body);
    assert_eq!(decode(body).unwrap(), message);
}

#[test]
fn a_message_without_buffers_has_six_offsets() {
    let message = RawMessage::new(Channel::Iopub, Bytes::from_static(b"{}"), Bytes::new());
    let frame = encode(&message, &Limits::from_kernel()).unwrap();
    assert_eq!(frame[4], 6);
    assert_eq!(frame[12], 56);
    assert_eq!(decode(frame[4..].to_vec()).unwrap(), message);
}

#[test]
fn parts_share_the_body() {
    let body = Bytes::from(body(&PLAIN));
    let message = decode_body(&body, &Limits::from_kernel()).unwrap();
    assert_eq!(message.content.as_ptr(), body[body.len() - 2..].as_ptr());
}

#[test]
fn every_kind_of_bad_offset_is_named() {
    let length = wide(body(&PLAIN).len());
    let count = |count| FrameError::OffsetCount {
        count,
        limit: 1001,
        length,
    };
    let order = |index, found, previous| FrameError::OffsetOrder {
        index,
        found,
        previous,
        length,
    };
    let cases = [
        (0, 0, count(0)),
        (0, 5, count(5)),
        // The table would not fit.
        (0, 9, count(9)),
        (0, 1001, count(1001)),
        (0, 1002, count(1002)),
        // Times eight, these overflow.
        (0, u64::MAX, count(u64::MAX)),
        (0, u64::MAX / 8, count(u64::MAX / 8)),
        (0, 1 << 61, count(1 << 61)),
        // The table would end elsewhere.
        (
            0,
            7,
            FrameError::FirstOffset {
                found: 56,
                expected: 64,
            },
        ),
        (
            1,
            0,
            FrameError::FirstOffset {
                found: 0,
                expected: 56,
            },
        ),
        (
            1,
            57,
            FrameError::FirstOffset {
                found: 57,
                expected: 56,
            },
        ),
        (
            1,
            u64::MAX,
            FrameError::FirstOffset {
                found: u64::MAX,
                expected: 56,
            },
        ),
        (2, 55, order(1, 55, 56)),
        (2, u64::MAX, order(1, u64::MAX, 56)),
        (4, 62, order(3, 62, 63)),
        (4, length + 1, order(3, length + 1, 63)),
        (
            6,
            length - 1,
            FrameError::LastOffset {
                found: length - 1,
                length,
            },
        ),
        (6, length + 1, order(5, length + 1, length - 2)),
    ];
    for (word, value, fault) in cases {
        assert_eq!(
            decode(with_word(word, value)),
            Err(fault),
            "word {word} = {value}"
        );
    }
}

#[test]
fn bytes_after_the_last_offset_are_a_fault() {
    let mut body = body(&PLAIN);
    body.push(b' ');
    let length = wide(body.len());
    assert_eq!(
        decode(body),
        Err(FrameError::LastOffset {
            found: length - 1,
            length
        })
    );
}

#[test]
fn bodies_too_short_for_a_table_are_a_fault() {
    for length in 0..LEAST_BODY {
        let fault = decode(vec![0; length]).unwrap_err();
        assert_eq!(
            fault,
            FrameError::TooShort {
                length: wide(length)
            }
        );
    }
}

#[test]
fn channels_are_known_by_their_exact_names() {
    for channel in Channel::ALL {
        let name = channel.as_str().as_bytes();
        let parts: [&[u8]; 5] = [name, b"{}", b"{}", b"{}", b"{}"];
        assert_eq!(decode(body(&parts)).unwrap().channel, channel);
    }
    for (name, shown) in [
        (&b"Shell"[..], "Shell"),
        (b"", ""),
        (b"shell\0", "shell\0"),
        (b"\xff", "\u{fffd}"),
    ] {
        let parts: [&[u8]; 5] = [name, b"{}", b"{}", b"{}", b"{}"];
        let name = shown.to_owned();
        assert_eq!(
            decode(body(&parts)),
            Err(FrameError::UnknownChannel { name })
        );
    }
    let long = [b'x'; 33];
    let parts: [&[u8]; 5] = [&long, b"{}", b"{}", b"{}", b"{}"];
    assert!(matches!(
        decode(body(&parts)),
        Err(FrameError::PartTooLong { length: 33, .. })
    ));
}

#[test]
fn parts_over_their_limits_are_refused_both_ways() {
    let limits = Limits {
        frame: 1000,
        json: 10,
        buffers: 20,
        parts: 8,
    };
    let within = RawMessage {
        buffers: vec![
            Bytes::from_static(&[0; 10]),
            Bytes::from_static(&[0; 10]),
            Bytes::new(),
        ],
        ..RawMessage::new(
            Channel::Shell,
            Bytes::from_static(b"0123456789"),
            Bytes::new(),
        )
    };
    let frame = encode(&within, &limits).unwrap();
    assert_eq!(
        decode_body(&Bytes::from(frame).slice(4..), &limits).unwrap(),
        within
    );

    let mut long_content = within.clone();
    long_content.content = Bytes::from_static(&[b' '; 11]);
    let mut large_buffers = within.clone();
    large_buffers.buffers[2] = Bytes::from_static(b"x");
    let mut many_parts = within.clone();
    many_parts.buffers.push(Bytes::new());
    let large = Bytes::from_static(&[0; 1000]);
    let too_long = RawMessage {
        buffers: vec![large],
        ..within
    };
    let wider = Limits {
        buffers: 1000,
        ..limits
    };
    let cases = [
        (
            long_content,
            limits,
            FrameError::PartTooLong {
                part: "content",
                length: 11,
                limit: 10,
            },
        ),
        (
            large_buffers,
            limits,
            FrameError::PartTooLong {
                part: "buffers",
                length: 21,
                limit: 20,
            },
        ),
        (
            many_parts,
            limits,
            FrameError::OffsetCount {
                count: 10,
                limit: 9,
                length: 127,
            },
        ),
        (
            too_long,
            wider,
            FrameError::TooLong {
                length: 1083,
                limit: 1000,
            },
        ),
    ];
    for (message, limits, fault) in cases {
        assert_eq!(encode(&message, &limits), Err(fault.clone()));
        let frame = Bytes::from(encode(&message, &Limits::from_kernel()).unwrap());
        assert_eq!(decode_body(&frame.slice(4..), &limits), Err(fault));
    }
}

#[test]
fn a_cell_of_8_mib_of_escapes_goes_out_and_json_of_4_mib_comes_in() {
    let content = Bytes::from(vec![b' '; 48 * MIB]);
    let message = RawMessage::new(Channel::Shell, Bytes::from_static(b"{}"), content);
    assert!(encode(&message, &Limits::to_kernel()).is_ok());
    let mut message = message;
    message.content.truncate(4 * MIB);
    assert!(encode(&message, &Limits::from_kernel()).is_ok());
    message.content = Bytes::from(vec![b' '; 4 * MIB + 1]);
    assert!(encode(&message, &Limits::from_kernel()).is_err());
}

#[test]
fn a_reader_puts_frames_together_from_single_bytes() {
    let message = message();
    let frame = encode(&message, &Limits::from_kernel()).unwrap();
    let mut reader = FrameReader::new(Limits::from_kernel());
    assert!(!reader.is_mid_frame());
    for _ in 0..3 {
        for (index, byte) in frame.iter().enumerate() {
            assert_eq!(reader.next_message(), Ok(None));
            assert_eq!(reader.is_mid_frame(), index > 0);
            reader.feed(&[*byte]);
        }
        assert_eq!(reader.next_message(), Ok(Some(message.clone())));
        assert!(!reader.is_mid_frame());
    }
}

#[test]
fn a_reader_gives_its_first_fault_again() {
    let mut reader = FrameReader::new(Limits::from_kernel());
    reader.feed(&u32::MAX.to_le_bytes());
    let fault = FrameError::TooLong {
        length: u64::from(u32::MAX),
        limit: 68 << 20,
    };
    assert_eq!(reader.next_message(), Err(fault.clone()));
    reader.feed(&encode(&message(), &Limits::from_kernel()).unwrap());
    assert_eq!(reader.next_message(), Err(fault));
    assert!(!reader.is_mid_frame());
}

#[test]
fn an_announced_length_takes_no_memory() {
    let mut reader = FrameReader::new(Limits::from_kernel());
    reader.feed(&(68u32 << 20).to_le_bytes());
    assert_eq!(reader.next_message(), Ok(None));
    assert!(reader.buffer().capacity() <= 2 * READ_CHUNK);
}

#[test]
fn memory_of_a_large_frame_goes_with_its_message() {
    let mut large = message();
    large.content = Bytes::from(vec![b' '; 3 * MIB]);
    let mut reader = FrameReader::new(Limits::from_kernel());
    reader.feed(&encode(&large, &Limits::from_kernel()).unwrap());
    reader.feed(&encode(&message(), &Limits::from_kernel()).unwrap());
    assert_eq!(reader.next_message(), Ok(Some(large)));
    assert_eq!(reader.next_message(), Ok(Some(message())));
    assert!(reader.buffer().capacity() <= 2 * READ_CHUNK);
}

#[test]
fn a_row_of_small_frames_reuses_the_buffer() {
    let frame = encode(&message(), &Limits::from_kernel()).unwrap();
    let mut reader = FrameReader::new(Limits::from_kernel());
    let mut kept = Vec::new();
    for _ in 0..5_000 {
        reader.buffer().extend_from_slice(&frame);
        kept.extend(reader.next_message().unwrap());
    }
    assert_eq!(kept.len(), 5_000);
    assert!(reader.buffer().capacity() <= 4 * READ_CHUNK);
}
