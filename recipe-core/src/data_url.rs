//! `data:` URLs, the base64 in them, and what is an external URL. Knows no protocol and no pixels.

/// Whether a URL counts as external: only these letters are looked at.
pub(crate) fn starts_with_http(url: &str) -> bool {
    url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"))
}

/// A `data:` URL, read as the fetch standard of WHATWG says.
pub(crate) struct DataUrl<'a> {
    /// The type without parameters, as sent.
    media_type: String,
    base64: bool,
    body: &'a str,
}

impl<'a> DataUrl<'a> {
    /// Reads the head. `None` if it is no data URL.
    pub(crate) fn parse(url: &'a str) -> Option<Self> {
        let url = url.trim_matches(|c: char| c <= ' ');
        let url = url.split_once('#').map_or(url, |(before, _)| before);
        let (head, body) = url.split_once(',')?;
        // URLs are read without their tabs and line breaks.
        let head: String = head.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
        if !head.get(..5)?.eq_ignore_ascii_case("data:") {
            return None;
        }
        let head = head[5..].trim_matches(|c: char| c.is_ascii_whitespace());
        let base64 =
            head.rsplit_once(';').is_some_and(|(_, last)| last.trim_start_matches(' ').eq_ignore_ascii_case("base64"));
        let media_type = head.split(';').next().unwrap_or_default().trim().to_owned();
        Some(Self { media_type, base64, body })
    }

    fn is_one_of(&self, types: &[&str]) -> bool {
        types.iter().any(|known| self.media_type.eq_ignore_ascii_case(known))
    }

    /// Whether the type is that of an image that the models see.
    pub(crate) fn is_image(&self) -> bool {
        self.is_one_of(&["image/png", "image/jpeg", "image/jpg", "image/webp", "image/gif"])
    }

    /// Whether the type is that of a file that is text.
    pub(crate) fn is_readable(&self) -> bool {
        is_readable(&self.media_type)
    }

    /// Whether the body can be decoded.
    pub(crate) fn is_decodable(&self) -> bool {
        self.each_byte(|_| ())
    }

    /// The bytes of the body. `None` where base64 is wanted and is none.
    pub(crate) fn decode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.body.len() / 4 * 3);
        self.each_byte(|byte| bytes.push(byte)).then_some(bytes)
    }

    fn each_byte(&self, mut sink: impl FnMut(u8)) -> bool {
        let mut unescaped = Unescaped(self.body.as_bytes());
        if self.base64 {
            return decode_base64(unescaped, sink);
        }
        unescaped.by_ref().for_each(&mut sink);
        true
    }
}

/// Whether a media type is that of a file that is text.
pub(crate) fn is_readable(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    let known =
        ["application/json", "application/xml", "application/yaml", "application/csv", "application/javascript"];
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || known.contains(&media_type.as_str())
}

/// The bytes of a URL: percent escapes decoded, line breaks and tabs left out.
struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let (&first, rest) = self.0.split_first()?;
            self.0 = rest;
            match (first, rest) {
                (b'\t' | b'\n' | b'\r', _) => {}
                (b'%', [high, low, after @ ..]) => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                        return Some(first);
                    };
                    self.0 = after;
                    return u8::try_from(high * 16 + low).ok();
                }
                _ => return Some(first),
            }
        }
    }
}

/// The bytes of base64 text, read as a data URL's. `None` where it is none.
pub(crate) fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    decode_base64(text.bytes(), |byte| bytes.push(byte)).then_some(bytes)
}

/// The value of a letter of standard base64.
pub(crate) fn base64_digit(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Forgiving base64: white space is skipped, padding is optional, unused bits may be set.
fn decode_base64(text: impl Iterator<Item = u8>, mut sink: impl FnMut(u8)) -> bool {
    let (mut bits, mut letters, mut padding) = (0u32, 0usize, 0usize);
    for byte in text.filter(|byte| !byte.is_ascii_whitespace()) {
        if byte == b'=' {
            padding += 1;
            continue;
        }
        let Some(digit) = base64_digit(byte).filter(|_| padding == 0) else {
            return false;
        };
        bits = bits << 6 | u32::from(digit);
        letters += 1;
        if letters % 4 == 0 {
            bits.to_be_bytes()[1..].iter().for_each(|&byte| sink(byte));
        }
    }
    match (letters % 4, padding) {
        (0, 0) => {}
        (2, 0 | 2) => sink((bits >> 4) as u8),
        (3, 0 | 1) => {
            sink((bits >> 10) as u8);
            sink((bits >> 2) as u8);
        }
        _ => return false,
    }
    true
}
