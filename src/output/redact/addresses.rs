//! Secrets in addresses: `scheme://user:PASSWORD@host` and `scheme://TOKEN@host`.

use super::ahead::{Ahead, Judged, Unknown};
use super::body::is_opaque;
use super::rules::Found;
use super::shapes::Rest;

/// A user and a password in an address are no longer than this.
const USER_INFO: usize = 1_024;

/// The rest of a scheme and its `://`.
fn scheme(ahead: &mut Ahead<'_>) -> Result<bool, Unknown> {
    if ahead.text.get(ahead.at - 1) == Some(&b'/') {
        return Ok(true);
    }
    ahead.take(32, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
    })?;
    for expected in *b"://" {
        if !ahead.skip(|byte| byte == expected)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_user_info(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !matches!(
            byte,
            b'/' | b'?' | b'#' | b'@' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\'
        )
}

/// A password in the address of a database, behind the beginning of its scheme.
pub(super) fn database(mut ahead: Ahead<'_>) -> Judged {
    if !scheme(&mut ahead)? {
        return Ok(None);
    }
    let from = ahead.at;
    let info = ahead.take(USER_INFO, is_user_info)?;
    if ahead.peek()? != Some(b'@') {
        return Ok(None);
    }
    let Some(colon) = info.iter().position(|byte| *byte == b':') else {
        return Ok(None);
    };
    let password = info.get(colon + 1..).unwrap_or_default();
    // What is filled in later is no password.
    let is_filled_in = matches!(
        password.first(),
        None | Some(b'{' | b'$' | b'%' | b'<' | b'[')
    );
    let is_masked = password.iter().all(|byte| matches!(byte, b'*' | b'.'));
    if is_filled_in || is_masked {
        return Ok(None);
    }
    Ok(Some(Found {
        from: from + colon + 1,
        to: ahead.at,
        kind: "password",
        rest: Rest::Nothing,
    }))
}

/// A token in the place of a user, behind the beginning of a scheme.
pub(super) fn address(mut ahead: Ahead<'_>) -> Judged {
    if !scheme(&mut ahead)? {
        return Ok(None);
    }
    let from = ahead.at;
    let info = ahead.take(USER_INFO, |byte| is_user_info(byte) && byte != b':')?;
    if ahead.peek()? != Some(b'@') || info.len() < 8 || !is_opaque(info) {
        return Ok(None);
    }
    Ok(Some(Found {
        from,
        to: ahead.at,
        kind: "url-token",
        rest: Rest::Nothing,
    }))
}
