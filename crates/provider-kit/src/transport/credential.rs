//! The token, from the configuration or from a file that may change (P-39).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use cloud_provider::{Error, Result};
use secrecy::{ExposeSecret, SecretString};

/// A bearer token. Its `Debug` does not show it.
///
/// ```
/// use provider_kit::transport::Credential;
///
/// assert_eq!(format!("{:?}", Credential::token("s3cret")), "Credential(token, redacted)");
/// ```
#[derive(Clone)]
pub struct Credential(Arc<Source>);

enum Source {
    None,
    Token(Token),
    File { path: PathBuf, loaded: Mutex<Loaded> },
}

pub(super) type Token = Arc<SecretString>;

struct Loaded {
    token: Token,
    stamp: Option<Stamp>,
    generation: u64,
}

/// What tells that a file has changed, without reading it.
type Stamp = (SystemTime, u64);

impl Credential {
    /// No credential: for services that ask for none.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(Source::None))
    }

    /// This token, for as long as the process lives.
    #[must_use]
    pub fn token(token: impl Into<String>) -> Self {
        Self(Arc::new(Source::Token(Arc::new(SecretString::from(token.into())))))
    }

    /// The token in this file, white space around it aside. The file is read again when it changes, and when the cloud
    /// answers 401; one that is empty or cannot be read then is not taken over, the last good token stays.
    ///
    /// # Errors
    /// *Invalid* if the file cannot be read now, or is empty.
    pub fn file(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let stamp = stamp(&path);
        let loaded = Mutex::new(Loaded { token: read(&path)?, stamp, generation: 1 });
        Ok(Self(Arc::new(Source::File { path, loaded })))
    }

    /// How many tokens there have been: 1 at first, one more with each change. For a metric.
    #[must_use]
    pub fn generation(&self) -> u64 {
        match &*self.0 {
            Source::File { loaded, .. } => lock(loaded).generation,
            Source::None | Source::Token(_) => 1,
        }
    }

    pub(super) fn current(&self) -> Option<Token> {
        match &*self.0 {
            Source::None => None,
            Source::Token(token) => Some(Arc::clone(token)),
            Source::File { path, loaded } => {
                let mut loaded = lock(loaded);
                let now = stamp(path);
                if now.is_some() && now != loaded.stamp {
                    loaded.stamp = now;
                    loaded.take_over(path);
                }
                Some(Arc::clone(&loaded.token))
            }
        }
    }

    /// Reads the file whether or not it looks changed; says whether the token differs from `used`.
    pub(super) fn differs_now(&self, used: Option<&Token>) -> bool {
        let Source::File { path, loaded } = &*self.0 else { return false };
        let mut loaded = lock(loaded);
        loaded.stamp = stamp(path);
        loaded.take_over(path);
        used.is_none_or(|used| used.expose_secret() != loaded.token.expose_secret())
    }
}

impl Loaded {
    fn take_over(&mut self, path: &Path) {
        match read(path) {
            Ok(token) if token.expose_secret() == self.token.expose_secret() => {}
            Ok(token) => {
                self.token = token;
                self.generation += 1;
                tracing::info!(file = %path.display(), generation = self.generation, "the token was read again");
            }
            Err(err) => tracing::warn!(%err, "the token stays as it was"),
        }
    }
}

fn lock(loaded: &Mutex<Loaded>) -> MutexGuard<'_, Loaded> {
    loaded.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(path: &Path) -> Result<Token> {
    let text = std::fs::read_to_string(path)
        .map_err(|err| Error::invalid(format!("cannot read the token file {}: {err}", path.display())))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        let path = path.display();
        return Err(Error::invalid(format!("the token file {path} does not hold one line of printable characters")));
    }
    Ok(Arc::new(SecretString::from(token)))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Source::None => f.write_str("Credential(none)"),
            Source::Token(_) => f.write_str("Credential(token, redacted)"),
            Source::File { path, .. } => write!(f, "Credential(file {}, redacted)", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(credential: &Credential) -> String {
        credential.current().unwrap().expose_secret().to_owned()
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not_taken_over() {
        let path = std::env::temp_dir().join(format!("provider-kit-token-{}", std::process::id()));
        std::fs::write(&path, "first\n").unwrap();
        let credential = Credential::file(&path).unwrap();
        assert_eq!(shown(&credential), "first");
        std::fs::write(&path, "second-token\n").unwrap();
        assert_eq!((shown(&credential).as_str(), credential.generation()), ("second-token", 2));
        std::fs::write(&path, " \n").unwrap();
        assert_eq!(shown(&credential), "second-token");
        std::fs::remove_file(&path).unwrap();
        assert_eq!((shown(&credential).as_str(), credential.generation()), ("second-token", 2));
        assert!(Credential::file(&path).unwrap_err().to_string().contains("provider-kit-token"));
    }

    #[test]
    fn debug_shows_where_a_token_comes_from_and_not_the_token() {
        assert_eq!(format!("{:?}", Credential::none()), "Credential(none)");
        assert!(!format!("{:?}", Credential::token("s3cret")).contains("s3cret"));
    }
}
