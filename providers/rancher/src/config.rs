//! The configuration: environment variables and `--cloud-config`. docs/providers/rancher.md is generated from these
//! declarations.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use cloud_provider::{ConfigFile, Result, Setup};
use provider_kit::declared::{Kind, Value, forms};
use provider_kit::gcfg::GitConfigSettings;
use provider_kit::transport::{Credential, ValueOrFile};
use provider_kit::variables::Variables;

/// Ports and ranges of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRanges(Vec<RangeInclusive<u16>>);

impl PortRanges {
    /// Returns `true` if the port is one of these.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }
}

impl fmt::Display for PortRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        f.write_str(&self.0.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

impl Value for PortRanges {
    const KIND: Kind<Self> = Kind::of(
        "a comma list of ports and ranges, such as 80,443,8000-8999",
        |text| {
            let one = |text: &str| {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last): (u16, u16) =
                    (first.trim().parse().ok()?, last.trim().parse().ok()?);
                (0 < first && first <= last).then_some(first..=last)
            };
            let all: Vec<_> = forms::items(text).map(one).collect::<Option<_>>()?;
            (!all.is_empty()).then_some(Self(all))
        },
    );
}

const SECONDS: Kind<u64> = Kind::number(1, 3600);
const INSTANCE_TYPES: Kind<bool> = Kind::one_of(&[("rancher", false), ("driver", true)]);

provider_kit::declare! {
    /// The variables, in the order of the reference page.
    pub VARIABLES: "";

    /// URL of the API, such as `https://rancher.example.org/v2-beta/projects/1a5`. Without a path, or with the path
    /// `/v1`, the API `v2-beta` is used. Required, here or in the file.
    pub URL: String = "CATTLE_URL";
    /// Access key of an environment API key. Required, here or in the file.
    pub ACCESS_KEY: String = "CATTLE_ACCESS_KEY", secret();
    /// Secret key of an environment API key. Required, here or in the file.
    pub SECRET_KEY: String = "CATTLE_SECRET_KEY", secret();
    /// Seconds that one request may take.
    pub TIMEOUT: u64 = "RANCHER_CLIENT_TIMEOUT", kind(SECONDS), default("10"), lenient();
    /// Logs requests and answers.
    pub DEBUG: bool = "RANCHER_CLIENT_DEBUG", default("false"), lenient();
    /// The most containers that the annotation `scale` of a Service may ask for. They run on hosts that all tenants share.
    pub MAX_SCALE: u32 = "CATTLE_MAX_SCALE", kind(Kind::number(1, 1000)), default("1000");
    /// Ports that load balancers of Services may publish on hosts. A port that one Service publishes is taken for all
    /// others, and for other stacks of the environment.
    pub SERVICE_PORTS: PortRanges = "CATTLE_SERVICE_PORTS", default_description("all ports");
}

provider_kit::declare! {
    /// The keys of the file, in the order of the reference page.
    pub KEYS: "[Global] ";

    /// URL of the API. The variable `CATTLE_URL` takes precedence.
    pub FILE_URL: String = "cattle-url";
    /// Access key. The variable `CATTLE_ACCESS_KEY` takes precedence.
    pub FILE_ACCESS_KEY: String = "cattle-access-key", secret();
    /// Secret key. The variable `CATTLE_SECRET_KEY` takes precedence.
    pub FILE_SECRET_KEY: String = "cattle-secret-key", secret();
    /// Label of hosts with the zone of their Nodes.
    pub ZONE_LABEL: String = "zone-label", default("zone");
    /// Label of hosts with the region of their Nodes.
    pub REGION_LABEL: String = "region-label", default("region");
    /// Instance type of Nodes: the word `rancher`, or the machine driver of the host.
    pub INSTANCE_TYPE: bool = "instance-type", kind(INSTANCE_TYPES), default("rancher");
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// Base URL of the API, with its version.
    pub endpoint: String,
    /// Access key and secret key.
    pub credential: Credential,
    /// Time that one request may take.
    pub timeout: Duration,
    /// If set, requests and answers are logged.
    pub debug: bool,
    /// The most containers of a load balancer.
    pub max_scale: u32,
    /// The ports that load balancers may publish; `None` for all.
    pub service_ports: Option<PortRanges>,
    /// Label of hosts with their zone.
    pub zone_label: String,
    /// Label of hosts with their region.
    pub region_label: String,
    /// If set, the instance type of a Node is the machine driver of its host.
    pub types_are_drivers: bool,
}

impl Config {
    /// Reads the environment variables and the file.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes in the variables, or else in the file.
    pub fn read(setup: &Setup) -> Result<Self> {
        let mut variables = Variables::of(&setup.environment);
        let none = ConfigFile {
            path: String::new(),
            text: String::new(),
        };
        let mut file = GitConfigSettings::of(setup.config.as_ref().unwrap_or(&none));
        let url = variables.get(&URL).or_else(|| file.get(&FILE_URL));
        let mut key = |variable, key| {
            let secret = variables.secret(variable).map(ValueOrFile::from);
            secret.or_else(|| file.get(key).map(|text| ValueOrFile::value(&text)))
        };
        let keys = (
            key(&ACCESS_KEY, &FILE_ACCESS_KEY),
            key(&SECRET_KEY, &FILE_SECRET_KEY),
        );
        let is_offline = setup.environment.is_offline();
        if url.is_none() && !is_offline {
            variables.mistake(
                "CATTLE_URL is required: the URL of the API, such as https://rancher.example.org/v2-beta/projects/1a5",
            );
        }
        let credential = match keys {
            (Some(access), Some(secret)) => {
                Credential::basic_files(access, secret).unwrap_or_else(|error| {
                    variables.mistake(error.to_string());
                    Credential::none()
                })
            }
            _ => {
                variables.mistake(
                    "CATTLE_ACCESS_KEY and CATTLE_SECRET_KEY are required: an environment API key",
                );
                Credential::none()
            }
        };
        let config = Self {
            endpoint: endpoint(&url.unwrap_or_else(|| "http://offline.invalid".to_owned())),
            credential,
            timeout: Duration::from_secs(variables.get(&TIMEOUT).unwrap_or_default()),
            debug: variables.get(&DEBUG).unwrap_or_default(),
            max_scale: variables.get(&MAX_SCALE).unwrap_or(1000),
            service_ports: variables.get(&SERVICE_PORTS),
            zone_label: file.get(&ZONE_LABEL).unwrap_or_default(),
            region_label: file.get(&REGION_LABEL).unwrap_or_default(),
            types_are_drivers: file.get(&INSTANCE_TYPE).unwrap_or_default(),
        };
        variables.misspelt("CATTLE_", VARIABLES);
        variables.finish()?;
        file.unknown(&[KEYS]);
        file.finish()?;
        Ok(config)
    }
}

/// Returns the base URL with the version of the API.
fn endpoint(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let host = url.find("://").map_or(0, |at| at + 3);
    let (host, path) = url.split_at(url[host..].find('/').map_or(url.len(), |at| host + at));
    match path.strip_prefix("/v1") {
        _ if path.is_empty() => format!("{host}/v2-beta"),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{host}/v2-beta{rest}"),
        _ => url.to_owned(),
    }
}
