//! Limits on the size of answers: an answer without an end must not exhaust this process's memory.

use bytes::Bytes;
use http::StatusCode;

/// The maximum size in bytes of a body that is a list, or that holds one.
pub const MOST_OF_A_LIST: usize = 16 << 20;
/// The maximum size in bytes of any other body.
pub const MOST_OF_AN_OBJECT: usize = 1 << 20;
/// The maximum size in bytes of the body of a refusal.
pub const MOST_OF_A_REFUSAL: usize = 64 << 10;

/// The maximum number of objects, and of values, in a body that is longer than [`MOST_OF_AN_OBJECT`]. In memory, an
/// object takes half a KiB; in JSON, seven bytes.
const MOST_OBJECTS: usize = 250_000;
const MOST_VALUES: usize = 2_000_000;

/// Returns the limit that the number of objects or values in a body exceeds, if it does. Braces and commas in strings
/// count, too.
pub(super) fn density(body: &[u8]) -> Option<String> {
    if body.len() <= MOST_OF_AN_OBJECT {
        return None;
    }
    let count = |wanted: &[u8]| body.iter().filter(|byte| wanted.contains(byte)).count();
    let objects = count(b"{");
    let values = count(b",[{");
    match (objects > MOST_OBJECTS, values > MOST_VALUES) {
        (true, _) => Some(format!("{MOST_OBJECTS} objects")),
        (_, true) => Some(format!("{MOST_VALUES} values")),
        _ => None,
    }
}

/// The maximum number of bytes that a [`Connector`](super::Connector) reads of an answer's body, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimit {
    is_list: bool,
}

impl BodyLimit {
    pub(super) fn of_list(is_list: bool) -> Self {
        Self { is_list }
    }

    /// Returns the maximum size in bytes of the body of an answer with this status.
    #[must_use]
    pub fn bytes(self, status: StatusCode) -> usize {
        match self {
            _ if is_refusal(status) => MOST_OF_A_REFUSAL,
            Self { is_list: true } => MOST_OF_A_LIST,
            Self { is_list: false } => MOST_OF_AN_OBJECT,
        }
    }

    /// Returns the limit and its kind, for people.
    pub(super) fn describe(self, status: StatusCode) -> String {
        let kind = match self {
            _ if is_refusal(status) => "a refusal",
            Self { is_list: true } => "a list",
            Self { is_list: false } => "an answer that is no list",
        };
        let bytes = self.bytes(status);
        let size = if bytes < 1 << 20 {
            format!("{} KiB", bytes >> 10)
        } else {
            format!("{} MiB", bytes >> 20)
        };
        format!("{size}, the limit of {kind}")
    }
}

/// Returns `true` for a status that reports that the request was not carried out. 300 offers several answers, such as
/// versions of an API: it is not a refusal.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    !status.is_success() && status != StatusCode::MULTIPLE_CHOICES
}

/// A reader that collects a body part by part, up to its limit plus one byte: that byte tells the transport that the
/// body was too long, which is an error.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, StatusCode};
/// use provider_kit::transport::{BodyLimit, BodyReader};
///
/// fn read(limit: BodyLimit, status: StatusCode, parts: impl Iterator<Item = Bytes>) -> Bytes {
///     let mut body = BodyReader::new(limit, status);
///     for part in parts {
///         if !body.push(&part) {
///             break;
///         }
///     }
///     body.finish()
/// }
/// ```
#[derive(Debug)]
pub struct BodyReader {
    bytes: Vec<u8>,
    limit: usize,
}

impl BodyReader {
    /// Returns a reader for the body of an answer with this status.
    #[must_use]
    pub fn new(limit: BodyLimit, status: StatusCode) -> Self {
        Self {
            bytes: Vec::new(),
            limit: limit.bytes(status),
        }
    }

    /// Reserves memory for a body with an announced length, up to the limit.
    pub fn expect(&mut self, length: u64) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.bytes.reserve_exact(length.min(self.limit + 1));
    }

    /// Adds the next part. Returns `false` once the body is longer than its limit: then stop reading.
    #[must_use]
    pub fn push(&mut self, part: &[u8]) -> bool {
        let most = self.limit + 1;
        let part = &part[..part.len().min(most - self.bytes.len())];
        let length = self.bytes.len() + part.len();
        if length > self.bytes.capacity() {
            // Doubled as usual, but never beyond the limit.
            let capacity = (self.bytes.capacity() * 2).clamp(length, most);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(part);
        self.bytes.len() <= self.limit
    }

    /// Returns the body, or its beginning if it was too long.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_depends_on_what_the_answer_is() {
        let list = BodyLimit::of_list(true);
        let object = BodyLimit::of_list(false);
        let table = [
            (list, 200, 16 << 20, "16 MiB, the limit of a list"),
            (list, 300, 16 << 20, "16 MiB, the limit of a list"),
            (list, 404, 64 << 10, "64 KiB, the limit of a refusal"),
            (
                object,
                201,
                1 << 20,
                "1 MiB, the limit of an answer that is no list",
            ),
            (object, 302, 64 << 10, "64 KiB, the limit of a refusal"),
            (object, 500, 64 << 10, "64 KiB, the limit of a refusal"),
        ];
        for (limit, status, bytes, text) in table {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                (limit.bytes(status), &*limit.describe(status)),
                (bytes, text),
                "{status}"
            );
        }
    }

    #[test]
    fn a_body_is_read_up_to_its_limit_and_no_memory_is_reserved_beyond() {
        let limit = BodyLimit::of_list(false);
        let part = vec![b'x'; 100_000];
        let mut body = BodyReader::new(limit, StatusCode::OK);
        body.expect(u64::MAX);
        assert!(body.bytes.capacity() <= MOST_OF_AN_OBJECT + 1);
        let mut pushed = 1;
        while body.push(&part) {
            pushed += 1;
            assert!(body.bytes.capacity() <= MOST_OF_AN_OBJECT + 1);
        }
        assert_eq!((pushed, body.finish().len()), (11, MOST_OF_AN_OBJECT + 1));
    }

    #[test]
    fn a_body_that_is_many_times_as_large_in_memory_is_not_read() {
        let list = |item: &str| {
            format!(
                "[{}]",
                [item]
                    .repeat(MOST_OF_A_LIST / (item.len() + 1) - 1)
                    .join(",")
            )
        };
        assert_eq!(
            density(list("{}").as_bytes()).as_deref(),
            Some("250000 objects")
        );
        assert_eq!(
            density(list("0").as_bytes()).as_deref(),
            Some("2000000 values")
        );
        let member = r#"{"id":"448e3cfe-6e46-4f61-bb4d-000000000001","name":"worker-00001","address":"10.6.0.1","port":80}"#;
        assert_eq!(density(list(member).as_bytes()), None);
        assert_eq!(density(&vec![b'{'; MOST_OF_AN_OBJECT]), None);
    }

    #[test]
    fn a_body_of_just_the_limit_is_whole() {
        let mut body = BodyReader::new(BodyLimit::of_list(false), StatusCode::NOT_FOUND);
        assert!(body.push(&[b'x'; MOST_OF_A_REFUSAL]));
        assert!(!body.push(b"x"));
    }
}
