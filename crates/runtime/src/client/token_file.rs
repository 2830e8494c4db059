//! A token in a file that another program replaces, as that of a Pod's service account.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::service_fn;

use super::credential::token;

/// The file is read again so often; kubelet replaces a token long before it ends.
const PERIOD: Duration = Duration::from_secs(50);

struct TokenFile {
    path: PathBuf,
    known: Mutex<Known>,
}

struct Known {
    header: HeaderValue,
    read: Instant,
    /// Error of the last read, logged once.
    failure: Option<String>,
}

/// Returns a client over `bare`, which has no credential, that sends the token in the file. A new token is used within
/// a minute; while the file is invalid, the last token is.
///
/// # Errors
/// Why there is no token.
pub(super) fn over(bare: &Client, path: PathBuf) -> Result<Client, String> {
    let known = Known {
        header: read(&path)?,
        read: Instant::now(),
        failure: None,
    };
    let file = std::sync::Arc::new(TokenFile {
        path,
        known: Mutex::new(known),
    });
    let below = bare.clone();
    let service = service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, file.header());
        let below = below.clone();
        async move { below.send(request).await }
    });
    Ok(Client::new(service, bare.default_namespace()))
}

impl TokenFile {
    fn header(&self) -> HeaderValue {
        let mut known = self.known.lock();
        if known.read.elapsed() >= PERIOD {
            known.read = Instant::now();
            match read(&self.path) {
                Ok(header) => (known.header, known.failure) = (header, None),
                Err(problem) if known.failure.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    tracing::warn!(
                        problem,
                        "the Pod's token cannot be used, keeping the previous one"
                    );
                    known.failure = Some(problem);
                }
            }
        }
        known.header.clone()
    }
}

fn read(path: &Path) -> Result<HeaderValue, String> {
    let failed = |problem: String| format!("the token file {}: {problem}", path.display());
    let text = cloud_provider::files::read_to_string(path)
        .map_err(|error: io::Error| failed(error.to_string()))?;
    let header = token(&text).map_err(failed)?;
    let mut header = HeaderValue::try_from(format!("Bearer {header}"))
        .map_err(|error| failed(error.to_string()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn the_token_is_trimmed_followed_and_kept_while_the_file_is_of_no_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        let sent = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&sent);
        let server = service_fn(move |request: Request<Body>| {
            *seen.lock() = request.headers()[AUTHORIZATION]
                .to_str()
                .unwrap()
                .to_owned();
            ready(Ok::<_, std::convert::Infallible>(http::Response::new(
                Body::empty(),
            )))
        });
        let bare = Client::new(server, "default");
        write("fi\nrst");
        let problem = over(&bare, file.path().to_owned()).map(|_| ()).unwrap_err();
        assert!(
            problem.ends_with("the token has more than one line") && !problem.contains("rst"),
            "{problem}"
        );
        write("first\n");
        let client = over(&bare, file.path().to_owned()).unwrap();
        for (text, after, expected) in [
            ("first\n", 0, "first"),
            ("second\n", 10, "first"),
            ("second\n", 60, "second"),
            ("", 60, "second"),
            ("a\nb", 60, "second"),
            (" third\r\n", 60, "third"),
        ] {
            write(text);
            tokio::time::advance(Duration::from_secs(after)).await;
            client.send(Request::new(Body::empty())).await.unwrap();
            assert_eq!(
                *sent.lock(),
                format!("Bearer {expected}"),
                "{text:?} after {after} s"
            );
        }
    }
}
