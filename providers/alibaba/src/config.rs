//! The configuration: the keys below `Global` of the cloud configuration, and environment variables.
//! docs/providers/alibaba.md is generated from these declarations.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{AdoptableTag, Environment, Error, Result, Setup};
use provider_kit::declared::Kind;
use provider_kit::document::Document;
use provider_kit::variables::Variables;
use secrecy::SecretString;

const BACKEND: Kind<bool> = Kind::one_of(&[("ecs", false), ("eni", true)]);
const NETWORK: Kind<bool> = Kind::one_of(&[("vpc", true), ("public", false)]);
const SIGNATURE: Kind<bool> = Kind::one_of(&[("3", false), ("1", true)]);
const BATCH: Kind<u32> = Kind::number(1, 40);
/// vSwitches as `zone:vsw-1,zone:vsw-2`; malformed items are skipped.
const VSWITCHES: Kind<Vec<String>> = Kind::of("a comma list of zone:vswitch", |text| {
    let items = text
        .split([',', ';'])
        .filter_map(|item| Some(item.trim().split_once(':')?.1.to_owned()));
    Some(items.filter(|id| !id.is_empty()).collect())
});

provider_kit::declare! {
    /// The keys below `Global`, in the order of the reference page.
    pub GLOBAL: "Global.";

    /// ID of the access key, in base64.
    pub KEY_ID: String = "accessKeyID", secret(), default_description("`ACCESS_KEY_ID`, or a role");
    /// Secret of the access key, in base64.
    pub KEY_SECRET: String = "accessKeySecret", secret(), default_description("`ACCESS_KEY_SECRET`, or a role");
    /// ID of the cluster, in names and tags.
    pub CLUSTER: String = "clusterID", default("clusterid");
    /// Key of the tag that the instances of the cluster have.
    pub CLUSTER_TAG: String = "kubernetesClusterTag", default("ack.aliyun.com");
    /// Region of the cluster.
    pub REGION: String = "region", default_description("the region of the machine");
    /// VPC of the cluster.
    pub VPC: String = "vpcid", default_description("the VPC of the machine");
    /// vSwitches of internal CLBs, with their zones. Items of another form are skipped.
    pub VSWITCH: Vec<String> = "vswitchid", kind(VSWITCHES), default_description("the vSwitch of the machine");
    /// Accepted without effect: the API tells the zones.
    pub ZONE: String = "zoneid";
    /// Resource group of new load balancers and security groups.
    pub RESOURCE_GROUP: String = "resourceGroupID";
    /// Route tables of Pod routes.
    pub ROUTE_TABLES: Vec<String> = "routeTableIDs", default_description("the one table of the VPC");
    /// Cloud Enterprise Network (CEN) that Pod routes are published to.
    pub CEN: String = "cenID", default_description("routes are not published");
    /// Kind of backends of Services without the annotation `backend-type`.
    pub BACKEND_TYPE: bool = "serviceBackendType", kind(BACKEND), default("ecs");
    /// Refuses CLBs with a public address.
    pub NO_PUBLIC: bool = "disablePublicSLB", default("false");
    /// Features with `=true` or `=false`: `IPv6DualStack`, `LoadBalancerTypeAnnotation`; others have no effect.
    pub FEATURES: BTreeMap<String, String> = "featureGates";
}

provider_kit::declare! {
    /// The environment variables, in the order of the reference page.
    pub VARIABLES: "";

    /// ID of the access key, if the file has none.
    pub ENV_KEY_ID: String = "ACCESS_KEY_ID";
    /// Secret of the access key, if the file has none.
    pub ENV_KEY_SECRET: String = "ACCESS_KEY_SECRET", secret();
    /// ARN of the RAM role that is assumed with an OIDC token (RRSA).
    pub ROLE: String = "ALIBABA_CLOUD_ROLE_ARN";
    /// ARN of the OIDC provider of the cluster.
    pub OIDC_PROVIDER: String = "ALIBABA_CLOUD_OIDC_PROVIDER_ARN";
    /// File with the OIDC token of the Pod, which is read again at each renewal.
    pub OIDC_TOKEN: String = "ALIBABA_CLOUD_OIDC_TOKEN_FILE";
    /// File with encrypted STS credentials, as add-ons of ACK have it.
    pub TOKEN_FILE: String = "ALIBABA_CLOUD_TOKEN_CONFIG", default("/var/addon/token-config");
    /// Other endpoint of ECS.
    pub ECS: String = "ECS_ENDPOINT";
    /// Other endpoint of the VPC API.
    pub VPC_API: String = "VPC_ENDPOINT";
    /// Other endpoint of CLB.
    pub SLB: String = "SLB_ENDPOINT";
    /// Other endpoint of NLB.
    pub NLB: String = "NLB_ENDPOINT";
    /// Other endpoint of the CEN API.
    pub CBN: String = "CBN_ENDPOINT", default_description("`https://cbn.aliyuncs.com`");
    /// Other endpoint of the Lingjun API.
    pub EFLO: String = "EFLO_CONTROLLER_ENDPOINT";
    /// Other endpoint of STS.
    pub STS: String = "STS_ENDPOINT";
    /// Other endpoint of the metadata service.
    pub METADATA: String = "METADATA_ENDPOINT", default("http://100.100.100.200");
    /// `HTTP` to send requests without TLS.
    pub SCHEME: String = "ALICLOUD_CLIENT_SCHEME", default("HTTPS");
    /// Header of that name, which private clouds require.
    pub PRIVATE: String = "X-ACSPROXY-ASCM-CONTEXT";
    /// Version of the signature: `3`, or `1` for old private clouds.
    pub SIGNATURE_VERSION: bool = "ALIBABA_CLOUD_SIGNATURE_VERSION", kind(SIGNATURE), default("3");
}

provider_kit::declare! {
    /// The flags of the Go program that the provider reads.
    pub FLAGS: "--";

    /// Endpoints within a VPC, or public ones.
    pub ENDPOINTS: bool = "network", kind(NETWORK), default("vpc");
    /// Reads the metadata service with a token.
    pub IMDSV2: bool = "enable-imdsv2", default("true");
    /// Leaves the source and destination check of instances on.
    pub SKIP_CHECK: bool = "skip-disable-source-dest-check", default("false");
    /// Refused if set: `cloud-controller-manager plan` shows what would be changed.
    pub DRY_RUN: bool = "dry-run", default("false");
    /// Backends in one request; CLB takes 20 at most.
    pub BATCH_SIZE: u32 = "sg-batch-size", kind(BATCH), default("40");
}

/// Keys of the file without an effect here.
const INERT: [&str; 9] = [
    "uid",
    "serviceMaxConcurrentReconciles",
    "nodeMaxConcurrentReconciles",
    "routeMaxConcurrentReconciles",
    "nodeMonitorPeriod",
    "nodeAddrSyncPeriod",
    "privateZoneId",
    "privateZoneRecordTTL",
    "token",
];

/// A role that is assumed with an OIDC token.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// ARN of the role.
    pub role: String,
    /// ARN of the OIDC provider.
    pub provider: String,
    /// Path of the token.
    pub token_file: String,
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "docs/providers/alibaba.md explains each key")]
pub struct Config {
    pub adoptable_tag: Option<AdoptableTag>,
    pub access_key: Option<(String, SecretString)>,
    pub oidc: Option<Oidc>,
    pub token_file: PathBuf,
    pub cluster: String,
    pub cluster_tag: String,
    pub region: Option<String>,
    pub vpc: Option<String>,
    pub vswitches: Vec<String>,
    pub resource_group: Option<String>,
    pub route_tables: Vec<String>,
    pub cen: Option<String>,
    pub has_no_public: bool,
    pub has_eni_backends: bool,
    pub has_dual_stack: bool,
    pub has_type_annotation: bool,
    pub metadata_endpoint: String,
    pub private_cloud: Option<String>,
    pub is_legacy_signature: bool,
    pub has_imdsv2: bool,
    pub skips_check: bool,
    pub batch: usize,
    is_in_vpc: bool,
    scheme: &'static str,
    endpoints: BTreeMap<&'static str, String>,
}

impl Config {
    /// Reads the file, the variables and the flags.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes.
    pub fn read(setup: &Setup) -> Result<Self> {
        let global = global(setup)?;
        let mut file = Variables::of(&global);
        let mut flags = Variables::of(&setup.flags);
        let mut variables = Variables::of(&setup.environment);
        let features = file.get(&FEATURES).unwrap_or_default();
        let has = |name: &str| features.get(name).is_some_and(|name| name == "true");
        let keys = [file.get(&KEY_ID), file.get(&KEY_SECRET)]
            .map(|text| text.filter(|text| !text.is_empty()));
        let access_key = match keys {
            [Some(id), Some(secret)] => decoded(&id).zip(decoded(&secret)).or_else(|| {
                file.mistake(
                    "Global.accessKeyID and Global.accessKeySecret must be texts in base64",
                );
                None
            }),
            [None, None] => variables
                .get(&ENV_KEY_ID)
                .zip(variables.get(&ENV_KEY_SECRET)),
            _ => {
                file.mistake(
                    "only one of Global.accessKeyID and Global.accessKeySecret is set; set both",
                );
                None
            }
        };
        let role = [
            variables.get(&ROLE),
            variables.get(&OIDC_PROVIDER),
            variables.get(&OIDC_TOKEN),
        ];
        let oidc = match role {
            [Some(role), Some(provider), Some(token_file)] => Some(Oidc {
                role,
                provider,
                token_file,
            }),
            _ => None,
        };
        let endpoints = [&ECS, &VPC_API, &SLB, &NLB, &CBN, &EFLO, &STS];
        let endpoints = endpoints
            .into_iter()
            .filter_map(|declaration| Some((declaration.key(), variables.get(declaration)?)))
            .collect();
        let config = Self {
            adoptable_tag: setup.adoptable_tag.clone(),
            access_key: access_key.map(|(id, secret)| (id, secret.into())),
            oidc,
            token_file: variables.get(&TOKEN_FILE).unwrap_or_default().into(),
            cluster: file.get(&CLUSTER).unwrap_or_default(),
            cluster_tag: file.get(&CLUSTER_TAG).unwrap_or_default(),
            region: file.get(&REGION),
            vpc: file.get(&VPC),
            vswitches: file.get(&VSWITCH).unwrap_or_default(),
            resource_group: file.get(&RESOURCE_GROUP),
            route_tables: file.get(&ROUTE_TABLES).unwrap_or_default(),
            cen: file.get(&CEN).filter(|id| !id.is_empty()),
            has_no_public: file.get(&NO_PUBLIC).unwrap_or_default(),
            has_eni_backends: match setup.environment.get("SERVICE_FORCE_BACKEND_ENI") {
                Some(text) => text == "true",
                None => file.get(&BACKEND_TYPE).unwrap_or_default(),
            },
            has_dual_stack: has("IPv6DualStack"),
            has_type_annotation: has("LoadBalancerTypeAnnotation"),
            metadata_endpoint: with_scheme(&variables.get(&METADATA).unwrap_or_default(), "http"),
            private_cloud: variables.get(&PRIVATE),
            is_legacy_signature: variables.get(&SIGNATURE_VERSION).unwrap_or_default(),
            has_imdsv2: flags.get(&IMDSV2).unwrap_or(true),
            skips_check: flags.get(&SKIP_CHECK).unwrap_or_default(),
            batch: flags
                .get(&BATCH_SIZE)
                .map_or(40, |batch_size| batch_size as usize),
            is_in_vpc: flags.get(&ENDPOINTS).unwrap_or(true),
            scheme: match variables.get(&SCHEME) {
                Some(text) if text.eq_ignore_ascii_case("http") => "http",
                _ => "https",
            },
            endpoints,
        };
        let is_dry = flags.get(&DRY_RUN).unwrap_or_default();
        file.finish().and(variables.finish()).and(flags.finish())?;
        if is_dry {
            let text = "--dry-run is not supported; run `cloud-controller-manager plan`, which shows each change";
            return Err(Error::invalid(text));
        }
        Ok(config)
    }

    /// Returns the URL of a product in a region.
    #[must_use]
    pub fn endpoint(&self, product: &str, variable: &str, region: &str) -> String {
        let vpc = if self.is_in_vpc { "-vpc" } else { "" };
        match self.endpoints.get(variable) {
            Some(url) => with_scheme(url, self.scheme),
            // CEN has one endpoint for all regions.
            None if product == "cbn" => format!("{}://cbn.aliyuncs.com", self.scheme),
            None => format!("{}://{product}{vpc}.{region}.aliyuncs.com", self.scheme),
        }
    }
}

fn with_scheme(url: &str, scheme: &str) -> String {
    if url.contains("://") {
        url.to_owned()
    } else {
        format!("{scheme}://{url}")
    }
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(text.trim()).ok()?)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// Returns the keys below `Global` as texts, by their names in the reference.
fn global(setup: &Setup) -> Result<Environment> {
    Document::of_option(setup.config.as_ref())?.texts("Global", &[GLOBAL], &INERT)
}

#[cfg(test)]
mod tests {
    use cloud_provider::ConfigFile;

    use super::*;

    fn setup(text: &str) -> Setup {
        Setup::of(ConfigFile {
            path: "cloud-config".into(),
            text: text.into(),
        })
    }

    #[test]
    fn file_of_the_go_program_is_understood() {
        let text = r#"{"Global": {"accessKeyID": "aWQ=", "accessKeySecret": "c2VjcmV0", "clusterID": "c1", "region": "cn-hangzhou",
            "vpcid": "vpc-1", "vswitchid": "cn-hangzhou-a:vsw-1,broken,cn-hangzhou-b:vsw-2", "routeTableIDs": "vtb-1,vtb-2",
            "featureGates": "LoadBalancerTypeAnnotation=true,IPv6DualStack=false", "serviceMaxConcurrentReconciles": 3}}"#;
        let config = Config::read(&setup(text)).unwrap();
        assert_eq!(config.access_key.unwrap().0, "id");
        assert_eq!(
            (&*config.cluster, &config.vswitches[..]),
            ("c1", &["vsw-1".to_owned(), "vsw-2".to_owned()][..])
        );
        assert_eq!(
            (
                config.route_tables.len(),
                config.has_type_annotation,
                config.has_dual_stack
            ),
            (2, true, false)
        );
    }

    #[test]
    fn mistakes_name_their_keys_and_no_secret() {
        let text = r#"{"Global": {"accessKeyID": "$$", "accessKeySecret": "$$$", "serviceBackendType": "pod"}}"#;
        let error = Config::read(&setup(text)).unwrap_err().to_string();
        assert!(
            error.contains("Global.serviceBackendType") && error.contains("base64"),
            "{error}"
        );
        assert!(!error.contains("$$"), "{error}");
    }

    #[test]
    fn endpoints_are_those_of_the_network_and_of_the_variables() {
        let config = Config::read(&setup("")).unwrap();
        assert_eq!(
            config.endpoint("slb", "SLB_ENDPOINT", "cn-beijing"),
            "https://slb-vpc.cn-beijing.aliyuncs.com"
        );
        let variables = [
            ("SLB_ENDPOINT", "127.0.0.1:1"),
            ("ALICLOUD_CLIENT_SCHEME", "HTTP"),
        ];
        let flags = Environment::of([("--network", "public")]);
        let config = Config::read(&Setup {
            environment: Environment::of(variables),
            flags,
            ..Setup::default()
        })
        .unwrap();
        assert_eq!(
            config.endpoint("slb", "SLB_ENDPOINT", "cn-beijing"),
            "http://127.0.0.1:1"
        );
        assert_eq!(
            config.endpoint("ecs", "ECS_ENDPOINT", "cn-beijing"),
            "http://ecs.cn-beijing.aliyuncs.com"
        );
    }
}
