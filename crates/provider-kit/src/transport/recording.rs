//! Exchanges with a real cloud, kept for tests: [`Recorder`] writes them, [`Replay`] answers from them.
//!
//! A recording has one line of JSON for each exchange, without credentials and without the values of fields whose name
//! says that they are secret:
//!
//! ```json
//! {"method":"GET","uri":"/v1/servers?page=1","body":"","status":200,"headers":{"ratelimit-remaining":"3599"},"answer":"{}"}
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cloud_provider::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use serde::{Deserialize, Serialize};

use super::redact;
use super::{BodyLimit, Leaf, NoAnswer};

/// One exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Of the request.
    pub method: String,
    /// Path and query of the request.
    pub uri: String,
    /// Of the request.
    pub body: String,
    /// Of the answer.
    pub status: u16,
    /// Of the answer.
    pub headers: BTreeMap<String, String>,
    /// The answer's body.
    pub answer: String,
}

impl Exchange {
    fn asks(&self, request: &Request<Bytes>) -> bool {
        let same = self.method == request.method().as_str() && self.uri == uri(request);
        same && self.body == redact::body(request.body())
    }

    fn asked(&self) -> String {
        format!("{} {} {}", self.method, self.uri, self.body)
    }

    fn to_answer(&self) -> Result<Response<Bytes>, NoAnswer> {
        let answer = Response::builder().status(self.status);
        let answer = self.headers.iter().fold(answer, |answer, (name, value)| answer.header(name, value));
        answer.body(self.answer.clone().into()).map_err(NoAnswer::new)
    }
}

/// Without scheme and host: those of a test are others.
fn uri(request: &Request<Bytes>) -> String {
    request.uri().path_and_query().map_or_else(String::new, ToString::to_string)
}

/// A leaf that writes down what another carries. Exchanges without an answer are not written.
///
/// [`Builder::record`](super::Builder::record) puts it before the network.
pub struct Recorder {
    leaf: Box<dyn Leaf>,
    file: Arc<Mutex<std::fs::File>>,
}

impl Recorder {
    /// Adds to `path`, which is made if it does not exist.
    ///
    /// # Errors
    /// *Invalid* if the file cannot be opened for writing.
    pub fn new(leaf: Box<dyn Leaf>, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = std::fs::File::options().create(true).append(true).open(path);
        let file = file.map_err(|err| Error::invalid(format!("cannot record to {}: {err}", path.display())))?;
        Ok(Self { leaf, file: Arc::new(Mutex::new(file)) })
    }
}

impl Leaf for Recorder {
    fn carry(
        &self,
        request: Request<Bytes>,
        limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        let file = Arc::clone(&self.file);
        let (method, uri, body) = (request.method().to_string(), uri(&request), redact::body(request.body()));
        let carried = self.leaf.carry(request, limit);
        async move {
            let answer = carried.await?;
            let headers = redact::headers(answer.headers()).map(|(name, value)| (name.to_owned(), value.to_owned()));
            let headers = headers.filter(|(name, _)| !FRAMING.contains(&name.as_str())).collect();
            let status = answer.status().as_u16();
            let exchange = Exchange { method, uri, body, status, headers, answer: redact::body(answer.body()) };
            let line = serde_json::to_string(&exchange).map_err(NoAnswer::new)?;
            let written = writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
            written.map_err(|err| NoAnswer::new(format!("the recording cannot be written: {err}")))?;
            Ok(answer)
        }
        .boxed()
    }
}

/// Headers that are about the connection and not about the answer.
const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "connection", "keep-alive"];

/// A leaf that answers from a recording. Each exchange is used once. Clones share what was used.
///
/// ```no_run
/// use provider_kit::transport::Transport;
/// use provider_kit::transport::recording::Replay;
///
/// # fn main() -> cloud_provider::Result<()> {
/// let replay = Replay::in_order("tests/recordings/create.jsonl")?;
/// let cloud = Transport::builder("https://api.example.com").leaf(replay.clone()).build()?;
/// // … use it …
/// assert_eq!(replay.unused(), [""; 0]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Replay(Arc<State>);

struct State {
    in_order: bool,
    left: Mutex<Vec<Exchange>>,
}

impl Replay {
    /// Expects the requests in the order of the recording.
    ///
    /// # Errors
    /// *Invalid* if the file cannot be read, or is no recording.
    pub fn in_order(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(true, read(path.as_ref())?))
    }

    /// Expects the requests in any order, as where several are under way at the same time.
    ///
    /// # Errors
    /// *Invalid* if the file cannot be read, or is no recording.
    pub fn in_any_order(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::of(false, read(path.as_ref())?))
    }

    fn of(in_order: bool, exchanges: Vec<Exchange>) -> Self {
        Self(Arc::new(State { in_order, left: Mutex::new(exchanges) }))
    }

    /// The requests that were recorded and did not come.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        self.left().iter().map(Exchange::asked).collect()
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Vec<Exchange>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, NoAnswer> {
        let mut left = self.left();
        let expected = if self.0.in_order { left.len().min(1) } else { left.len() };
        if let Some(place) = left[..expected].iter().position(|exchange| exchange.asks(request)) {
            return left.remove(place).to_answer();
        }
        let expected = left[..expected].iter().map(Exchange::asked).collect::<Vec<_>>();
        let expected = if expected.is_empty() { "nothing more".to_owned() } else { expected.join(" or ") };
        let came = format!("{} {} {}", request.method(), uri(request), redact::body(request.body()));
        Err(NoAnswer::new(format!("not in the recording: {}; expected: {expected}", came.trim_end())))
    }
}

fn read(path: &Path) -> Result<Vec<Exchange>> {
    let text = std::fs::read_to_string(path)
        .map_err(|err| Error::invalid(format!("cannot read the recording {}: {err}", path.display())))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let place = || format!("{}, line {}", path.display(), number + 1);
            serde_json::from_str(line).map_err(|err| Error::invalid(format!("{}: no exchange: {err}", place())))
        })
        .collect()
}

impl Leaf for Replay {
    fn carry(
        &self,
        request: Request<Bytes>,
        _limit: BodyLimit,
    ) -> BoxFuture<'static, Result<Response<Bytes>, NoAnswer>> {
        std::future::ready(self.answer(&request)).boxed()
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("unused", &self.left().len()).finish_non_exhaustive()
    }
}
