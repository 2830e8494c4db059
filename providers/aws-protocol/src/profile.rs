//! Settings of the AWS tools: their variables, and the shared files `~/.aws/config` and `~/.aws/credentials`.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use cloud_provider::{Environment, Error, Result};
use secrecy::{ExposeSecret, SecretString};

/// Settings by their keys in lower case without `aws_`, which are the same in variables and files. `Debug` shows no value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile(BTreeMap<String, SecretString>);

impl Profile {
    /// Returns the settings in variables: `AWS_ROLE_ARN` is `role_arn`.
    pub(crate) fn of_environment(environment: &Environment) -> Self {
        let variables = environment.names().filter(|name| name.starts_with("AWS_"));
        Self::of(variables.filter_map(|name| Some((name, environment.get(name)?))))
    }

    pub(crate) fn of<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut profile = Self::default();
        settings
            .into_iter()
            .for_each(|(key, value)| profile.set(key, value));
        profile
    }

    fn set(&mut self, key: &str, value: &str) {
        let key = key.trim().to_ascii_lowercase();
        self.0.insert(
            key.strip_prefix("aws_").unwrap_or(&key).to_owned(),
            value.trim().into(),
        );
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(ExposeSecret::expose_secret)
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(str::to_owned)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the profile of this name from both files, of which the one with credentials takes precedence. A file that does
    /// not exist is empty.
    pub(crate) fn of_files(environment: &Environment, name: &str) -> Result<Self> {
        let home = environment.get("HOME").unwrap_or_default();
        let mut profile = Self::default();
        for (variable, file) in [
            ("AWS_CONFIG_FILE", "config"),
            ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        ] {
            let named = environment
                .get(variable)
                .filter(|path| !path.is_empty())
                .map(str::to_owned);
            let path = named.unwrap_or_else(|| format!("{home}/.aws/{file}"));
            match cloud_provider::files::read_to_string(&path) {
                Ok(text) => profile.add(&text, file == "config", name),
                Err(err) if err.kind() == ErrorKind::NotFound => {}
                Err(err) => return Err(Error::invalid(format!("cannot read {path}: {err}"))),
            }
        }
        Ok(profile)
    }

    /// Adds the keys of one profile. Settings of a nested level, which are indented, are left out.
    fn add(&mut self, text: &str, is_config: bool, name: &str) {
        let prefix = if is_config && name != "default" {
            "profile "
        } else {
            ""
        };
        let section_names = [format!("{prefix}{name}"), format!("profile {name}")];
        let mut is_wanted = false;
        for line in text
            .lines()
            .filter(|line| !line.starts_with([' ', '\t', '#', ';']))
        {
            if let Some(section) = line
                .strip_prefix('[')
                .and_then(|rest| rest.split(']').next())
            {
                let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
                is_wanted = section_names[..1 + usize::from(is_config)].contains(&section);
            } else if let Some((key, value)) = line.split_once('=').filter(|_| is_wanted) {
                let value = value
                    .split(" #")
                    .next()
                    .and_then(|value| value.split(" ;").next());
                self.set(key, value.unwrap_or_default());
            }
        }
    }
}
