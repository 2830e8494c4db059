//! Log entries with requests and answers, without secrets.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use super::attempt::Attempt;
use super::limit::{MOST_OF_A_REFUSAL, MOST_OF_AN_OBJECT, is_refusal};
use super::redact;

/// The length in bytes at which bodies are cut.
const LONGEST_BODY: usize = 16 * 1024;

pub(super) fn request(request: &Request<Bytes>, attempt: &Attempt) {
    let first = format!("{} {}", request.method(), request.uri());
    tracing::info!(
        "{}",
        attempt.redact(text(
            first,
            request.headers(),
            request.body(),
            MOST_OF_AN_OBJECT
        ))
    );
}

pub(super) fn answer(answer: &Response<Bytes>, attempt: &Attempt) {
    let first = format!(
        "{} answered {}",
        attempt.call.place(),
        answer.status().as_u16()
    );
    let most = if is_refusal(answer.status()) {
        MOST_OF_A_REFUSAL
    } else {
        MOST_OF_AN_OBJECT
    };
    tracing::info!(
        "{}",
        attempt.redact(text(first, answer.headers(), answer.body(), most))
    );
}

/// Returns the log text. A body longer than `most` is not shown: a body that is cut can no longer be searched for
/// secret fields, and parsing a large one takes many times its length in memory.
fn text(mut text: String, headers: &HeaderMap, body: &Bytes, most: usize) -> String {
    for (name, value) in redact::headers(headers) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{name}: {value}");
    }
    let mut body = if body.len() > most {
        format!("[{} bytes]", body.len())
    } else {
        redact::body(body)
    };
    if body.len() > LONGEST_BODY {
        body.truncate(body.floor_char_boundary(LONGEST_BODY));
        body.push('…');
    }
    text.push('\n');
    text + &body
}
