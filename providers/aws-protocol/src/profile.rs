//! The shared files of the AWS tools: `~/.aws/config` and `~/.aws/credentials`.

use std::collections::BTreeMap;

use cloud_provider::{Environment, Error, Result};
use secrecy::{ExposeSecret, SecretString};

/// The keys of one profile, in lower case. `Debug` shows no value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile(BTreeMap<String, SecretString>);

impl Profile {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(ExposeSecret::expose_secret).filter(|value| !value.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the profile of this name from both files, of which the one with credentials takes precedence. A file that does not
/// exist is empty.
pub(crate) fn profile(environment: &Environment, name: &str) -> Result<Profile> {
    let home = environment.get("HOME").unwrap_or_default();
    let files = [("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")];
    let mut keys = BTreeMap::new();
    for (variable, file) in files {
        let named = environment.get(variable).filter(|path| !path.is_empty()).map(str::to_owned);
        let path = named.unwrap_or_else(|| format!("{home}/.aws/{file}"));
        match std::fs::read_to_string(&path) {
            Ok(text) => read(&text, file == "config", name, &mut keys),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
            Err(err) => return Err(Error::invalid(format!("cannot read {path}: {err}"))),
        }
    }
    Ok(Profile(keys))
}

/// Adds the keys of one profile. Settings of a nested level, which are indented, are left out.
fn read(text: &str, is_config: bool, name: &str, keys: &mut BTreeMap<String, SecretString>) {
    let mut is_wanted = false;
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t', '#', ';'])) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let words: Vec<&str> = section.split_whitespace().collect();
            is_wanted = match &*words {
                ["profile", own] => is_config && *own == name,
                [own] => *own == name && (!is_config || name == "default"),
                _ => false,
            };
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_wanted) {
            let value = [" #", " ;"].iter().fold(value, |value, sign| value.split(sign).next().unwrap_or(value));
            keys.insert(key.trim().to_ascii_lowercase(), value.trim().into());
        }
    }
}
