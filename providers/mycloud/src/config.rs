//! The configuration file, in the format of git's configuration. For each key there is an environment variable that
//! overrides it.

use std::time::Duration;

use cloud_provider::{AdoptableTag, ConfigFile, Result, Setup};
use provider_kit::declared::{Declaration, Defaults, Kind, Value};
use provider_kit::gcfg::{GitConfigSettings, TRUTH};
use provider_kit::transport::{Budget, Builder, Credential, Refill, RetryPolicy, Tls, Transport};

use crate::annotations::defaults;

/// A setting with a fixed set of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Choice(pub &'static str);

/// Without words, because each declaration sets its own.
impl Value for Choice {
    const KIND: Kind<Self> = Kind::one_of(&[]);
}

/// The words that a setting accepts.
macro_rules! words {
    ($($word:literal),+) => {
        provider_kit::declared::Kind::one_of(&[$(($word, crate::config::Choice($word))),+])
    };
}
pub(crate) use words;

provider_kit::declare! {
    /// Every key of the file, except those of `[LoadBalancerDefaults]`.
    pub KEYS: "[";

    /// Base URL of the API. Required.
    pub ENDPOINT: String = "Global] endpoint";
    /// Region of the cluster. Required.
    pub REGION: String = "Global] region";
    /// Name of the cluster in names, labels and owners. Required.
    pub CLUSTER_ID: String = "Global] cluster-id", kind(Kind::of("1 to 32 lower-case letters, digits and inner `-`", cluster_id));
    /// Token for the API.
    pub TOKEN: String = "Global] token", secret();
    /// A file with the API token, which is read again when it changes.
    pub TOKEN_FILE: String = "Global] token-file";
    /// PEM file of the only certificates that are trusted.
    pub CA_FILE: String = "Global] ca-file";
    /// Trusts any certificate. For tests.
    pub INSECURE: bool = "Global] insecure-skip-verify", kind(TRUTH), default("false");
    /// Time limit of one request.
    pub TIMEOUT: Duration = "Global] timeout", default("30s");
    /// Maximum number of requests per second, after a burst of `burst` requests.
    pub QPS: u32 = "Global] qps", kind(Kind::number(1, 1000)), default("10");
    /// Number of requests that may be sent at once before `qps` limits the rate.
    pub BURST: u32 = "Global] burst", kind(Kind::number(1, 1000)), default("20");
    /// Maximum age of the cached list of instances.
    pub CACHE_TTL: Duration = "Instances] cache-ttl", default("10s");
    /// Field of an instance that equals the name of its Node.
    pub NODE_NAME: Choice = "Instances] node-name", kind(words!("hostname", "name", "id", "private-ip")), default("hostname");
    /// Address families of Nodes, in the order of their addresses.
    pub ADDRESS_FAMILIES: Choice = "Instances] address-families",
        kind(words!("ipv4", "ipv6", "ipv4,ipv6", "ipv6,ipv4")), default("ipv4");
    /// Switch for the management of load balancers.
    pub LOAD_BALANCERS: bool = "LoadBalancer] enabled", kind(TRUTH), default("true");
    /// VPC of new load balancers.
    pub VPC_ID: String = "LoadBalancer] vpc-id";
    /// Subnet of new load balancers. Required, unless load balancers are disabled.
    pub SUBNET_ID: String = "LoadBalancer] subnet-id";
    /// Network of new load balancers.
    pub NETWORK_TYPE: Choice = "LoadBalancer] network-type", kind(words!("intranet", "internet")), default("intranet");
    /// Size of new load balancers.
    pub SPEC: Choice = "LoadBalancer] spec", kind(words!("small", "medium", "large", "xlarge")), default("small");
    /// Annotation that makes a Node a backend.
    pub BACKEND_ANNOTATION: String = "LoadBalancer] backend-annotation", default("node.mycloud.io/ingress");
    /// Policy for a Service that selects no Node: keep its present backends, use all Nodes, or use none.
    pub EMPTY_BACKEND_POLICY: Choice = "LoadBalancer] empty-backend-policy", kind(words!("keep", "all", "none")), default("keep");
    /// Protects load balancers against deletion by others.
    pub DELETE_PROTECTION: bool = "LoadBalancer] delete-protection", kind(TRUTH), default("false");
    /// Longest wait for changes in one sync. A longer change is polled again after 5 s.
    pub ACTION_TIMEOUT: Duration = "LoadBalancer] action-timeout", default("3m");
    /// Route table of the cluster's VPC. Enables routes.
    pub ROUTE_TABLE: String = "Route] route-table-id";
}

fn cluster_id(text: &str) -> Option<String> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = (1..=32).contains(&text.len()) && text.bytes().all(is_inner);
    (is_valid && !text.starts_with('-') && !text.ends_with('-')).then(|| text.to_owned())
}

/// The configuration of the provider.
#[derive(Clone)]
pub struct Config {
    /// The region of the cluster.
    pub region: String,
    /// The name of the cluster.
    pub cluster_id: String,
    /// The annotations of Nodes on which backends depend: the ingress annotation and the weight.
    pub node_annotations: [String; 2],
    /// Tag that a load balancer must have before a Service adopts it.
    pub adoptable_tag: Option<AdoptableTag>,
    /// The texts of all keys, and the defaults of annotations.
    pub settings: Defaults,
}

impl Config {
    /// Reads the file and the variables, and prepares the connection. Sends no request.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes.
    pub fn read(setup: &Setup) -> Result<(Self, Builder)> {
        let mut file = GitConfigSettings::of(&with_variables(setup));
        let settings = file
            .defaults("", KEYS)
            .with(&file.defaults("", defaults::ALL));
        let is_offline = setup.environment.is_offline();
        for key in [&ENDPOINT, &REGION, &CLUSTER_ID] {
            if !file.is_set(key) && !is_offline {
                file.refuse(key, "is missing");
            }
        }
        if settings.get(&LOAD_BALANCERS) == Some(true) && !file.is_set(&SUBNET_ID) && !is_offline {
            file.refuse(&SUBNET_ID, "is missing; set it, or enabled = false");
        }
        let credential = match (file.get(&TOKEN), settings.get(&TOKEN_FILE)) {
            _ if is_offline => Credential::none(),
            (Some(token), None) => Credential::token(token),
            (None, Some(path)) => Credential::file(path).unwrap_or_else(|error| {
                file.refuse(&TOKEN_FILE, &error.to_string());
                Credential::none()
            }),
            _ => {
                file.refuse(&TOKEN, "or token-file is required, and only one of the two");
                Credential::none()
            }
        };
        file.unknown(&[KEYS, defaults::ALL]);
        file.finish()?;
        let text = |key: &Declaration<String>| settings.get(key).unwrap_or_default();
        let roots = settings
            .get(&CA_FILE)
            .filter(|_| !is_offline)
            .map(Into::into);
        let tls = Tls {
            roots,
            insecure: settings.get(&INSECURE) == Some(true),
            ..Tls::default()
        };
        let timeout = settings.get(&TIMEOUT).unwrap_or_default();
        let endpoint = Some(text(&ENDPOINT)).filter(|url| !url.is_empty() || !is_offline);
        let endpoint = endpoint.unwrap_or_else(|| "https://offline.invalid".to_owned());
        let http = Transport::builder(endpoint)
            .credential(credential)
            .tls(tls)
            .setup(setup);
        let qps = settings.get(&QPS).unwrap_or_default();
        let burst = settings.get(&BURST).unwrap_or_default();
        let budget = Budget {
            share_left_to_others: 0.0,
            refill: Refill::per_second(qps, burst),
        };
        let http = http
            .retry_policy(RetryPolicy {
                timeout,
                ..RetryPolicy::default()
            })
            .budget(budget);
        let region = text(&REGION);
        let cluster_id = text(&CLUSTER_ID);
        let node_annotations = [
            text(&BACKEND_ANNOTATION),
            "node.mycloud.io/dlb-weight".to_owned(),
        ];
        let adoptable_tag = setup.adoptable_tag.clone();
        Ok((
            Self {
                region,
                cluster_id,
                node_annotations,
                adoptable_tag,
                settings,
            },
            http,
        ))
    }

    /// Returns the configured word, else the default.
    pub(crate) fn word(&self, key: &Declaration<Choice>) -> &'static str {
        self.settings.get(key).map_or("", |word| word.0)
    }

    /// Returns the owner of listeners, groups, access lists and routes of this cluster.
    pub(crate) fn owner(&self) -> String {
        format!("k8s:{}", self.cluster_id)
    }
}

/// The file, followed by a section for each variable that is set: the last value of a key counts.
fn with_variables(setup: &Setup) -> ConfigFile {
    let (path, text) = setup
        .config
        .as_ref()
        .map_or(("no configuration file", ""), |file| {
            (&file.path, &file.text)
        });
    let mut text = text.to_owned();
    for row in KEYS
        .iter()
        .chain(defaults::ALL)
        .map(|setting| setting.row())
    {
        let Some((section, key)) = row.key.trim_start_matches('[').split_once("] ") else {
            continue;
        };
        let name = format!("MYCLOUD_{section}_{key}")
            .to_uppercase()
            .replace('-', "_");
        if let Some(value) = setup.environment.get(&name) {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            text += &format!("\n[{section}]\n{key} = \"{value}\"\n");
        }
    }
    ConfigFile {
        path: path.to_owned(),
        text,
    }
}
