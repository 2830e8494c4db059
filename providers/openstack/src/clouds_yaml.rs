//! `clouds.yaml`, as all of OpenStack's clients read it, with `clouds-public.yaml` and `secure.yaml` (§1.2).

use std::path::{Path, PathBuf};

use cloud_provider::Environment;
use provider_kit::settings::yaml;
use serde_json::{Map, Value};

/// The entry of a cloud.
pub(crate) struct Entry {
    values: Value,
    /// How messages name it.
    name: String,
    /// What was read.
    pub(crate) files: Vec<PathBuf>,
}

/// An entry, and the mistakes in it.
#[derive(Default)]
pub(crate) struct Clouds {
    entry: Option<Entry>,
    pub(crate) mistakes: Vec<String>,
}

/// Which entry of which file.
pub(crate) struct Choice<'a> {
    /// The file, if somebody named one.
    pub(crate) file: Option<&'a str>,
    /// The entry, if somebody named one.
    pub(crate) cloud: Option<&'a str>,
}

impl Clouds {
    /// The entry that is chosen; without an entry if that is a mistake.
    pub(crate) fn read(choice: &Choice<'_>, environment: &Environment) -> Self {
        match Entry::read(choice, environment) {
            Ok(entry) => Self { entry: Some(entry), mistakes: Vec::new() },
            Err(mistake) => Self { entry: None, mistakes: vec![mistake] },
        }
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.entry.as_ref().map_or_else(Vec::new, |entry| entry.files.clone())
    }

    /// The text of `auth.username` and the like; none if it is empty.
    pub(crate) fn text(&mut self, path: &str) -> Option<String> {
        let values = &self.entry.as_ref()?.values;
        match path.split('.').try_fold(values, |value, key| value.get(key))? {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            Value::Null => None,
            _ => {
                self.refuse(path, "must be text (put it in quotes)");
                None
            }
        }
    }

    /// Notes what is wrong with a field.
    pub(crate) fn refuse(&mut self, path: &str, why: &str) {
        let name = self.entry.as_ref().map_or("", |entry| &entry.name);
        self.mistakes.push(format!("{name}: {path} {why}"));
    }
}

impl Entry {
    fn read(choice: &Choice<'_>, environment: &Environment) -> Result<Self, String> {
        let mut files = Vec::new();
        let place = match choice.file {
            Some(file) => PathBuf::from(file),
            None => find(&directories(environment), "clouds").ok_or_else(|| {
                "no clouds.yaml: neither clouds-file nor OS_CLIENT_CONFIG_FILE is set, and there is none in the working \
                 directory, ~/.config/openstack and /etc/openstack"
                    .to_owned()
            })?,
        };
        let mut directories = directories(environment);
        directories.insert(0, place.parent().unwrap_or(Path::new("")).to_owned());
        let clouds = load(&place, "clouds", &mut files)?;
        let mut beside = |stem: &str, key: &str| match find(&directories, stem) {
            Some(file) => load(&file, key, &mut files),
            None => Ok(Map::new()),
        };
        let (mut secure, mut public) = (beside("secure", "clouds")?, beside("clouds-public", "public-clouds")?);
        let cloud = chosen(choice.cloud, &clouds, &secure, &place)?;
        let mut values = clouds.get(&cloud).cloned().unwrap_or_default();
        let profile = ["profile", "cloud"].iter().find_map(|key| values.get(key)?.as_str().map(str::to_owned));
        if let Some(profile) = profile {
            let from = public.remove(&profile).ok_or_else(|| {
                format!("{}: the profile {profile:?} of {cloud:?} is in no clouds-public.yaml", place.display())
            })?;
            values = merged(values, from);
        }
        if let Some(secret) = secure.remove(&cloud) {
            values = merged(secret, values);
        }
        Ok(Self { values, name: format!("{}: clouds.{cloud}", place.display()), files })
    }
}

/// The name of the entry: the one that is named, else the only one.
fn chosen(
    named: Option<&str>,
    clouds: &Map<String, Value>,
    secure: &Map<String, Value>,
    place: &Path,
) -> Result<String, String> {
    let place = place.display();
    let all = || clouds.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match named {
        Some(cloud) if clouds.contains_key(cloud) || secure.contains_key(cloud) => Ok(cloud.to_owned()),
        Some(cloud) => Err(format!("{place}: there is no cloud {cloud:?}; there are: {}", all())),
        None => {
            let mut names = if clouds.is_empty() { secure.keys() } else { clouds.keys() };
            match (names.next(), names.next()) {
                (Some(only), None) => Ok(only.clone()),
                (None, _) => Err(format!("{place}: there are no clouds in it")),
                _ => Err(format!("{place}: there are several clouds ({}); `cloud` or OS_CLOUD must name one", all())),
            }
        }
    }
}

/// Where clients look, in this order.
fn directories(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.get("HOME").filter(|home| !home.is_empty());
    let of_user = home.map(|home| Path::new(home).join(".config/openstack"));
    [Some(PathBuf::new()), of_user, Some(PathBuf::from("/etc/openstack"))].into_iter().flatten().collect()
}

fn find(directories: &[PathBuf], stem: &str) -> Option<PathBuf> {
    let names = [format!("{stem}.yaml"), format!("{stem}.yml")];
    directories.iter().flat_map(|at| names.iter().map(|name| at.join(name))).find(|file| file.is_file())
}

/// The mapping under `key` of a file.
fn load(file: &Path, key: &str, files: &mut Vec<PathBuf>) -> Result<Map<String, Value>, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|err| format!("cannot read {shown}: {err}"))?;
    files.push(file.to_owned());
    let mut values = yaml(&text).map_err(|place| format!("{shown}: no valid YAML{place}"))?;
    match values.get_mut(key).map(Value::take) {
        Some(Value::Object(clouds)) => Ok(clouds),
        _ => Err(format!("{shown}: there is no mapping `{key}` in it")),
    }
}

/// Both; where both say something that is not empty, what `stronger` says.
fn merged(stronger: Value, weaker: Value) -> Value {
    match (stronger, weaker) {
        (Value::Object(mut stronger), Value::Object(weaker)) => {
            for (key, value) in weaker {
                let own = stronger.remove(&key).unwrap_or_default();
                stronger.insert(key, merged(own, value));
            }
            Value::Object(stronger)
        }
        (Value::Null, weaker) => weaker,
        (Value::String(text), weaker) if text.is_empty() => weaker,
        (stronger, _) => stronger,
    }
}
