//! Credentials of a client: a token, or user and password, given directly or in files that may change (P-39).

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{Error, Result};
use http::header::AUTHORIZATION;
use parking_lot::{Mutex, MutexGuard};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use super::Access;

/// The time after which a new credential that the cloud rejected is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// A bearer token, or user and password. Its `Debug` shows neither. Clones share the last value read.
///
/// ```
/// use provider_kit::transport::Credential;
///
/// assert_eq!(format!("{:?}", Credential::token("s3cret")), "Credential(token, redacted)");
/// ```
#[derive(Clone)]
pub struct Credential(Option<Arc<Source>>);

/// The source of one part of a credential. Its `Debug` does not show a value.
#[derive(Clone)]
pub enum ValueOrFile {
    /// A fixed value, for as long as the process runs.
    Value(SecretString),
    /// The contents of a file, without surrounding white space.
    File(PathBuf),
}

struct Source {
    scheme: Scheme,
    parts: Vec<ValueOrFile>,
    loaded: Mutex<Loaded>,
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Bearer,
    Basic,
}

struct Loaded {
    secret: Arc<Access>,
    generation: u64,
    /// The number of new credentials that came into use since the last query.
    taken_over: u32,
    stamps: Vec<Option<Stamp>>,
    /// A newer credential that is not in use yet.
    newer: Option<Newer>,
}

struct Newer {
    secret: Arc<Access>,
    /// If set, a caller is trying the credential.
    trying: bool,
    /// The credential was rejected, and is not tried before this time.
    not_before: Option<Instant>,
}

/// The properties that show that a file has changed, without reading it. A Secret that the kubelet mounts changes by a
/// new symbolic link.
type Stamp = (SystemTime, u64, u64);

impl ValueOrFile {
    /// Returns a fixed value.
    #[must_use]
    pub fn value(value: impl Into<String>) -> Self {
        Self::Value(SecretString::from(value.into()))
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    fn stamp(&self) -> Option<Stamp> {
        let Self::File(path) = self else { return None };
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    }
}

impl Credential {
    /// Returns an empty credential, for services that require none.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns a fixed token, for as long as the process runs.
    #[must_use]
    pub fn token(token: impl Into<String>) -> Self {
        Self::fixed(Scheme::Bearer, vec![SecretString::from(token.into())])
    }

    /// Returns the token in a file, without surrounding white space. The file is read again when it changes, and when
    /// the cloud answers 401. A file that is empty or cannot be read then is ignored, and the last good token stays in
    /// use.
    ///
    /// # Errors
    /// *Invalid* if the file cannot be read now, or is empty.
    pub fn file(path: impl Into<PathBuf>) -> Result<Self> {
        Self::read(Scheme::Bearer, vec![ValueOrFile::file(path)])
    }

    /// Returns a fixed user and password (`Authorization: Basic`), for as long as the process runs.
    #[must_use]
    pub fn basic(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self::fixed(
            Scheme::Basic,
            vec![
                SecretString::from(user.into()),
                SecretString::from(password.into()),
            ],
        )
    }

    /// Returns user and password, each of which may come from a file; files are read again as described in
    /// [`file`](Self::file).
    ///
    /// # Errors
    /// *Invalid* if a file cannot be read now, or is empty.
    pub fn basic_files(user: ValueOrFile, password: ValueOrFile) -> Result<Self> {
        Self::read(Scheme::Basic, vec![user, password])
    }

    fn fixed(scheme: Scheme, parts: Vec<SecretString>) -> Self {
        let secret = access(scheme, parts.clone());
        Self::of(
            scheme,
            parts.into_iter().map(ValueOrFile::Value).collect(),
            secret,
            Vec::new(),
        )
    }

    fn read(scheme: Scheme, parts: Vec<ValueOrFile>) -> Result<Self> {
        let stamps = parts.iter().map(ValueOrFile::stamp).collect();
        let secret = read(scheme, &parts)?;
        Ok(Self::of(scheme, parts, secret, stamps))
    }

    fn of(
        scheme: Scheme,
        parts: Vec<ValueOrFile>,
        secret: Access,
        stamps: Vec<Option<Stamp>>,
    ) -> Self {
        let loaded = Mutex::new(Loaded {
            secret: Arc::new(secret),
            generation: 1,
            taken_over: 0,
            stamps,
            newer: None,
        });
        Self(Some(Arc::new(Source {
            scheme,
            parts,
            loaded,
        })))
    }

    /// Returns the number of credentials that have been read: 1 at first, one more with each change of the files, which
    /// are checked. For a metric, and for callers that wait for a new credential.
    #[must_use]
    pub fn generation(&self) -> u64 {
        let Some(source) = &self.0 else { return 1 };
        let mut loaded = source.lock();
        source.reread(&mut loaded, false);
        loaded.generation
    }

    /// Returns the number of new credentials that came into use since the last call.
    pub(super) fn taken_over(&self) -> u32 {
        self.0
            .as_ref()
            .map_or(0, |source| std::mem::take(&mut source.lock().taken_over))
    }

    /// Returns the credential to send now. A newly read credential is used at once, unless it is to be tried first.
    pub(super) fn current(&self, try_first: bool) -> (Option<Arc<Access>>, Option<Trial>) {
        let Some(source) = &self.0 else {
            return (None, None);
        };
        let mut loaded = source.lock();
        source.reread(&mut loaded, false);
        if !try_first {
            loaded.take_over();
        }
        let now = Instant::now();
        let due =
            |newer: &&mut Newer| !newer.trying && newer.not_before.is_none_or(|then| then <= now);
        let trial = loaded.newer.as_mut().filter(due).map(|newer| {
            newer.trying = true;
            Trial {
                source: Arc::clone(source),
                secret: Arc::clone(&newer.secret),
            }
        });
        (Some(Arc::clone(&loaded.secret)), trial)
    }

    /// Returns another credential after `used` was refused, if there is one. Reads the files even if they look
    /// unchanged.
    pub(super) fn instead_of(&self, used: Option<&Arc<Access>>) -> Option<Arc<Access>> {
        let source = self.0.as_ref()?;
        let used = used?;
        let mut loaded = source.lock();
        source.reread(&mut loaded, true);
        if loaded.secret.equals(used) {
            loaded.take_over();
        }
        (!loaded.secret.equals(used)).then(|| Arc::clone(&loaded.secret))
    }
}

impl Source {
    fn reread(&self, loaded: &mut Loaded, anyhow: bool) {
        let stamps = self
            .parts
            .iter()
            .map(ValueOrFile::stamp)
            .collect::<Vec<_>>();
        let files = self
            .parts
            .iter()
            .any(|part| matches!(part, ValueOrFile::File(_)));
        let readable = stamps.iter().any(Option::is_some);
        if !files || !(anyhow || readable && stamps != loaded.stamps) {
            return;
        }
        loaded.stamps = stamps;
        match read(self.scheme, &self.parts) {
            Ok(secret) if loaded.secret.equals(&secret) => loaded.newer = None,
            Ok(secret)
                if loaded
                    .newer
                    .as_ref()
                    .is_some_and(|newer| newer.secret.equals(&secret)) => {}
            Ok(secret) => {
                loaded.newer = Some(Newer {
                    secret: Arc::new(secret),
                    trying: false,
                    not_before: None,
                });
                loaded.generation += 1;
            }
            Err(err) => {
                tracing::warn!(%err, "cannot reload credential; the current one stays in use");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock()
    }
}

impl Loaded {
    fn take_over(&mut self) {
        if let Some(newer) = self.newer.take() {
            self.secret = newer.secret;
            self.taken_over += 1;
            tracing::info!(generation = self.generation, "credential reloaded");
        }
    }
}

/// A trial of a new credential by one caller; if dropped without a verdict, the next caller tries it.
pub(super) struct Trial {
    source: Arc<Source>,
    pub(super) secret: Arc<Access>,
}

impl Trial {
    /// Puts the credential into use, because the cloud accepted it.
    pub(super) fn accepted(self) -> Arc<Access> {
        let mut loaded = self.source.lock();
        if loaded
            .newer
            .as_ref()
            .is_some_and(|newer| newer.secret.equals(&self.secret))
        {
            loaded.take_over();
        }
        Arc::clone(&loaded.secret)
    }

    /// Keeps the old credential, because the cloud rejected the new one or did not answer.
    pub(super) fn not_accepted(self, why: &Error) {
        let mut loaded = self.source.lock();
        if let Some(newer) = loaded
            .newer
            .as_mut()
            .filter(|newer| newer.secret.equals(&self.secret))
        {
            if newer.not_before.is_none() {
                tracing::warn!(%why, "new credential rejected; the current one stays in use");
            }
            newer.not_before = Some(Instant::now() + TRY_AGAIN);
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if let Some(newer) = &mut self.source.lock().newer {
            newer.trying = false;
        }
    }
}

fn access(scheme: Scheme, mut parts: Vec<SecretString>) -> Access {
    let value = match scheme {
        Scheme::Bearer => format!("Bearer {}", parts[0].expose_secret()),
        Scheme::Basic => {
            let encoded = STANDARD.encode(format!(
                "{}:{}",
                parts[0].expose_secret(),
                parts[1].expose_secret()
            ));
            parts.push(SecretString::from(encoded.clone()));
            format!("Basic {encoded}")
        }
    };
    Access::of(AUTHORIZATION, &value, parts)
}

fn read(scheme: Scheme, parts: &[ValueOrFile]) -> Result<Access> {
    let read = |part: &ValueOrFile| match part {
        ValueOrFile::Value(value) => Ok(value.clone()),
        ValueOrFile::File(path) => read_file(scheme, path),
    };
    Ok(access(
        scheme,
        parts.iter().map(read).collect::<Result<_>>()?,
    ))
}

fn read_file(scheme: Scheme, path: &Path) -> Result<SecretString> {
    let noun = if scheme == Scheme::Bearer {
        "token"
    } else {
        "credential"
    };
    let text = cloud_provider::files::read_to_string(path).map_err(|err| {
        Error::invalid(format!(
            "cannot read the {noun} file {}: {err}",
            path.display()
        ))
    })?;
    if cloud_provider::files::is_writable_by_all(path) {
        tracing::warn!(path = %path.display(), "every user of this machine may write the {noun} file; use chmod o-w");
    }
    let text = text.trim();
    let printable = |c: char| {
        if scheme == Scheme::Bearer {
            c.is_ascii_graphic()
        } else {
            !c.is_control()
        }
    };
    if text.is_empty() || !text.chars().all(printable) {
        let path = path.display();
        return Err(Error::invalid(format!(
            "the {noun} file {path} does not hold one line of printable characters"
        )));
    }
    Ok(SecretString::from(text))
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(source) = &self.0 else {
            return f.write_str("Credential(none)");
        };
        f.write_str(if source.scheme == Scheme::Bearer {
            "Credential(token"
        } else {
            "Credential(user and password"
        })?;
        for part in &source.parts {
            if let ValueOrFile::File(path) = part {
                write!(f, " in {}", path.display())?;
            }
        }
        f.write_str(", redacted)")
    }
}

impl fmt::Debug for ValueOrFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(redacted)"),
            Self::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(credential: &Credential) -> String {
        let (secret, _) = credential.current(false);
        secret
            .unwrap()
            .header
            .clone()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn directory(name: &str) -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("provider-kit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn changed_credential_file_is_read_again_and_a_broken_one_is_ignored() {
        let directory = directory("token");
        let path = directory.join("token");
        std::fs::write(&path, "first\n").unwrap();
        let credential = Credential::file(&path).unwrap();
        assert_eq!(shown(&credential), "Bearer first");
        std::fs::write(&path, "second-token\n").unwrap();
        assert_eq!(
            (shown(&credential).as_str(), credential.generation()),
            ("Bearer second-token", 2)
        );
        std::fs::write(&path, " \n").unwrap();
        assert_eq!(shown(&credential), "Bearer second-token");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            (shown(&credential).as_str(), credential.generation()),
            ("Bearer second-token", 2)
        );
        assert!(
            Credential::file(&path)
                .unwrap_err()
                .to_string()
                .contains("cannot read the token file")
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_secret_that_the_kubelet_mounts_changes_with_its_symbolic_link() {
        let directory = directory("mounted");
        let mount = |version: &str, user: &str, password: &str| {
            let data = directory.join(version);
            std::fs::create_dir_all(&data).unwrap();
            for (name, value) in [("user", user), ("password", password)] {
                std::fs::write(data.join(name), value).unwrap();
                // Time and length stay the same; only the file is a different one.
                let file = std::fs::File::options()
                    .write(true)
                    .open(data.join(name))
                    .unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
            std::os::unix::fs::symlink(version, directory.join("..data_tmp")).unwrap();
            std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
        };
        mount("..1", "ab", "12");
        for name in ["user", "password"] {
            std::os::unix::fs::symlink(format!("..data/{name}"), directory.join(name)).unwrap();
        }
        let part = |name| ValueOrFile::file(directory.join(name));
        let credential = Credential::basic_files(part("user"), part("password")).unwrap();
        assert_eq!(shown(&credential), "Basic YWI6MTI=");
        mount("..2", "cd", "34");
        assert_eq!(
            (shown(&credential).as_str(), credential.generation()),
            ("Basic Y2Q6MzQ=", 2)
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn user_and_password_are_redacted_from_every_text() {
        let credential = Credential::basic("#ws+user", "pass:word");
        assert_eq!(shown(&credential), "Basic I3dzK3VzZXI6cGFzczp3b3Jk");
        let secret = credential.current(false).0.unwrap();
        let said = secret.redact("#ws+user pass:word I3dzK3VzZXI6cGFzczp3b3Jk".into());
        assert_eq!(said, "[redacted] [redacted] [redacted]");
        let parts = (
            ValueOrFile::value("#ws+user"),
            ValueOrFile::value("pass:word"),
        );
        let shown = format!("{credential:?} {:?} {parts:?}", secret.header);
        assert_eq!(shown.matches("redacted").count(), 3, "{shown}");
        assert!(
            !shown.contains("user\"") && !shown.contains("word:") && !shown.contains("I3dz"),
            "{shown}"
        );
    }

    #[test]
    fn debug_shows_where_a_token_comes_from_and_not_the_token() {
        assert_eq!(format!("{:?}", Credential::none()), "Credential(none)");
        assert!(!format!("{:?}", Credential::token("s3cret")).contains("s3cret"));
    }
}
