//! Configuration files of providers: YAML, with all mistakes reported at once.

use cloud_provider::{Error, Result, Setup};
use serde_json::{Map, Value};

use crate::transport::{Builder, Credential, Transport, check_endpoint};
use crate::variables::OFFLINE;

/// A configuration file that is being read. Get each setting, then call [`finish`](Self::finish).
///
/// Values never appear in messages: any of them may be a secret in the wrong place (INV-5).
///
/// ```
/// use cloud_provider::{ConfigFile, Setup};
/// use provider_kit::settings::YamlSettings;
///
/// let file = ConfigFile { path: "cloud.yaml".into(), text: "endpoint: http://x\nprojekt: demo\ntoken: 17\n".into() };
/// let mut settings = YamlSettings::yaml(&Setup::of(file))?;
/// let endpoint = settings.required("endpoint");
/// let project = settings.text("project");
/// let token = settings.text("token");
/// assert_eq!(settings.finish().unwrap_err().to_string(),
///     "cloud.yaml: token must be text (put it in quotes); unknown key \"projekt\", did you mean \"project\"?");
/// # Ok::<(), cloud_provider::Error>(())
/// ```
pub struct YamlSettings {
    path: String,
    values: Map<String, Value>,
    known_keys: Vec<&'static str>,
    mistakes: Vec<String>,
    setup: Setup,
}

impl YamlSettings {
    /// Reads the configuration; a missing file counts as an empty one.
    ///
    /// # Errors
    /// *Invalid* if the text is not a YAML mapping.
    pub fn yaml(setup: &Setup) -> Result<Self> {
        let (path, text) = setup
            .config
            .as_ref()
            .map_or(("no configuration file", ""), |file| {
                (&file.path, &file.text)
            });
        let values = match yaml(text) {
            Ok(Value::Object(values)) => values,
            Ok(Value::Null) => Map::new(),
            Ok(_) => {
                return Err(Error::invalid(format!(
                    "{path}: expected settings of the form `key: value`"
                )));
            }
            Err(place) => return Err(Error::invalid(format!("{path}: no valid YAML{place}"))),
        };
        let path = path.to_owned();
        let setup = setup.clone();
        Ok(Self {
            path,
            values,
            known_keys: Vec::new(),
            mistakes: Vec::new(),
            setup,
        })
    }

    /// Returns a text; `None` if it is unset or empty.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.known_keys.push(key);
        match self.values.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => {
                self.mistake(format!("{key} must be text (put it in quotes)"));
                None
            }
        }
    }

    /// Returns a required text. If it is missing, the text is empty, and a mistake is added unless the cloud is [never
    /// called](cloud_provider::Environment::is_offline).
    pub fn required(&mut self, key: &'static str) -> String {
        self.text(key).unwrap_or_else(|| {
            if !self.values.contains_key(key) && !self.setup.environment.is_offline() {
                self.mistake(format!("{key} is missing"));
            }
            String::new()
        })
    }

    /// Returns the credential: exactly one of `token` and `tokenFile` is required, and neither if the cloud is never
    /// called.
    pub fn credential(&mut self) -> Credential {
        match (self.text("token"), self.text("tokenFile")) {
            _ if self.setup.environment.is_offline() => Credential::token(OFFLINE),
            (Some(token), None) => Credential::token(token),
            (None, Some(file)) => Credential::file(file).unwrap_or_else(|err| {
                self.mistake(err.to_string());
                Credential::none()
            }),
            (token, _) => {
                if token.is_some() {
                    self.mistake("token and tokenFile are both set, one of them is enough");
                } else if !["token", "tokenFile"]
                    .iter()
                    .any(|key| self.values.contains_key(*key))
                {
                    self.mistake("token or tokenFile is missing");
                }
                Credential::none()
            }
        }
    }

    /// Returns a builder of a client for the API at `endpoint`, or else at the default, with the
    /// [`credential`](Self::credential) and the [setup](Builder::setup) of every provider. Add what is particular to
    /// the cloud, and build it after [`finish`](Self::finish), which reports mistakes in the endpoint and in the
    /// credential.
    ///
    /// ```
    /// use cloud_provider::{ConfigFile, Setup};
    /// use provider_kit::paging::Paging;
    /// use provider_kit::settings::YamlSettings;
    ///
    /// let file = ConfigFile { path: "cloud.yaml".into(), text: "token: s3cret".into() };
    /// let mut settings = YamlSettings::yaml(&Setup::of(file))?;
    /// let http = settings.transport("https://api.acme.example").paging(Paging::next_page("/next_page"));
    /// settings.finish()?;
    /// # rustls::crypto::ring::default_provider().install_default().ok();
    /// assert_eq!(http.build()?.base(), "https://api.acme.example");
    /// # Ok::<(), cloud_provider::Error>(())
    /// ```
    pub fn transport(&mut self, default_endpoint: impl Into<Option<&'static str>>) -> Builder {
        let endpoint = match default_endpoint.into() {
            Some(default) => self.text("endpoint").unwrap_or_else(|| default.to_owned()),
            None => self.required("endpoint"),
        };
        let credential = self.credential();
        let endpoint = if endpoint.is_empty() && self.setup.environment.is_offline() {
            format!("http://{OFFLINE}.invalid")
        } else {
            endpoint
        };
        if let (Err(err), false) = (check_endpoint(&endpoint), endpoint.is_empty()) {
            self.mistake(err.to_string());
        }
        Transport::builder(endpoint)
            .credential(credential)
            .setup(&self.setup)
    }

    /// Adds a mistake that the caller found.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.mistakes.push(text.into());
    }

    /// Ends the reading, and refuses mistakes and unknown keys.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes and all keys that no code reads.
    pub fn finish(mut self) -> Result<()> {
        for key in self
            .values
            .keys()
            .filter(|key| !self.known_keys.contains(&key.as_str()))
        {
            let closest = self.known_keys.iter().max_by(|a, b| {
                strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key))
            });
            self.mistakes.push(
                match closest.filter(|known| strsim::jaro_winkler(known, key) > 0.7) {
                    Some(known) => format!("unknown key {key:?}, did you mean {known:?}?"),
                    None => format!(
                        "unknown key {key:?}; known are {}",
                        self.known_keys.join(", ")
                    ),
                },
            );
        }
        if self.mistakes.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{}: {}",
            self.path,
            self.mistakes.join("; ")
        )))
    }
}

/// Parses a YAML file; an empty file is null.
///
/// # Errors
/// The position only, with a leading blank, or an empty text: the parser's message may quote the file.
pub fn yaml(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|err| {
        err.location().map_or_else(String::new, |at| {
            format!(" in line {}, column {}", at.line(), at.column())
        })
    })
}

/// Merges two values, mapping by mapping. Where both have a value that is neither null nor an empty text, `stronger`
/// wins.
///
/// ```
/// use provider_kit::settings::merged;
/// use serde_json::json;
///
/// let (own, shared) = (json!({"a": {"x": 1, "y": ""}}), json!({"a": {"x": 2, "y": 3}, "b": 4}));
/// assert_eq!(merged(own, shared), json!({"a": {"x": 1, "y": 3}, "b": 4}));
/// ```
#[must_use]
pub fn merged(stronger: Value, weaker: Value) -> Value {
    match (stronger, weaker) {
        (Value::Object(mut stronger), Value::Object(weaker)) => {
            for (key, value) in weaker {
                let stronger_value = stronger.remove(&key).unwrap_or_default();
                stronger.insert(key, merged(stronger_value, value));
            }
            Value::Object(stronger)
        }
        (Value::Null, weaker) => weaker,
        (Value::String(text), weaker) if text.is_empty() => weaker,
        (stronger, _) => stronger,
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::ConfigFile;

    use super::*;

    fn mistakes(text: &str) -> String {
        let file = ConfigFile {
            path: "f".into(),
            text: text.into(),
        };
        let mut settings = match YamlSettings::yaml(&Setup::of(file)) {
            Ok(settings) => settings,
            Err(err) => return err.to_string(),
        };
        settings.required("endpoint");
        settings.credential();
        settings
            .finish()
            .map_or_else(|err| err.to_string(), |()| "none".into())
    }

    #[test]
    fn mistakes_are_reported_together_without_values() {
        assert_eq!(mistakes("endpoint: http://x\ntoken: s3cret\n"), "none");
        assert_eq!(
            mistakes(""),
            "f: endpoint is missing; token or tokenFile is missing"
        );
        assert_eq!(
            mistakes("endpoint: [1]\ntoken: s3cret\ntokenFile: /nowhere\nzzz: s3cret\n"),
            "f: endpoint must be text (put it in quotes); token and tokenFile are both set, one of them is enough; \
             unknown key \"zzz\"; known are endpoint, token, tokenFile"
        );
        assert!(
            mistakes("endpoint: e\ntokenFile: /nowhere\n")
                .contains("cannot read the token file /nowhere")
        );
        for broken in [
            "token: \"s3cret",
            "s3cret",
            "- s3cret",
            "token: *s3cret",
            "token: s3: cret",
        ] {
            assert!(!mistakes(broken).contains("s3cret"), "{}", mistakes(broken));
        }
    }
}
