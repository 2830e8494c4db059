//! The configuration: the keys of the cloud configuration, and environment variables. docs/providers/tencent.md is
//! generated from these declarations.

use cloud_provider::{AdoptableTag, Environment, Result, Setup};
use provider_kit::declared::Kind;
use provider_kit::document::Document;
use provider_kit::variables::{Variable, Variables};
use secrecy::SecretString;

const NAME: Kind<String> = Kind::of("a text without blanks", |text| {
    (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_owned())
});

provider_kit::declare! {
    /// The keys of the cloud configuration, in the order of the reference page.
    pub KEYS: "";

    /// Region of the cluster, such as `ap-guangzhou`.
    pub REGION: String = "region", kind(NAME), default_description("`TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_REGION`, or the region of the machine");
    /// VPC of the cluster. Only its instances are Nodes.
    pub VPC: String = "vpc_id", kind(NAME), default_description("`TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_VPC_ID`, or the VPC of the machine");
    /// ID of the key that signs requests.
    pub SECRET_ID: String = "secret_id", secret(), default_description("a variable, the OIDC role of the Pod, or the role of the machine");
    /// The key that signs requests.
    pub SECRET_KEY: String = "secret_key", secret();
    /// Name of the cluster route table. Without a name, routes are not managed.
    pub ROUTE_TABLE: String = "cluster_route_table", default_description("`TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_CLUSTER_ROUTE_TABLE`");
    /// ID of the cluster, in names and tags of load balancers.
    pub CLUSTER_ID: String = "cluster_id", kind(NAME), default_description("the UID of the namespace kube-system");
    /// Domain of the APIs, such as `internal.tencentcloudapi.com` within a VPC, or the URL of one endpoint for all.
    pub ENDPOINT: String = "endpoint_domain", kind(NAME), default("tencentcloudapi.com");
    /// CAM role of the machine.
    pub ROLE: String = "role_name", kind(NAME), default_description("the role that the metadata service names");
    /// URL of the metadata service.
    pub METADATA: String = "metadata_endpoint", kind(NAME), default("http://metadata.tencentyun.com");
    /// CIDR of the cluster route table, which is created at the start if it does not exist.
    pub ROUTE_TABLE_CIDR: ipnet::IpNet = "cluster_route_table_cidr";
}

provider_kit::declare! {
    /// The environment variables, in the order of the reference page.
    pub VARIABLES: "";

    /// Region of the cluster, if the file has none.
    pub ENV_REGION: String = "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_REGION", kind(NAME);
    /// VPC of the cluster, if the file has none.
    pub ENV_VPC: String = "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_VPC_ID", kind(NAME);
    /// ID of the key, if the file has none.
    pub ENV_SECRET_ID: String = "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_SECRET_ID", secret();
    /// The key, if the file has none.
    pub ENV_SECRET_KEY: String = "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_SECRET_KEY", secret();
    /// Name of the cluster route table, if the file has none.
    pub ENV_ROUTE_TABLE: String = "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_CLUSTER_ROUTE_TABLE";
    /// ID of the key, as the vendor's own tools read it.
    pub SDK_SECRET_ID: String = "TENCENTCLOUD_SECRET_ID", secret();
    /// The key, as the vendor's own tools read it.
    pub SDK_SECRET_KEY: String = "TENCENTCLOUD_SECRET_KEY", secret();
    /// Token of a temporary key.
    pub SDK_TOKEN: String = "TENCENTCLOUD_SESSION_TOKEN", secret();
    /// Region of the OIDC role of the Pod.
    pub OIDC_REGION: String = "TKE_REGION";
    /// OIDC provider of the cluster.
    pub OIDC_PROVIDER: String = "TKE_PROVIDER_ID";
    /// File with the OIDC token of the Pod, which is read again at each renewal.
    pub OIDC_TOKEN: String = "TKE_WEB_IDENTITY_TOKEN_FILE";
    /// ARN of the CAM role that is assumed with the OIDC token.
    pub OIDC_ROLE: String = "TKE_ROLE_ARN";
}

/// A CAM role that is assumed with the OIDC token of the Pod.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// Region of the request.
    pub region: String,
    /// ID of the OIDC provider.
    pub provider: String,
    /// Path of the token.
    pub token_file: String,
    /// ARN of the role.
    pub role: String,
}

/// A key in the configuration: its ID, the key, and the token of a temporary one.
pub type StaticKey = (String, SecretString, Option<SecretString>);

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "docs/providers/tencent.md explains each key")]
pub struct Config {
    pub adoptable_tag: Option<AdoptableTag>,
    pub region: Option<String>,
    pub vpc: Option<String>,
    pub key: Option<StaticKey>,
    pub oidc: Option<Oidc>,
    pub route_table: Option<String>,
    pub route_table_cidr: Option<ipnet::IpNet>,
    pub cluster_id: Option<String>,
    pub role: Option<String>,
    pub metadata: String,
    endpoint: String,
}

impl Config {
    /// Reads the file and the variables. A value in the file has precedence.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes.
    pub fn read(setup: &Setup) -> Result<Self> {
        let keys = keys(setup)?;
        let mut file = Variables::of(&keys);
        let mut variables = Variables::of(&setup.environment);
        let mut either = |key: &Variable<String>, variable: &Variable<String>| {
            file.get(key)
                .filter(|key| !key.is_empty())
                .or_else(|| variables.get(variable))
        };
        let region = either(&REGION, &ENV_REGION);
        let vpc = either(&VPC, &ENV_VPC);
        let route_table = either(&ROUTE_TABLE, &ENV_ROUTE_TABLE);
        let configured_keys = (
            either(&SECRET_ID, &ENV_SECRET_ID),
            either(&SECRET_KEY, &ENV_SECRET_KEY),
        );
        let of_sdk = (
            variables.get(&SDK_SECRET_ID),
            variables.get(&SDK_SECRET_KEY),
        );
        let key = match (configured_keys, of_sdk) {
            ((Some(id), Some(key)), _) => Some((id, key.into(), None)),
            ((None, None), (Some(id), Some(key))) => Some((
                id,
                key.into(),
                variables.get(&SDK_TOKEN).map(SecretString::from),
            )),
            ((None, None), (None, None)) => None,
            _ => {
                file.mistake("only one of secret_id and secret_key is set; set both in the file or both as variables");
                None
            }
        };
        let oidc = match [&OIDC_REGION, &OIDC_PROVIDER, &OIDC_TOKEN, &OIDC_ROLE]
            .map(|declaration| variables.get(declaration))
        {
            [Some(region), Some(provider), Some(token_file), Some(role)] => Some(Oidc {
                region,
                provider,
                token_file,
                role,
            }),
            _ => None,
        };
        let config = Self {
            adoptable_tag: setup.adoptable_tag.clone(),
            region,
            vpc,
            key,
            oidc,
            route_table,
            route_table_cidr: file.get(&ROUTE_TABLE_CIDR),
            cluster_id: file.get(&CLUSTER_ID),
            role: file.get(&ROLE),
            metadata: file.get(&METADATA).unwrap_or_default(),
            endpoint: file.get(&ENDPOINT).unwrap_or_default(),
        };
        file.finish().and(variables.finish())?;
        Ok(config)
    }

    /// Returns the URL of a product.
    #[must_use]
    pub fn endpoint(&self, product: &str) -> String {
        match self.endpoint.contains("://") {
            true => self.endpoint.clone(),
            false => format!("https://{product}.{}", self.endpoint),
        }
    }
}

/// Returns the keys of the file as texts. Unknown keys are logged, because the Go program ignores them.
fn keys(setup: &Setup) -> Result<Environment> {
    Document::of_option(setup.config.as_ref())?.texts("", &[KEYS], &[])
}
