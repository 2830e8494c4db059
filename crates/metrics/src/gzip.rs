//! gzip (RFC 1952) for scrapers that accept it (MET-1).

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use miniz_oxide::deflate::compress_to_vec;

/// Compression level. A scrape is sent once, so speed matters more than size.
const LEVEL: u8 = 1;
/// Header of the gzip format: magic number, deflate, no flags, no time, no hint, unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Returns `true` if the client accepts gzip.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// Compresses a text in the gzip format.
pub(crate) fn compress(text: &[u8]) -> Vec<u8> {
    let mut out = HEAD.to_vec();
    out.extend(compress_to_vec(text, LEVEL));
    out.extend(checksum(text).to_le_bytes());
    // The length modulo 2^32, as the format has it.
    #[allow(clippy::cast_possible_truncation)]
    out.extend((text.len() as u32).to_le_bytes());
    out
}

/// Returns the CRC-32 of these bytes.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

/// Table of the checksum: the contribution of each value of a byte.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut value = 0;
    while value < 256 {
        let (mut sum, mut bit) = (value as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[value] = sum;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        assert_eq!(checksum(b""), 0);
    }

    #[test]
    fn compressed_text_is_read_back() {
        let text = "workqueue_depth{name=\"Nodes\"} 1\n".repeat(1000);
        let packed = compress(text.as_bytes());
        assert!(packed.len() < text.len() / 10, "{}", packed.len());
        let (body, tail) = packed[HEAD.len()..].split_at(packed.len() - HEAD.len() - 8);
        assert_eq!(miniz_oxide::inflate::decompress_to_vec(body).unwrap(), text.as_bytes());
        assert_eq!(tail[..4], checksum(text.as_bytes()).to_le_bytes());
        assert_eq!(tail[4..], 32_000_u32.to_le_bytes());
    }

    #[test]
    fn only_a_client_that_names_gzip_gets_it() {
        let table = [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("identity", false),
            ("", false),
        ];
        for (accepted, expected) in table {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(is_accepted(&headers), expected, "{accepted}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
