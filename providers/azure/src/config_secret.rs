//! The configuration in a Secret, which is read when the program has access to Kubernetes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{ConfigFile, Error, Result, Setup};
use provider_kit::cluster::ClusterView;
use provider_kit::document::Document;
use provider_kit::variables::{Variable, Variables};
use serde_json::Value;

use crate::config::{Config, CurrentConfig, File};
use crate::ipam::{RELOADS, SECRET_KEY, SECRET_NAME, SECRET_NAMESPACE};

/// The time between two reads of the Secret.
const INTERVAL: Duration = Duration::from_secs(60);

/// Only a hash is kept, because the text has secrets.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The place of the Secret.
#[derive(Clone)]
pub(crate) struct ConfigSecret {
    path: String,
    key: String,
    /// Text of the file of `--cloud-config`, whose keys count where the Secret has none.
    file: Option<String>,
    cluster: ClusterView,
}

impl ConfigSecret {
    /// Returns the Secret that the flags name, if the configuration is there: without a file, or if the file says so.
    pub(crate) fn of(setup: &Setup, cluster: &ClusterView) -> Option<Self> {
        let file = setup
            .config
            .as_ref()
            .and_then(|file| Document::of(file).ok());
        let kind = file.map(|mut file| {
            file.spell(&["cloudConfigType"]);
            file.values()
                .get("cloudConfigType")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_ascii_lowercase()
        });
        let flag = |name: &str| setup.flags.get(name).filter(|name| !name.is_empty());
        let mut flags = Variables::of(&setup.flags);
        let is_named = flag(SECRET_NAME.key()).is_some() || flags.get(&RELOADS) == Some(true);
        let is_there = match &kind {
            Some(kind) => ["secret", "merge"].contains(&&**kind),
            None => is_named && setup.config.is_none(),
        };
        let mut get = |declared: &Variable<String>| flags.get(declared).unwrap_or_default();
        let name = get(&SECRET_NAME);
        let namespace = get(&SECRET_NAMESPACE);
        let key = get(&SECRET_KEY);
        is_there.then(|| Self {
            path: format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
            key,
            file: setup
                .config
                .as_ref()
                .filter(|_| kind.as_deref() == Some("merge"))
                .map(|config_file| config_file.text.clone()),
            cluster: cluster.clone(),
        })
    }

    /// Reads the configuration, and checks it.
    pub(crate) async fn config(&self, setup: &Setup) -> Result<Config> {
        Config::read(&Setup {
            config: Some(self.read().await?),
            ..setup.clone()
        })
    }

    /// Has changes of the Secret used, as far as they need no restart. Runs until the process ends.
    pub(crate) async fn follow(self, setup: Setup, current: CurrentConfig) {
        let mut last = None;
        loop {
            let text = self
                .read()
                .await
                .map(|config_file| hash(&config_file.text))
                .map_err(|error| error.to_string());
            if last.as_ref() != Some(&text) {
                let outcome = match &text {
                    Ok(_) => self
                        .config(&setup)
                        .await
                        .and_then(|new| current.update(&new)),
                    Err(error) => Err(Error::other(error.clone())),
                };
                match outcome {
                    Ok(outcome) if last.is_some() => {
                        tracing::info!(
                            secret = self.path,
                            ?outcome,
                            "cloud configuration reloaded"
                        );
                    }
                    Ok(_) => {}
                    Err(error) => tracing::error!(
                        secret = self.path, %error, "cannot use the changed cloud configuration; keeping the previous one"
                    ),
                }
                last = Some(text);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Reads the text of the configuration from the Secret.
    pub(crate) async fn read(&self) -> Result<ConfigFile> {
        let wrong = |what: &str| Error::invalid(format!("Secret {}: {what}", self.path));
        let (status, secret) = self.cluster.get(&self.path).await?;
        if !status.is_success() {
            return Err(wrong(&format!(
                "cannot be read: {status}; allow ServiceAccount cloud-controller-manager to get it"
            )));
        }
        let data = secret["data"][&self.key]
            .as_str()
            .ok_or_else(|| wrong(&format!("key {:?} is missing", self.key)))?;
        let data = STANDARD
            .decode(data)
            .map_err(|_| wrong("its data is not base64"))?;
        let text = String::from_utf8(data).map_err(|_| wrong("its data is no text"))?;
        let Some(file) = &self.file else {
            return Ok(ConfigFile {
                path: self.path.clone(),
                text,
            });
        };
        let parse = |text: &str| {
            let mut document = Document::of(&ConfigFile {
                path: self.path.clone(),
                text: text.to_owned(),
            })?;
            // Both files may spell a key in another way.
            File::spell(&mut document);
            Ok::<_, Error>(document.values().clone())
        };
        let mut merged = parse(file)?;
        merged.extend(parse(&text)?);
        let merged = Value::Object(merged);
        Ok(ConfigFile {
            path: self.path.clone(),
            text: merged.to_string(),
        })
    }
}
