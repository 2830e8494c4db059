//! The configuration: the cloud configuration file, and environment variables.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cloud_provider::{AdoptableTag, ConfigFile, Environment, Error, Result, Setup};
use provider_kit::declared::Value as _;
use provider_kit::document::Document;
use secrecy::SecretString;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::annotations::{Objects, SecurityMode};
use crate::monitoring::Place;

/// The metadata service of an instance.
const METADATA: &str = "http://169.254.169.254/opc/v2";

/// Tags of the configuration, for new resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Tags {
    /// Tags without a namespace.
    pub freeform: BTreeMap<String, String>,
    /// Tags with a namespace.
    pub defined: Objects,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    auth: AuthSection,
    use_instance_principals: bool,
    use_workload_identity: bool,
    compartment: Option<String>,
    vcn: Option<String>,
    load_balancer: LoadBalancerSection,
    rate_limiter: RateSection,
    tags: TagSection,
    metrics: Option<Place>,
    endpoint: Option<String>,
    /// Accepted without effect, as by the Go program: the endpoints follow from the region.
    #[serde(rename = "regionKey")]
    _region_key: IgnoredAny,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AuthSection {
    region: Option<String>,
    tenancy: Option<String>,
    user: Option<String>,
    #[serde(deserialize_with = "secret")]
    key: Option<SecretString>,
    fingerprint: Option<String>,
    #[serde(deserialize_with = "secret")]
    passphrase: Option<SecretString>,
    #[serde(rename = "key_passphrase", deserialize_with = "secret")]
    former_passphrase: Option<SecretString>,
    compartment: Option<String>,
    use_instance_principals: bool,
    config_file: Option<String>,
    profile: Option<String>,
    /// Accepted without effect, as by the Go program: the endpoints follow from the region.
    #[serde(rename = "regionKey")]
    _region_key: IgnoredAny,
}

fn secret<'de, D: Deserializer<'de>>(text: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(text)?
        .filter(|deserialize| !deserialize.is_empty())
        .map(Into::into))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LoadBalancerSection {
    disabled: bool,
    subnet1: Option<String>,
    subnet2: Option<String>,
    security_list_management_mode: Option<String>,
    disable_security_list_management: bool,
    security_lists: BTreeMap<String, String>,
    secret_namespaces: Vec<String>,
    allowed_subnets: Option<Vec<String>>,
    allowed_security_groups: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RateSection {
    #[serde(rename = "rateLimitQPSRead")]
    read: Option<f64>,
    #[serde(rename = "rateLimitQPSWrite")]
    write: Option<f64>,
    rate_limit_bucket_read: Option<u32>,
    rate_limit_bucket_write: Option<u32>,
    disable_rate_limiter: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TagSection {
    load_balancer: Option<Tags>,
    common: Tags,
    /// The file may be shared with Oracle's CSI drivers, which read these tags.
    #[serde(rename = "blockVolume")]
    _block_volume: IgnoredAny,
    #[serde(rename = "fss")]
    _file_storage: IgnoredAny,
    #[serde(rename = "lustre")]
    _lustre: IgnoredAny,
}

/// An API key of a user.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// OCID of the tenancy.
    pub tenancy: String,
    /// OCID of the user.
    pub user: String,
    /// Fingerprint of the public key.
    pub fingerprint: String,
    /// Private key, in PEM.
    pub key: SecretString,
    /// Passphrase of an encrypted key.
    pub passphrase: Option<SecretString>,
}

/// The source of the credential.
#[derive(Clone, Debug)]
pub enum Auth {
    /// An API key in the cloud configuration.
    Key(ApiKey),
    /// A profile of the file of Oracle's command line: path and name.
    Profile(PathBuf, String),
    /// The instance on which the program runs.
    Instance,
    /// The workload identity of a self-managed cluster.
    Workload,
    /// None: the cloud is never called.
    Offline,
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is explained on the page of the provider")]
pub struct Config {
    pub auth: Auth,
    pub region: Option<String>,
    pub compartment: Option<String>,
    pub adoptable_tag: Option<AdoptableTag>,
    pub vcn: Option<String>,
    pub endpoint: Option<String>,
    pub has_load_balancers: bool,
    pub subnets: Vec<String>,
    pub security_mode: SecurityMode,
    pub security_lists: BTreeMap<String, String>,
    /// Namespaces whose Secrets all Services may name; `*` stands for all.
    pub secret_namespaces: Vec<String>,
    /// Subnets that annotations may name beside those of the configuration; `None` for all.
    pub allowed_subnets: Option<Vec<String>>,
    /// Network security groups that annotations may name; `None` for all.
    pub allowed_security_groups: Option<Vec<String>>,
    /// Requests per second, and their burst.
    pub reads: Option<(f64, u32)>,
    pub writes: Option<(f64, u32)>,
    pub tags: Tags,
    pub common_tags: Tags,
    pub metrics: Option<Place>,
    pub prefix: String,
    /// If set, the cluster has IPv6 alone.
    pub is_ipv6: bool,
    pub has_flex_cidr: bool,
    pub tags_instances: bool,
    pub metadata: String,
    pub environment: Environment,
    /// Path of the cloud configuration, which is read again when its key is refused.
    pub path: Option<String>,
}

fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl AuthSection {
    fn key(self, mistakes: &mut Vec<String>) -> Option<ApiKey> {
        let parts = [
            ("tenancy", &self.tenancy),
            ("user", &self.user),
            ("fingerprint", &self.fingerprint),
        ];
        let missing = parts
            .iter()
            .filter(|(_, value)| value.as_deref().is_none_or(str::is_empty))
            .map(|(key, _)| *key);
        let missing: Vec<_> = missing
            .chain(self.key.is_none().then_some("key"))
            .map(|key| format!("auth.{key}"))
            .collect();
        if !missing.is_empty() {
            mistakes.push(format!(
                "{} missing: set the parts of an API key, useInstancePrincipals, useWorkloadIdentity or auth.configFile",
                missing.join(", ") + if missing.len() == 1 { " is" } else { " are" }
            ));
            return None;
        }
        let [tenancy, user, fingerprint] =
            [self.tenancy, self.user, self.fingerprint].map(Option::unwrap_or_default);
        let passphrase = self.passphrase.or(self.former_passphrase);
        Some(ApiKey {
            tenancy,
            user,
            fingerprint,
            key: self.key?,
            passphrase,
        })
    }
}

fn parse(text: &str, path: &str) -> Result<File> {
    Document::of(&ConfigFile {
        path: path.to_owned(),
        text: text.to_owned(),
    })?
    .read()
}

impl Config {
    /// Reads the cloud configuration and the environment.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes.
    pub fn read(setup: &Setup) -> Result<Self> {
        let environment = setup.environment.clone();
        let path = setup.config.as_ref().map(|file| file.path.clone());
        let shown = path
            .clone()
            .unwrap_or_else(|| "cloud configuration".to_owned());
        let file = file_of(setup, &shown)?;
        let File {
            auth,
            load_balancer,
            rate_limiter,
            tags,
            ..
        } = &file;
        let (tags, common_tags) = (
            tags.load_balancer
                .clone()
                .unwrap_or_else(|| tags.common.clone()),
            tags.common.clone(),
        );
        let mut mistakes = Vec::new();
        let is_instance = file.use_instance_principals || auth.use_instance_principals;
        let profile_file = filled(auth.config_file.clone())
            .or_else(|| environment.get("OCI_CONFIG_FILE").map(str::to_owned));
        if file.use_workload_identity && is_instance {
            mistakes.push(
                "useInstancePrincipals and useWorkloadIdentity are both set: only one can be"
                    .to_owned(),
            );
        }
        for (key, _) in file
            .metrics
            .iter()
            .flat_map(Place::required)
            .filter(|(_, value)| value.is_empty())
        {
            mistakes.push(format!(
                "metrics.{key} is missing: the section metrics needs it"
            ));
        }
        let subnets: Vec<_> = [&load_balancer.subnet1, &load_balancer.subnet2]
            .into_iter()
            .cloned()
            .filter_map(filled)
            .collect();
        if !load_balancer.disabled
            && subnets.is_empty()
            && filled(file.vcn.clone()).is_none()
            && !environment.is_offline()
        {
            mistakes.push("loadBalancer.subnet1 and vcn are missing: set one of them".to_owned());
        }
        let mode = match load_balancer
            .security_list_management_mode
            .as_deref()
            .unwrap_or_default()
        {
            "" if load_balancer.disable_security_list_management => SecurityMode::None,
            "" | "All" => SecurityMode::All,
            "Frontend" => SecurityMode::Frontend,
            "None" => SecurityMode::None,
            _ if load_balancer.disabled => SecurityMode::None,
            other => {
                mistakes.push(format!(
                    "loadBalancer.securityListManagementMode: {other:?} is not one of All, Frontend, None"
                ));
                SecurityMode::None
            }
        };
        let rate = |rate: Option<f64>, burst: Option<u32>| {
            let is_limited = !rate_limiter.disable_rate_limiter;
            let rate = rate.filter(|rate| *rate > 0.0).unwrap_or(20.0);
            let burst = burst.filter(|burst| *burst > 0).unwrap_or(5);
            is_limited.then_some((rate, burst))
        };
        let reads = rate(rate_limiter.read, rate_limiter.rate_limit_bucket_read);
        let writes = rate(rate_limiter.write, rate_limiter.rate_limit_bucket_write);
        let variable = |name: &str| {
            environment
                .get(name)
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
        };
        let is_on = |name: &str| {
            variable(name)
                .and_then(|variable| bool::KIND.parse(&variable))
                .unwrap_or_default()
        };
        let mut config = Self {
            auth: Auth::Offline,
            region: filled(auth.region.clone()),
            compartment: filled(file.compartment.clone()).or(filled(auth.compartment.clone())),
            vcn: filled(file.vcn.clone()),
            endpoint: filled(file.endpoint.clone()).map(|url| url.trim_end_matches('/').to_owned()),
            has_load_balancers: !load_balancer.disabled,
            subnets,
            security_mode: mode,
            security_lists: load_balancer.security_lists.clone(),
            adoptable_tag: setup.adoptable_tag.clone(),
            secret_namespaces: load_balancer.secret_namespaces.clone(),
            allowed_subnets: load_balancer.allowed_subnets.clone(),
            allowed_security_groups: load_balancer.allowed_security_groups.clone(),
            reads,
            writes,
            tags,
            common_tags,
            metrics: file.metrics.clone(),
            prefix: variable("LOAD_BALANCER_PREFIX").map_or_else(String::new, |variable| {
                if variable.ends_with('-') {
                    variable
                } else {
                    variable + "-"
                }
            }),
            is_ipv6: variable("CLUSTER_IP_FAMILY")
                .is_some_and(|variable| variable.eq_ignore_ascii_case("IPv6")),
            has_flex_cidr: is_on("ENABLE_FLEX_CIDR_CONTROLLER"),
            tags_instances: !is_on("DISABLE_INSTANCE_TAGGING_CONTROLLER"),
            metadata: variable("OCI_METADATA_BASE_URL").map_or_else(
                || METADATA.to_owned(),
                |url| url.trim_end_matches('/').to_owned(),
            ),
            environment,
            path,
        };
        let profile = filled(auth.profile.clone()).or_else(|| {
            config
                .environment
                .get("OCI_CONFIG_PROFILE")
                .map(str::to_owned)
        });
        config.auth = match () {
            () if config.environment.is_offline() => Auth::Offline,
            () if is_instance => Auth::Instance,
            () if file.use_workload_identity => Auth::Workload,
            () => match profile_file {
                Some(path) => {
                    Auth::Profile(path.into(), profile.unwrap_or_else(|| "DEFAULT".to_owned()))
                }
                None => auth
                    .clone()
                    .key(&mut mistakes)
                    .map_or(Auth::Offline, Auth::Key),
            },
        };
        if mistakes.is_empty() {
            Ok(config)
        } else {
            Err(Error::invalid(format!("{shown}: {}", mistakes.join("; "))))
        }
    }

    /// Reads the API key of the cloud configuration again.
    ///
    /// # Errors
    /// *Invalid*, if the file cannot be read, or has no API key.
    pub(crate) fn renewed_key(&self) -> Result<Option<ApiKey>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let Ok(text) = cloud_provider::files::read_to_string(path) else {
            return Ok(None);
        };
        let mut mistakes = Vec::new();
        let key = parse(&text, path)?.auth.key(&mut mistakes);
        if mistakes.is_empty() {
            Ok(key)
        } else {
            Err(Error::invalid(format!("{path}: {}", mistakes.join("; "))))
        }
    }
}

fn file_of(setup: &Setup, path: &str) -> Result<File> {
    setup
        .config
        .as_ref()
        .map_or_else(|| Ok(File::default()), |file| parse(&file.text, path))
}

/// Reads a profile of the file of Oracle's command line: an API key and the region, or a session token.
pub(crate) fn profile(path: &std::path::Path, name: &str) -> Result<BTreeMap<String, String>> {
    let shown = path.display();
    let text = cloud_provider::files::read_to_string(path)
        .map_err(|error| Error::unauthorized(format!("{shown} cannot be read: {error}")))?;
    let mut section = String::new();
    let mut service_settings = BTreeMap::new();
    let mut defaults = BTreeMap::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
    {
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            header.trim().clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=') {
            let of = if section == name {
                &mut service_settings
            } else {
                &mut defaults
            };
            if section == name || section == "DEFAULT" {
                of.insert(key.trim().to_owned(), value.trim().to_owned());
            }
        }
    }
    defaults.append(&mut service_settings);
    if defaults.is_empty() {
        Err(Error::unauthorized(format!(
            "{shown} has no profile {name:?}"
        )))
    } else {
        Ok(defaults)
    }
}
