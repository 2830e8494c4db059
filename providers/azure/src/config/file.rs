//! The keys of the configuration file, and what the provider refuses.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::Result;
use ipnet::IpNet;
use provider_kit::document::{Document, fields};
use serde::Deserialize;

use super::{AuxiliarySecret, RateLimit, StandardBalancer};

/// The form of load balancer pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PoolKind {
    /// Members are IP configurations of network interfaces.
    #[default]
    #[serde(rename = "nodeIPConfiguration")]
    Nic,
    /// Members are addresses of Nodes.
    #[serde(rename = "nodeIP")]
    Address,
    /// Members are addresses of Pods: only with the service gateway, which is refused.
    #[serde(rename = "podIP")]
    Pod,
}

/// The keys of the configuration file that the provider reads. Credentials are not among them: they are read again
/// whenever a token is requested.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "docs/providers/azure.md explains each key")]
pub struct File {
    pub cloud: String,
    pub resource_manager_endpoint: String,
    pub user_agent: String,
    pub tenant_id: String,
    #[serde(rename = "networkResourceTenantID")]
    pub network_tenant: String,
    pub subscription_id: String,
    #[serde(rename = "networkResourceSubscriptionID")]
    pub network_subscription: String,
    pub resource_group: String,
    pub location: String,
    pub extended_location_name: String,
    pub extended_location_type: String,
    pub vnet_name: String,
    pub vnet_resource_group: String,
    pub subnet_name: String,
    pub security_group_name: String,
    pub security_group_resource_group: String,
    pub route_table_name: String,
    pub route_table_resource_group: String,
    pub vm_type: String,
    pub disable_availability_set_nodes: bool,
    pub enable_vmss_flex_nodes: bool,
    pub tags: String,
    pub tags_map: BTreeMap<String, String>,
    pub system_tags: String,
    pub load_balancer_sku: String,
    pub primary_availability_set_name: String,
    pub primary_scale_set_name: String,
    pub load_balancer_name: String,
    pub load_balancer_resource_group: String,
    pub private_link_service_resource_group: String,
    pub pre_configured_backend_pool_load_balancer_types: String,
    #[serde(rename = "excludeMasterFromStandardLB")]
    pub exclude_master_from_standard_lb: Option<bool>,
    #[serde(rename = "disableOutboundSNAT")]
    pub disable_outbound_snat: bool,
    pub maximum_load_balancer_rule_count: Option<usize>,
    #[serde(rename = "additionalPublicIPRanges")]
    pub additional_ranges: Option<Vec<String>>,
    #[serde(rename = "loadBalancerBackendPoolConfigurationType")]
    pub pool_kind: PoolKind,
    #[serde(rename = "enableMigrateToIPBasedBackendPoolAPI")]
    pub migrates_pools: bool,
    #[serde(rename = "enableIPTagMutationForExistingPublicIP")]
    pub changes_ip_tags: bool,
    #[serde(rename = "multipleStandardLoadBalancerConfigurations")]
    pub balancers: Vec<StandardBalancer>,
    #[serde(rename = "clusterServiceLoadBalancerHealthProbeMode")]
    pub probe_mode: String,
    #[serde(rename = "clusterServiceSharedLoadBalancerHealthProbePort")]
    pub shared_probe_port: Option<u16>,
    #[serde(rename = "clusterServiceSharedLoadBalancerHealthProbePath")]
    pub shared_probe_path: String,
    pub service_gateway_enabled: bool,
    pub disable_out_of_service_taint: bool,
    #[serde(rename = "nodeInstanceNotFoundGracePeriodInSeconds")]
    pub grace_period: u64,
    #[serde(rename = "vmCacheTTLInSeconds")]
    pub vm_cache: u64,
    /// The keys of a rate limit at the top, which count for all types of resources.
    #[serde(skip)]
    pub rate_limit: RateLimit,
    pub load_balancer_rate_limit: RateLimit,
    #[serde(rename = "publicIPAddressRateLimit")]
    pub address_rate_limit: RateLimit,
    pub security_group_rate_limit: RateLimit,
    pub route_table_rate_limit: RateLimit,
    pub interface_rate_limit: RateLimit,
    pub private_link_service_rate_limit: RateLimit,
    pub virtual_machine_rate_limit: RateLimit,
    pub virtual_machine_scale_set_rate_limit: RateLimit,
    pub cloud_config_type: String,
    pub identity_system: String,
    pub auxiliary_token_provider: Option<AuxiliarySecret>,
    #[serde(rename = "aadMSIDataPlaneIdentityPath")]
    pub data_plane_identity: String,
}

/// Keys of credentials, which are read where a token is requested.
pub(crate) const CREDENTIALS: &[&str] = &[
    "aadClientId",
    "aadClientSecret",
    "aadClientCertPath",
    "aadClientCertPassword",
    "useManagedIdentityExtension",
    "userAssignedIdentityID",
    "useFederatedWorkloadIdentityExtension",
    "aadFederatedTokenFile",
];

/// Keys that choose the kind of the credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct IdentityKind {
    pub(crate) use_managed_identity_extension: bool,
    pub(crate) use_federated_workload_identity_extension: bool,
}

impl IdentityKind {
    /// Reads the keys of a document whose keys are spelt.
    ///
    /// # Errors
    /// *Invalid* if a value is neither true nor false.
    pub(crate) fn read(document: &Document) -> Result<Self> {
        let mut own_fields = document.clone();
        own_fields.retain(|key, _| fields::<Self>().contains(&key));
        own_fields.read()
    }
}

/// Keys that are read elsewhere, and keys that are accepted without effect.
pub(super) const ELSEWHERE: &[&str] = &[
    "putVMSSVMBatchSize",
    "routeUpdateIntervalInSeconds",
    "routeUpdateWaitingInSeconds",
    "loadBalancerBackendPoolUpdateIntervalInSeconds",
    "useInstanceMetadata",
    "listVmssVirtualMachinesWithoutInstanceView",
    "enableMinimumRetryAfter",
    "disableAPICallCache",
    "disableAzureStackCloud",
];

/// Keys whose changes are used without a restart: they say how Services are served, and not what is the cluster's.
pub(super) const RELOADED: &[&str] = &[
    "tags",
    "tagsMap",
    "systemTags",
    "subnetName",
    "preConfiguredBackendPoolLoadBalancerTypes",
    "excludeMasterFromStandardLB",
    "disableOutboundSNAT",
    "maximumLoadBalancerRuleCount",
    "additionalPublicIPRanges",
    "enableMigrateToIPBasedBackendPoolAPI",
    "enableIPTagMutationForExistingPublicIP",
    "clusterServiceLoadBalancerHealthProbeMode",
    "clusterServiceSharedLoadBalancerHealthProbePort",
    "clusterServiceSharedLoadBalancerHealthProbePath",
];

impl File {
    /// Gives the keys of a document the spelling that this program uses, and returns warnings about the others.
    pub(crate) fn spell(document: &mut Document) -> Vec<String> {
        let known_fields = [
            fields::<Self>(),
            fields::<RateLimit>(),
            CREDENTIALS,
            ELSEWHERE,
        ]
        .concat();
        let is_tuning = |key: &str| {
            let key = key.to_ascii_lowercase();
            ["ratelimit", "cachettlinseconds", "cloudproviderbackoff"]
                .iter()
                .any(|part| key.contains(part))
        };
        let unknown = document
            .spell(&known_fields)
            .into_iter()
            .filter(|unspelt| !is_tuning(&unspelt.key));
        unknown.map(|unspelt| unspelt.warning).collect()
    }

    /// Reads a document whose keys are [spelt](Self::spell), with warnings about unknown keys below other ones.
    pub(super) fn read(document: &Document) -> Result<(Self, Vec<String>)> {
        let is_of = |known: &[&str], key: &str| known.contains(&key);
        let [mut own, mut limits] = [document.clone(), document.clone()];
        own.retain(|key, _| is_of(fields::<Self>(), key));
        limits.retain(|key, _| is_of(fields::<RateLimit>(), key));
        IdentityKind::read(document)?;
        let (file, warnings) = own.read_with_warnings::<Self>()?;
        Ok((
            Self {
                rate_limit: limits.read()?,
                ..file
            },
            warnings,
        ))
    }

    /// Returns `true` for load balancers of the basic SKU.
    #[must_use]
    pub fn is_basic(&self) -> bool {
        self.load_balancer_sku.eq_ignore_ascii_case("basic")
    }

    /// Returns the SKU of load balancers and public addresses.
    #[must_use]
    pub fn sku(&self) -> &'static str {
        if self.is_basic() { "Basic" } else { "Standard" }
    }

    /// Returns the set of machines that may be in pools of the basic SKU; empty for any.
    #[must_use]
    pub fn primary_set(&self) -> &str {
        match (self.is_basic(), self.vm_type.to_ascii_lowercase().as_str()) {
            (false, _) => "",
            (true, "standard") => &self.primary_availability_set_name,
            (true, _) => &self.primary_scale_set_name,
        }
    }

    /// Returns `true` if the pools of this kind of load balancers have members that someone else chooses.
    #[must_use]
    pub fn is_preconfigured(&self, is_internal: bool) -> bool {
        let kind = if is_internal { "internal" } else { "external" };
        let stated = &self.pre_configured_backend_pool_load_balancer_types;
        stated.eq_ignore_ascii_case("all") || stated.eq_ignore_ascii_case(kind)
    }
}

/// Returns what the provider does not support, each with the remedy.
pub(super) fn refused(file: &File) -> Vec<String> {
    let sku = file.load_balancer_sku.to_ascii_lowercase();
    let is_gateway =
        file.service_gateway_enabled || file.pool_kind == PoolKind::Pod || sku == "service";
    let preconfigured = &*file
        .pre_configured_backend_pool_load_balancer_types
        .to_ascii_lowercase();
    let is_unknown = !matches!(
        &*file.cloud_config_type.to_ascii_lowercase(),
        "" | "file" | "secret" | "merge"
    );
    let table = [
        (
            is_gateway,
            "the service gateway (serviceGatewayEnabled, pool type podIP, SKU service) is not supported; remove all three",
        ),
        (
            !is_gateway && !matches!(&*sku, "" | "standard" | "basic"),
            "loadBalancerSku: only standard and basic are supported",
        ),
        (
            file.is_basic() && file.pool_kind != PoolKind::Nic,
            "loadBalancerSku: basic needs loadBalancerBackendPoolConfigurationType: nodeIPConfiguration",
        ),
        (
            !file.balancers.is_empty() && file.pool_kind != PoolKind::Address,
            "multipleStandardLoadBalancerConfigurations needs loadBalancerBackendPoolConfigurationType: nodeIP",
        ),
        (
            file.balancers.iter().any(|load_balancer| {
                load_balancer.name.is_empty() || load_balancer.primary_set.is_empty()
            }),
            "multipleStandardLoadBalancerConfigurations: each needs name and primaryVMSet",
        ),
        (
            {
                let names: BTreeSet<_> = file
                    .balancers
                    .iter()
                    .map(|load_balancer| load_balancer.name.to_lowercase())
                    .collect();
                let sets: BTreeSet<_> = file
                    .balancers
                    .iter()
                    .map(|load_balancer| load_balancer.primary_set.to_lowercase())
                    .collect();
                names.len().min(sets.len()) < file.balancers.len()
            },
            "multipleStandardLoadBalancerConfigurations: two have the same name or primaryVMSet",
        ),
        (
            !matches!(preconfigured, "" | "internal" | "external" | "all"),
            "preConfiguredBackendPoolLoadBalancerTypes: only internal, external and all are supported",
        ),
        (
            !file.data_plane_identity.is_empty(),
            "aadMSIDataPlaneIdentityPath is not supported; use a managed identity or workload identity",
        ),
        (
            is_unknown,
            "cloudConfigType: only file, secret and merge are supported",
        ),
        (
            file.auxiliary_token_provider
                .as_ref()
                .is_some_and(|auxiliary_secret| {
                    [
                        &auxiliary_secret.subscription,
                        &auxiliary_secret.resource_group,
                        &auxiliary_secret.vault_name,
                        &auxiliary_secret.secret_name,
                    ]
                    .iter()
                    .any(|text| text.is_empty())
                }),
            "auxiliaryTokenProvider needs subscriptionID, resourceGroup, vaultName and secretName",
        ),
    ];
    let ranges = file
        .additional_ranges
        .iter()
        .flatten()
        .filter(|range| range.parse::<IpNet>().is_err());
    let ranges = ranges.map(|range| {
        format!("additionalPublicIPRanges: {range:?} is not a range such as 20.9.9.0/24")
    });
    table
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, text)| text.to_owned())
        .chain(ranges)
        .collect()
}
