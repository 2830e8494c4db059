//! `clouds.yaml`, as all of OpenStack's clients read it, with `clouds-public.yaml` and `secure.yaml`.

use std::path::{Path, PathBuf};

use cloud_provider::Environment;
use provider_kit::settings::{merged, yaml};
use serde_json::{Map, Value};

type Entries = Map<String, Value>;

/// The entry of a cloud, and the errors in it; empty if it does not exist.
#[derive(Default)]
pub(crate) struct Clouds {
    entry: Value,
    /// Name of the entry in messages.
    name: String,
    /// The files that were read.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) mistakes: Vec<String>,
}

impl Clouds {
    /// Reads the entry `cloud` of `file`; without a name, they are searched.
    pub(crate) fn read(file: Option<&str>, cloud: Option<&str>, environment: &Environment) -> Self {
        let mut clouds = Self::default();
        if let Err(mistake) = clouds.fill(file, cloud, &directories(environment)) {
            clouds.mistakes.push(mistake);
        }
        clouds
    }

    /// Returns the text of `auth.username` and the like; none if it is empty.
    pub(crate) fn text(&mut self, path: &str) -> Option<String> {
        match path
            .split('.')
            .try_fold(&self.entry, |value, key| value.get(key))?
        {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            Value::Null => None,
            _ => {
                self.refuse(path, "must be text (put it in quotes)");
                None
            }
        }
    }

    /// Notes a mistake in a field.
    pub(crate) fn refuse(&mut self, path: &str, why: &str) {
        self.mistakes.push(format!("{}: {path} {why}", self.name));
    }

    fn fill(
        &mut self,
        file: Option<&str>,
        cloud: Option<&str>,
        directories: &[PathBuf],
    ) -> Result<(), String> {
        let file = file.map(PathBuf::from).or_else(|| find(directories, "clouds")).ok_or(
            "no clouds.yaml: neither clouds-file nor OS_CLIENT_CONFIG_FILE is set, and there is none in the working directory, \
             ~/.config/openstack and /etc/openstack",
        )?;
        let shown = file.display();
        let beside = [file.parent().unwrap_or(Path::new("")).to_owned()];
        let companion = |stem| find(&beside, stem).or_else(|| find(directories, stem));
        let mut clouds = self
            .load(&file, "clouds")?
            .ok_or_else(|| missing(&file, "clouds"))?;
        let secure = companion("secure")
            .map(|file| self.load(&file, "clouds"))
            .transpose()?;
        let mut secure = secure.flatten().unwrap_or_default();
        let cloud = match cloud {
            Some(cloud) => cloud.to_owned(),
            None => only(if clouds.is_empty() { &secure } else { &clouds })
                .map_err(|why| format!("{shown}: {why}"))?,
        };
        let own_cloud = clouds.remove(&cloud);
        let secret = secure.remove(&cloud);
        if own_cloud.is_none() && secret.is_none() {
            return Err(format!(
                "{shown}: there is no cloud {cloud:?}; there are: {}",
                names(&clouds)
            ));
        }
        let mut entry = own_cloud.unwrap_or_default();
        if let Some(profile) = ["profile", "cloud"]
            .iter()
            .find_map(|key| entry.get(key)?.as_str().map(str::to_owned))
        {
            let public = companion("clouds-public")
                .map(|file| self.load(&file, "public-clouds"))
                .transpose()?;
            let public = public
                .flatten()
                .and_then(|mut all| all.remove(&profile))
                .ok_or_else(|| {
                    format!(
                        "{shown}: the profile {profile:?} of {cloud:?} is in no clouds-public.yaml"
                    )
                })?;
            entry = merged(entry, public);
        }
        self.entry = merged(secret.unwrap_or_default(), entry);
        self.name = format!("{shown}: clouds.{cloud}");
        Ok(())
    }

    /// Reads the mapping under `key` of a file; `None` if it is empty.
    fn load(&mut self, file: &Path, key: &str) -> Result<Option<Entries>, String> {
        let shown = file.display();
        let text = cloud_provider::files::read_to_string(file)
            .map_err(|err| format!("cannot read {shown}: {err}"))?;
        self.files.push(file.to_owned());
        let mut values = yaml(&text).map_err(|place| format!("{shown}: no valid YAML{place}"))?;
        match values.get_mut(key).map(Value::take) {
            Some(Value::Object(clouds)) => Ok(Some(clouds)),
            Some(Value::Null) => Ok(None),
            None if values.is_null() => Ok(None),
            _ => Err(missing(file, key)),
        }
    }
}

fn missing(file: &Path, key: &str) -> String {
    format!("{}: there is no mapping `{key}` in it", file.display())
}

fn only(clouds: &Entries) -> Result<String, String> {
    match clouds.keys().collect::<Vec<_>>()[..] {
        [only] => Ok(only.clone()),
        [] => Err("there are no clouds in it".to_owned()),
        _ => Err(format!(
            "there are several clouds ({}); `cloud` or OS_CLOUD must name one",
            names(clouds)
        )),
    }
}

fn names(clouds: &Entries) -> String {
    clouds
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the directories that clients search, in this order.
fn directories(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.get("HOME").filter(|home| !home.is_empty());
    let of_user = home.map(|home| Path::new(home).join(".config/openstack"));
    [
        Some(PathBuf::new()),
        of_user,
        Some(PathBuf::from("/etc/openstack")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn find(directories: &[PathBuf], stem: &str) -> Option<PathBuf> {
    let names = [format!("{stem}.yaml"), format!("{stem}.yml")];
    directories
        .iter()
        .flat_map(|at| names.iter().map(|name| at.join(name)))
        .find(|file| file.is_file())
}
