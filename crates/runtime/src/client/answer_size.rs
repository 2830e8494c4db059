//! Limits on the size of the API server's answers.
//!
//! The client reads a response into memory before decoding it. Without a limit, any server in the API server's place (a
//! proxy, a wrong address, a compromised server) decides how much memory the process needs.

use std::error::Error;
use std::fmt;
use std::future::ready;
use std::io;

use futures::{Stream, StreamExt as _};
use http::{Method, Request, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use kube::client::Body;
use serde_json::json;
use tower::BoxError;

use super::request::{RequestInfo, Verb};

/// Bytes of one page of a list. Pages have 100 objects; 100 Nodes with 50 images each have about 3 MiB, so Nodes five
/// times as large still fit. A larger page is read again with half as many objects. A page is in memory twice while it
/// is decoded, and three kinds may be listed at once: that must fit the 256 MiB of the Pod.
const LIST_PAGE: usize = 16 << 20;
/// Bytes of one object, and of any other answer. kube-apiserver accepts objects of at most 3 MiB in a request and
/// stores
/// 1.5 MiB of etcd's compact form, which is several times as long as JSON at worst.
const OBJECT: usize = 8 << 20;
/// Bytes of one line of a watch, which is one event with one object.
const WATCH_EVENT: usize = OBJECT + (64 << 10);
/// Bytes of an error response, which has one message for people.
const REFUSAL: usize = 64 << 10;
/// Longest path that an error repeats, in bytes: a token for the next page has hundreds of them.
const LONGEST_PATH: usize = 256;

/// Data of a body.
pub(super) type Data = <Body as http_body::Body>::Data;

/// An answer that is larger than the client accepts. The rest of it was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerTooLarge {
    request: RequestLine,
    /// Name of the limited object (a page, an object, a watch event) for the error message.
    what: &'static str,
    /// Bytes that are accepted.
    pub limit: usize,
}

impl fmt::Display for AnswerTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            request,
            what,
            limit,
        } = self;
        write!(
            f,
            "{request}: the API server's response is too large: {what} may have at most {limit} bytes"
        )
    }
}

impl Error for AnswerTooLarge {}

/// Returns `true` if the API server's answer was larger than the client accepts.
#[must_use]
pub fn is_too_large(error: &kube::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.is::<AnswerTooLarge>() {
            return true;
        }
        // The source of an I/O error is the source of what it holds.
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = held
            .map(|held| held as &(dyn Error + 'static))
            .or_else(|| error.source());
    }
    false
}

/// Method and URL of a request, as errors repeat them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestLine {
    method: Method,
    url: String,
}

impl RequestLine {
    pub(super) fn of(request: &Request<Body>, host: &str) -> Self {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let cut = path.floor_char_boundary(LONGEST_PATH);
        let dots = if cut < path.len() { "…" } else { "" };
        Self {
            method: request.method().clone(),
            url: format!("{host}{}{dots}", &path[..cut]),
        }
    }

    fn too_large(&self, (what, limit): Limit) -> AnswerTooLarge {
        AnswerTooLarge {
            request: self.clone(),
            what,
            limit,
        }
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

/// Name of the limited object, and its maximum size in bytes.
type Limit = (&'static str, usize);

fn limit_of(info: &RequestInfo, status: StatusCode) -> Limit {
    match info.verb {
        _ if !status.is_success() => ("an error response", REFUSAL),
        Verb::List | Verb::DeleteCollection => ("a page of a list", LIST_PAGE),
        _ => ("an object", OBJECT),
    }
}

/// Reads an answer to its end.
///
/// A refusal that is too large becomes a short one with the same status, so that callers still act on the status.
///
/// # Errors
/// [`AnswerTooLarge`] as a service error, or the connection's error.
pub(super) async fn read(
    body: Body,
    status: StatusCode,
    info: &RequestInfo,
    request_line: &RequestLine,
) -> Result<Vec<u8>, kube::Error> {
    let limit = limit_of(info, status);
    match read_up_to(body, limit.1).await? {
        Some(bytes) => Ok(bytes),
        None if status.is_success() => Err(kube::Error::Service(Box::new(
            request_line.too_large(limit),
        ))),
        None => {
            let message = format!("HTTP {status}: {}", request_line.too_large(limit));
            let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status.as_u16(), "reason": "", "message": message});
            Ok(refusal.to_string().into_bytes())
        }
    }
}

/// Returns the whole body; `None` if it has more than `limit` bytes.
async fn read_up_to(mut body: Body, limit: usize) -> Result<Option<Vec<u8>>, kube::Error> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(announced);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if data.len() > limit - bytes.len() {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}

/// Returns the body of a watch, which ends with [`AnswerTooLarge`] at a line that is too long.
pub(super) fn limit_lines(
    body: Body,
    request_line: RequestLine,
) -> StreamBody<impl Stream<Item = Result<Frame<Data>, BoxError>>> {
    let mut line = LineLength::default();
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame?;
        match frame.data_ref() {
            Some(data) if !line.fits(data) => Err(request_line
                .too_large(("an event of a watch", WATCH_EVENT))
                .into()),
            _ => Ok(frame),
        }
    });
    // Nothing comes after an error: the connection is given up.
    let until_error = frames.scan(false, |has_failed, frame: Result<_, BoxError>| {
        let is_over = std::mem::replace(has_failed, frame.is_err());
        ready((!is_over).then_some(frame))
    });
    StreamBody::new(until_error)
}

/// Length of the line that is being read.
#[derive(Default)]
struct LineLength(usize);

impl LineLength {
    /// Returns `true` if no line is too long, with what comes next.
    fn fits(&mut self, data: &[u8]) -> bool {
        for (number, part) in data.split(|byte| *byte == b'\n').enumerate() {
            self.0 = if number == 0 {
                self.0 + part.len()
            } else {
                part.len()
            };
            if self.0 > WATCH_EVENT {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
