//! The configuration: a file in the form of the Go program (JSON), and environment variables. docs/providers/baidu.md
//! is generated from these declarations.

use std::path::PathBuf;

use cloud_provider::{AdoptableTag, Environment, Error, Result, Setup};
use provider_kit::declared::Kind;
use provider_kit::document::Document;
use provider_kit::transport::ValueOrFile;
use provider_kit::variables::Variables;

/// A word that becomes part of a host name.
const REGION_FORM: Kind<String> = Kind::of("a region such as bj, gz, su, hkg, fwh, bd", |text| {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (!text.is_empty() && text.bytes().all(is_inner)).then(|| text.to_owned())
});

provider_kit::declare! {
    /// The keys of the configuration file, in the order of the reference page. Upper and lower case are the same.
    pub KEYS: "";

    /// ID of the CCE cluster, `c-…`: part of names and descriptions. Required.
    pub CLUSTER_ID: String = "ClusterId";
    /// Region of the cluster.
    pub REGION: String = "Region", kind(REGION_FORM), default_description("the region in the host of `Endpoint`");
    /// ID of the access key.
    pub ACCESS_KEY_ID: String = "AccessKeyID", default_description("the variables below, or else the token of the CCE add-on");
    /// Secret access key that belongs to `AccessKeyID`.
    pub SECRET_ACCESS_KEY: String = "SecretAccessKey";
    /// VPC of the cluster: its routes, and the VPC of load balancers.
    pub VPC_ID: String = "VpcId", default_description("the VPC of the cluster's first Node");
    /// Subnet of load balancers.
    pub SUBNET_ID: String = "SubnetId", default_description("the subnet of the cluster's first Node");
    /// URL of the CCE API. Only the region in its host name is read.
    pub ENDPOINT: String = "Endpoint";
    /// If set, requests and answers are logged, without signatures and secrets.
    pub DEBUG: bool = "Debug", default("false");
    /// Accepted without effect: the program uses no cluster name.
    pub CLUSTER_NAME: String = "ClusterName";
    /// Accepted without effect: the program uses no master ID.
    pub MASTER_ID: String = "MasterId";
    /// Accepted without effect: the program uses no Node name.
    pub NODE_NAME: String = "NodeName";
}

provider_kit::declare! {
    /// The environment variables, in the order of the reference page.
    pub VARIABLES: "";

    /// Access key ID, if the file has none. A key in a file is read again for each request.
    pub KEY_ID_VARIABLE: String = "BCE_ACCESS_KEY_ID", secret();
    /// Secret access key that belongs to `BCE_ACCESS_KEY_ID`.
    pub SECRET_VARIABLE: String = "BCE_SECRET_ACCESS_KEY", secret();
    /// Session token of temporary credentials (STS).
    pub TOKEN_VARIABLE: String = "BCE_SESSION_TOKEN", secret();
    /// Host of the CCE gateway, to which requests with the token of the CCE add-on are sent.
    pub GATEWAY: String = "CCE_GATEWAY_HOST", default_description("`cce-gateway.<region>.baidubce.com`");
    /// Directory of the token of the CCE add-on, file `token`. Used if there are no keys.
    pub PLUGIN_TOKEN: String = "CCE_PLUGIN_TOKEN_DIR", default("/var/run/secrets/cce/cce-plugin-token");
    /// URL below which all products are, for private clouds and tests.
    pub BCE_ENDPOINT: String = "BCE_ENDPOINT", default_description("`https://<product>.<region>.baidubce.com`");
    /// If set, the instance type of a Node is `BCC` or `GPU`, as the Go program writes it.
    pub LEGACY_TYPE: bool = "CCE_LEGACY_INSTANCE_TYPE", default("false");
}

/// The source of credentials.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Access key ID, secret access key, and session token of temporary credentials.
    Keys(ValueOrFile, ValueOrFile, Option<ValueOrFile>),
    /// Directory of the token of the CCE add-on, for requests to the CCE gateway.
    Plugin(PathBuf),
    /// The cloud is never called.
    Offline,
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "docs/providers/baidu.md explains each setting")]
pub struct Config {
    pub adoptable_tag: Option<AdoptableTag>,
    pub cluster: String,
    pub region: String,
    pub vpc: Option<String>,
    pub subnet: Option<String>,
    pub credentials: Credentials,
    pub gateway: String,
    pub endpoint: Option<String>,
    pub is_type_legacy: bool,
    pub debug: bool,
}

impl Config {
    /// Reads the configuration.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes.
    pub fn read(setup: &Setup) -> Result<Self> {
        let is_offline = setup.environment.is_offline();
        let (path, file) = file(setup)?;
        let mut keys = Variables::of(&file);
        let mut variables = Variables::of(&setup.environment);
        let endpoint = keys.get(&ENDPOINT);
        let region = keys.get(&REGION);
        let of_endpoint = || {
            REGION_FORM.parse(
                endpoint
                    .as_deref()?
                    .split("cce.")
                    .nth(1)?
                    .split('.')
                    .next()?,
            )
        };
        let region = region.or_else(of_endpoint).unwrap_or_default();
        let cluster = keys.get(&CLUSTER_ID).unwrap_or_default();
        for (key, value) in [(&CLUSTER_ID, &cluster), (&REGION, &region)] {
            if value.is_empty() && !is_offline {
                keys.mistake(format!(
                    "{} is missing; set it in the cloud configuration",
                    key.key()
                ));
            }
        }
        let configured_keys =
            [&ACCESS_KEY_ID, &SECRET_ACCESS_KEY].map(|key| keys.get(key).map(ValueOrFile::value));
        let [id, secret, token] = [&KEY_ID_VARIABLE, &SECRET_VARIABLE, &TOKEN_VARIABLE]
            .map(|variable| variables.secret(variable).map(ValueOrFile::from));
        let plugin = variables
            .get(&PLUGIN_TOKEN)
            .map(PathBuf::from)
            .unwrap_or_default();
        let credentials = match (configured_keys, [id, secret]) {
            _ if is_offline => Credentials::Offline,
            ([Some(id), Some(secret)], _) => Credentials::Keys(id, secret, None),
            ([None, None], [Some(id), Some(secret)]) => Credentials::Keys(id, secret, token),
            ([None, None], [None, None]) if plugin.join("token").exists() => {
                Credentials::Plugin(plugin)
            }
            _ => {
                keys.mistake(format!(
                    "there are no credentials; set {} and {}, or the variables {} and {}, or mount the token of the CCE add-on at {}",
                    ACCESS_KEY_ID.key(), SECRET_ACCESS_KEY.key(), KEY_ID_VARIABLE.key(), SECRET_VARIABLE.key(), plugin.display()
                ));
                Credentials::Offline
            }
        };
        let config = Self {
            adoptable_tag: setup.adoptable_tag.clone(),
            gateway: variables
                .get(&GATEWAY)
                .unwrap_or_else(|| format!("cce-gateway.{region}.baidubce.com")),
            endpoint: variables.get(&BCE_ENDPOINT),
            is_type_legacy: variables.get(&LEGACY_TYPE).unwrap_or_default(),
            vpc: keys.get(&VPC_ID),
            subnet: keys.get(&SUBNET_ID),
            debug: keys.get(&DEBUG).unwrap_or_default(),
            credentials,
            cluster,
            region,
        };
        let mistakes: Vec<_> = [
            keys.finish().map_err(|error| format!("{path}: {error}")),
            variables.finish().map_err(|error| error.to_string()),
        ]
        .into_iter()
        .filter_map(Result::err)
        .collect();
        if mistakes.is_empty() {
            Ok(config)
        } else {
            Err(Error::invalid(mistakes.join("; ")))
        }
    }

    /// Returns the description of objects of this cluster.
    pub(crate) fn description(&self) -> String {
        format!("{}{}", crate::GENERATED, self.cluster)
    }
}

/// Returns the path of the configuration file, and its known keys with their values. Unknown keys are logged.
fn file(setup: &Setup) -> Result<(String, Environment)> {
    let path = setup
        .config
        .as_ref()
        .map_or("no configuration file", |file| &file.path);
    Ok((
        path.to_owned(),
        Document::of_option(setup.config.as_ref())?.texts("", &[KEYS], &[])?,
    ))
}
