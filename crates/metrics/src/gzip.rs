//! gzip (RFC 1952) for scrapers that accept it (MET-1).

use std::io::Read as _;

use flate2::Compression;
use flate2::bufread::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Returns `true` if the client accepts gzip.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let lists = headers
        .get_all(ACCEPT_ENCODING)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight
            .trim()
            .strip_prefix("q=")
            .is_some_and(|q| q.trim().parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// Compresses a response body in the gzip format. A scrape is sent once, so speed matters more than size.
pub(crate) fn compress(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // Reading from memory cannot fail.
    _ = GzEncoder::new(body, Compression::fast()).read_to_end(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn compressed_text_is_smaller_and_read_back() {
        let text = "workqueue_depth{name=\"Nodes\"} 1\n".repeat(1000);
        let packed = compress(text.as_bytes());
        assert!(packed.len() < text.len() / 10, "{}", packed.len());
        let mut read = String::new();
        flate2::bufread::GzDecoder::new(&*packed)
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, text);
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
            let headers =
                HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(is_accepted(&headers), expected, "{accepted}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
