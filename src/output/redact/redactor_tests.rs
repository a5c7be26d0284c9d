use proptest::prelude::*;

use super::super::Hidden;
use super::*;

fn rules() -> Rules {
    let variables = [
        ("A_TOKEN", "hunter2-hunter2"),
        ("B_SECRET", "two words\nand 1 line"),
        ("C_KEY", "hunter2-hunter2-and-more"),
    ];
    Rules::new([Hidden::of([7; 16], variables)])
}

fn masked(text: &str) -> String {
    Redactor::once(&rules(), text).0
}

/// Cut into pieces of so many bytes.
fn in_pieces(text: &[u8], sizes: &[usize]) -> (Vec<u8>, u64) {
    let mut redactor = Redactor::new(rules());
    let mut masked = Vec::new();
    let mut given = 0;
    let mut told = 0;
    let mut tell = |edit: Edit<'_>| match edit {
        Edit::Keep(bytes) => {
            told += bytes.len();
            masked.extend_from_slice(bytes);
        }
        Edit::Mask { bytes, begins } => {
            told += bytes;
            masked.extend(begins.map(marker).unwrap_or_default().into_bytes());
        }
    };
    let mut sizes = sizes.iter().cycle();
    while given < text.len() {
        let size = (*sizes.next().unwrap()).min(text.len() - given);
        redactor.push(&text[given..given + size], &mut tell);
        given += size;
    }
    redactor.finish(&mut tell);
    assert_eq!(told, text.len(), "each byte is accounted for");
    (masked, redactor.count())
}

const GITHUB: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fw";
/// The beginning of the block below.
const BEGUN: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq98F9Q\n";
const PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq98F9Q\nabcDEF+/=\n-----END RSA PRIVATE KEY-----";

#[test]
fn secrets_are_masked() {
    let key = "x".repeat(40);
    for (given, right) in [
        (GITHUB.to_owned(), "[redacted:github-token]"),
        (format!("a {GITHUB}, b"), "a [redacted:github-token], b"),
        (format!("\\n{GITHUB}\\n"), "\\n[redacted:github-token]\\n"),
        ("github_pat_11ABC_defGHI".into(), "[redacted:github-token]"),
        (
            "glpat-abcdefghij1234567890".into(),
            "[redacted:gitlab-token]",
        ),
        ("sk-abcdefghij1234567890".into(), "[redacted:api-key]"),
        (
            "sk-proj-aB3dE5gH7jK9mN1pQ3sT-x_y".into(),
            "[redacted:api-key]",
        ),
        (
            "key: AKIAIOSFODNN7EXAMPLE.".into(),
            "key: [redacted:aws-key].",
        ),
        ("xoxb-123456789012-abcdef".into(), "[redacted:slack-token]"),
        (
            "AIzaSyA1234567890abcdefghijklmnopqrstuv".into(),
            "[redacted:api-key]",
        ),
        (format!("t={JWT};"), "t=[redacted:jwt];"),
        (format!("{JWT}."), "[redacted:jwt]."),
        (
            format!("a\n{PEM}\nb"),
            "a\n-----BEGIN RSA PRIVATE KEY-----\n[redacted:private-key]\nb",
        ),
        (
            format!("'{}'", PEM.replace('\n', "\\n")),
            "'-----BEGIN RSA PRIVATE KEY-----\\n[redacted:private-key]'",
        ),
        (
            "Authorization: Bearer abc123def456\r\n".into(),
            "Authorization: Bearer [redacted:authorization]\r\n",
        ),
        (
            "{'authorization': 'Basic dXNlcjpwYXNz'}".into(),
            "{'authorization': 'Basic [redacted:authorization]'}",
        ),
        (
            "X-Api-Key: 0123456789abcdef".into(),
            "X-Api-Key: [redacted:authorization]",
        ),
        (
            format!("GITHUB_TOKEN={key}"),
            "GITHUB_TOKEN=[redacted:credential]",
        ),
        (
            "GEMINI_API_KEY=AQ.Ab8RN6JXyz012".into(),
            "GEMINI_API_KEY=[redacted:credential]",
        ),
        (
            "export DB_PASSWORD='Hunter2!'".into(),
            "export DB_PASSWORD='Hunter2!'",
        ),
        (
            "DB_PASSWORD = \"Tr0ub4dor\"".into(),
            "DB_PASSWORD = \"[redacted:credential]\"",
        ),
        (
            "postgresql+psycopg2://me:s3cret@db:5432/x".into(),
            "postgresql+psycopg2://me:[redacted:password]@db:5432/x",
        ),
        (
            "redis://:pa%20ss@h".into(),
            "redis://:[redacted:password]@h",
        ),
        (
            "https://abc123def456@github.com/x".into(),
            "https://[redacted:url-token]@github.com/x",
        ),
        (
            "bot123456789:AAF1abcdefghijklmnopqrstuvwxyz_0123".into(),
            "bot123456789:[redacted:telegram-token]",
        ),
        ("v=hunter2-hunter2!".into(), "v=[redacted:environment]!"),
        ("hunter2-hunter2-and-more".into(), "[redacted:environment]"),
        ("two words\nand 1 line".into(), "[redacted:environment]"),
        (
            "'two words\\nand 1 line'".into(),
            "'[redacted:environment]'",
        ),
        ("aHVudGVyMi1odW50ZXIy==".into(), "[redacted:environment]=="),
        // A known value is masked whole where a shape would end in it.
        (
            "A_TOKEN=xyz0123456789two words\nand 1 line.".into(),
            "A_TOKEN=xyz0123456789[redacted:environment].",
        ),
    ] {
        let (got, count) = Redactor::once(&rules(), &given);
        assert_eq!(got, right, "{given}");
        assert_eq!(count, u64::from(given != right));
    }
}

#[test]
fn code_and_data_stay() {
    for text in [
        "MAX_TOKENS = 100",
        "MAX_TOKENS=100000000000000000000000000",
        "token = get_token()",
        "API_KEY = get_key_from_the_vault1234567()",
        "API_KEY=os.environ['A_KEY']",
        "TOKEN=${{ secrets.GITHUB_TOKEN }}",
        "TOKEN=$GITHUB_TOKEN",
        "TOKENIZER=bert0123456789base",
        "PRIMARY_KEY=customer_order_identifier_2024",
        "monKEY=abc123def456",
        "f'Authorization: Bearer {key}'",
        "Authorization: Bearer $TOKEN",
        "'Authorization': auth_header,",
        "authorization: getAuthorization1234()",
        "the apikey: see below",
        "<div class=\"sk-toggleable__content sk-estimator-doc-link\">",
        "sk-learn-contrib task-123456789012345",
        "hf_hub_download hf_transformersmodel",
        "npm_config_registry am_i_right",
        "eyJhbGciOiJIUzI1NiJ9",
        "postgres://user:{password}@host/db",
        "postgres://host:5432/db postgres://user@host",
        "https://example.com/a@b?c=d http://user:pw@host",
        "if line == '-----BEGIN PRIVATE KEY-----':",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQ\n-----END PUBLIC KEY-----",
        "12:34:56 1234567:AAx",
        "hunter2 hunter2-hunter",
        "550e8400-e29b-41d4-a716-446655440000",
        "d41d8cd98f00b204e9800998ecf8427e  file",
        "é漢😀",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn what_cannot_be_a_secret_is_not_held_back() {
    let mut redactor = Redactor::new(rules());
    for text in [
        "Loading file",
        "OK",
        "x = 1",
        "Password:",
        "12:30",
        " 5 %\r",
        "a -",
        "monkey",
    ] {
        let mut told = String::new();
        redactor.push(text.as_bytes(), &mut |edit| match edit {
            Edit::Keep(bytes) => told.push_str(std::str::from_utf8(bytes).unwrap()),
            Edit::Mask { .. } => panic!("{text}"),
        });
        assert_eq!(told, text);
    }
}

#[test]
fn a_block_that_never_ends_does_not_take_all_with_it() {
    let text = format!("{}{}", BEGUN, "A\n".repeat(PEM_BYTES));
    let (got, count) = in_pieces(text.as_bytes(), &[1_000]);
    assert_eq!(count, 1);
    assert_eq!(
        got.len(),
        text.len() - PEM_BYTES + "[redacted:private-key]".len()
    );
}

#[test]
fn little_is_held_whatever_comes() {
    let mut redactor = Redactor::new(rules());
    for text in [
        "eyJ".repeat(100_000),
        "postgres://".repeat(50_000),
        format!("postgres://me:{}", "x".repeat(100_000)),
        BEGUN.repeat(3_000),
        format!("{GITHUB}{}", "a".repeat(1 << 20)),
    ] {
        for chunk in text.as_bytes().chunks(4_096) {
            redactor.push(chunk, &mut |_| ());
            assert!(redactor.text.len() < 16_384, "{}", redactor.text.len());
        }
        redactor.finish(&mut |_| ());
    }
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            GITHUB, JWT, PEM, "hunter2-hunter2", "-and-more", "two words\n", "and 1 line",
            "Authorization: ", "Bearer ", "abc123def456", "A_TOKEN=", "TOKEN", "=", "\"", ":",
            "postgres://", "me:pw1", "@", "https://", "sk-", "eyJ", ".", "-----BEGIN ",
            "PRIVATE KEY-----", "\n", "-----END ", "x", "_", "123456789", ":AA", "AKIA",
            "ABCDEFGHIJKLMNOP", "\\n", "é", " ", "ghp_", "0123456789",
        ]).prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        1 => "[A-Za-z0-9_.=-]{0,12}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_stream_that_is_cut_anywhere_is_masked_as_the_whole(
        text in pieces(),
        sizes in prop::collection::vec(1_usize..40, 1..5),
    ) {
        let whole = in_pieces(&text, &[usize::MAX]);
        prop_assert_eq!(in_pieces(&text, &[1]), whole.clone());
        prop_assert_eq!(in_pieces(&text, &sizes), whole);
    }
}
