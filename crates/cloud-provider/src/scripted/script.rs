//! The script: the answers of all methods.

use std::collections::BTreeMap;

use crate::scripted::Answer;
use crate::{
    InstanceMetadata, LoadBalancerStatus, Node, NodeAddress, Result, Route, Service, Zone,
};

/// The answers of all methods, by method. A method with `None` must not be called.
///
/// The exceptions are the three methods of routes: without a script, they work on the routes that the test double
/// stores.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Answer of [`InstancesV1::node_addresses`](crate::InstancesV1::node_addresses), by Node name.
    pub node_addresses: Option<Answer<str, Vec<NodeAddress>>>,
    /// Answer of [`InstancesV1::node_addresses_by_provider_id`](crate::InstancesV1::node_addresses_by_provider_id).
    pub node_addresses_by_provider_id: Option<Answer<str, Vec<NodeAddress>>>,
    /// Answer of [`InstancesV1::instance_id`](crate::InstancesV1::instance_id), by Node name.
    pub instance_id: Option<Answer<str, String>>,
    /// Answer of [`InstancesV1::instance_type`](crate::InstancesV1::instance_type), by Node name.
    pub instance_type: Option<Answer<str, String>>,
    /// Answer of [`InstancesV1::instance_type_by_provider_id`](crate::InstancesV1::instance_type_by_provider_id).
    pub instance_type_by_provider_id: Option<Answer<str, String>>,
    /// Answer of [`InstancesV1::instance_exists_by_provider_id`](crate::InstancesV1::instance_exists_by_provider_id).
    pub instance_exists_by_provider_id: Option<Answer<str, bool>>,
    /// Answer of
    /// [`InstancesV1::instance_shutdown_by_provider_id`](crate::InstancesV1::instance_shutdown_by_provider_id). An
    /// empty provider ID is always an error (PROV-86).
    pub instance_shutdown_by_provider_id: Option<Answer<str, bool>>,

    /// Answer of [`Zones::zone_by_provider_id`](crate::Zones::zone_by_provider_id).
    pub zone_by_provider_id: Option<Answer<str, Zone>>,
    /// Answer of [`Zones::zone_by_node_name`](crate::Zones::zone_by_node_name).
    pub zone_by_node_name: Option<Answer<str, Zone>>,
    /// Answer of [`Zones::zone`](crate::Zones::zone).
    pub zone: Option<Answer<(), Zone>>,

    /// Answer of [`InstancesV2::instance_exists`](crate::InstancesV2::instance_exists).
    pub instance_exists: Option<Answer<Node, bool>>,
    /// Answer of [`InstancesV2::instance_shutdown`](crate::InstancesV2::instance_shutdown).
    pub instance_shutdown: Option<Answer<Node, bool>>,
    /// Answer of [`InstancesV2::instance_metadata`](crate::InstancesV2::instance_metadata); `Ok(None)` means success
    /// without metadata.
    pub instance_metadata: Option<Answer<Node, Option<InstanceMetadata>>>,

    /// Answer of [`LoadBalancers::get`](crate::LoadBalancers::get).
    pub get_load_balancer: Option<Answer<Service, Option<LoadBalancerStatus>>>,
    /// Answer of [`LoadBalancers::ensure`](crate::LoadBalancers::ensure); `Ok(None)` means success without a status.
    pub ensure_load_balancer: Option<Answer<Service, Option<LoadBalancerStatus>>>,
    /// Answer of [`LoadBalancers::update_targets`](crate::LoadBalancers::update_targets).
    pub update_load_balancer: Option<Answer<Service, ()>>,
    /// Answer of [`LoadBalancers::delete`](crate::LoadBalancers::delete).
    pub ensure_load_balancer_deleted: Option<Answer<Service, ()>>,

    /// Answer of [`Routes::list`](crate::Routes::list), by cluster name, instead of the stored routes.
    pub list_routes: Option<Answer<str, Vec<Route>>>,
    /// Result that is checked before [`Routes::create`](crate::Routes::create) is carried out; an error is the answer.
    pub create_route: Option<Answer<Route, ()>>,
    /// Result that is checked before [`Routes::delete`](crate::Routes::delete) is carried out; an error is the answer.
    pub delete_route: Option<Answer<Route, ()>>,

    /// Answer of [`Clusters::list`](crate::Clusters::list).
    pub list_clusters: Option<Answer<(), Vec<String>>>,
    /// Answer of [`Clusters::master`](crate::Clusters::master), by cluster name.
    pub master: Option<Answer<str, String>>,
}

impl Script {
    /// Scripts both methods for instance types from one map, whose keys are Node names and provider IDs alike
    /// (PROV-86). A key that is missing has an empty type.
    pub fn instance_types(&mut self, types: BTreeMap<String, String>) {
        let look_up =
            move |key: &str| -> Result<String> { Ok(types.get(key).cloned().unwrap_or_default()) };
        self.instance_type = Some(Answer::by(look_up.clone()));
        self.instance_type_by_provider_id = Some(Answer::by(look_up));
    }
}
