//! Bytes that are mostly text, as text: what is not UTF-8 becomes visible.

use std::borrow::Cow;

/// The bytes as text; those that are not UTF-8 become `\xNN`.
pub fn visible(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(text)
}

/// The bytes that [`visible`] made a text of. A text that has such signs of its own,
/// which can stand for no bytes that are not UTF-8, is what it is.
pub fn bytes_of_visible(text: &str) -> Cow<'_, [u8]> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        let number = behind.get(..2);
        match number.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte >= 0x80 => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.extend_from_slice(b"\\x");
                rest = behind;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    match visible(&bytes) == text && bytes != text.as_bytes() {
        true => Cow::Owned(bytes),
        false => Cow::Borrowed(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes_of_visible, visible};

    #[test]
    fn bytes_become_text_and_bytes_again() {
        for (bytes, text) in [
            (&b"/bin/bad\xff"[..], "/bin/bad\\xff"),
            (b"\xe4\xf6/\xc3\xa4", "\\xe4\\xf6/\u{e4}"),
            (b"/plain", "/plain"),
            (b"", ""),
            (b"/a\\x41\\xzz\\x", "/a\\x41\\xzz\\x"),
            (b"a\xff\\x4", "a\\xff\\x4"),
        ] {
            assert_eq!(visible(bytes), text);
            assert_eq!(bytes_of_visible(text), bytes, "{text}");
        }
        // It would be another name: these bytes are UTF-8.
        assert_eq!(&*bytes_of_visible("\\xc3\\xa4"), b"\\xc3\\xa4");
    }
}
