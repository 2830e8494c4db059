//! Members of pools whose members are network interfaces: the interfaces of machines, and the models and instances of
//! scale sets, each of which names the pools that it is in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud_provider::{Error, EventSubject, Node, Result, Service};
use futures::future::{join_all, try_join_all};
use provider_kit::inventory::Found;
use provider_kit::json_path::place;
use provider_kit::load_balancers::Targets;
use provider_kit::transport::Priority;
use serde_json::{Value, json};

use super::AzureLoadBalancers;
use super::document::{members, suffix};
use crate::arm::{Arm, INSTANCES, INTERFACES, ResourceType, SCALE_SETS, items, place_of, text};
use crate::config::ResourceGroup;
use crate::documents::{DocumentKey, Shared};
use crate::machines::scale_set_of;
use crate::nodes::compared;

/// The number of machines that are changed at the same time.
const AT_ONCE: usize = 8;

/// The members that could not join a pool, and why.
pub(crate) type Refused = Arc<BTreeMap<String, String>>;

/// A change of a pool's members.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberChange {
    pub(crate) join: Targets,
    pub(crate) leave: Targets,
    /// If set, the models of scale sets leave the pool as well.
    pub(crate) leaves_models: bool,
}

/// Carries out changes of one pool that came at the same time. Members that are as wanted cost no request but the read of
/// the load balancer.
pub(crate) async fn change(
    documents: &Shared,
    key: &DocumentKey,
    pool: &str,
    changes: &[MemberChange],
) -> Result<Refused> {
    let document = documents.store().get(key).await?;
    let arm = documents.store().arm();
    let current_members = members(&document, pool);
    let id = format!("{}/backendAddressPools/{pool}", text(&document, "/id"));
    let union = |of: fn(&MemberChange) -> &Targets| {
        changes
            .iter()
            .fold(Targets::default(), |all, change| all.with(of(change)))
    };
    let join = union(|change| &change.join).without(&current_members);
    let leave = union(|change| &change.leave);
    let leave: Targets = leave
        .iter()
        .filter(|text| current_members.contains(text) && !join.contains(text))
        .collect();
    let sets = |targets: &Targets| -> BTreeSet<(ResourceGroup, String)> {
        targets
            .iter()
            .filter_map(scale_set_of)
            .map(|(group, set, _)| (group, set.to_owned()))
            .collect()
    };
    // Instances that are created later have the pools of the model: it leaves with the last instance of its scale set.
    let mut models = sets(&leave);
    if !changes.iter().any(|change| change.leaves_models) {
        let stay = sets(&current_members.without(&leave).with(&join));
        models.retain(|model| !stay.contains(model));
    }
    try_join_all(
        models
            .iter()
            .map(|(group, set)| scale_set(arm, group, set, &id, false)),
    )
    .await?;
    write(arm, &id, &join, &leave).await
}

/// Removes all members of a load balancer's pools, from models of scale sets, too: then it can be deleted.
pub(crate) async fn unbind(arm: &Arm, document: &Value, nodes: &ResourceGroup) -> Result<()> {
    for pool in items(document, "backendAddressPools") {
        let id = text(pool, "/id");
        let all = members(document, text(pool, "/name"));
        write(arm, id, &Targets::default(), &all).await?;
        for set in arm.all(&SCALE_SETS, nodes).await? {
            scale_set(arm, nodes, text(&set, "/name"), id, false).await?;
        }
    }
    Ok(())
}

async fn write(arm: &Arm, pool: &str, join: &Targets, leave: &Targets) -> Result<Refused> {
    let sets: BTreeSet<_> = join
        .iter()
        .filter_map(scale_set_of)
        .map(|(group, set, _)| (group, set))
        .collect();
    // The model first: a new instance is then a member from the beginning.
    for (group, set) in &sets {
        scale_set(arm, group, set, pool, true).await?;
    }
    let changes: Vec<(&str, bool)> = join
        .iter()
        .map(|text| (text, true))
        .chain(leave.iter().map(|text| (text, false)))
        .collect();
    let mut failed = None;
    let mut refused = BTreeMap::new();
    for some in changes.chunks(AT_ONCE) {
        let outcomes = join_all(
            some.iter()
                .map(|(target, joins)| member(arm, target, pool, *joins)),
        )
        .await;
        for ((target, joins), outcome) in some.iter().zip(outcomes) {
            match outcome {
                Err(error) if *joins && error.is_invalid() => {
                    drop(refused.insert((*target).to_owned(), error));
                }
                outcome => failed = failed.or(outcome.map_err(|error| about(error, target)).err()),
            }
        }
    }
    // If all are refused, the reason is not one of them.
    if refused.len() == changes.len() {
        failed = failed.or_else(|| {
            refused
                .pop_first()
                .map(|(target, error)| about(error, &target))
        });
    }
    let refused = refused
        .into_iter()
        .map(|(target, error)| (target, error.to_string()))
        .collect();
    failed.map_or(Ok(Arc::new(refused)), Err)
}

/// Adds the pool to the references of one IP configuration, or removes it. Returns `true` if that changed anything.
fn set_pool(configuration: &mut Value, pool: &str, joins: bool) -> bool {
    let properties = place(
        configuration,
        &["properties", "loadBalancerBackendAddressPools"],
    );
    let mut pools = properties.as_array().cloned().unwrap_or_default();
    let before = pools.len();
    let is_this_object = |object: &Value| text(object, "/id").eq_ignore_ascii_case(pool);
    if !joins {
        pools.retain(|pool| !is_this_object(pool));
    } else if !pools.iter().any(is_this_object) {
        pools.push(json!({ "id": pool }));
    }
    let changes = pools.len() != before;
    if changes {
        *properties = pools.into();
    }
    changes
}

/// Returns the primary element of a list, or else the first.
fn primary(list: Option<&mut Vec<Value>>) -> Option<&mut Value> {
    let list = list?;
    let index = list
        .iter()
        .position(|object| object["properties"]["primary"] == true)
        .unwrap_or_default();
    list.get_mut(index)
}

/// Returns the IP configuration of an interface for a pool: the primary one, or the one for IPv6.
fn configuration<'a>(interface: &'a mut Value, pool: &str) -> Option<&'a mut Value> {
    let list = interface
        .pointer_mut("/properties/ipConfigurations")?
        .as_array_mut()?;
    if suffix(pool).is_empty() {
        return primary(Some(list));
    }
    list.iter_mut()
        .find(|object| object["properties"]["privateIPAddressVersion"] == "IPv6")
}

/// Returns the IP configuration of the primary interface in a model.
fn of_model<'a>(object: &'a mut Value, pointer: &str, pool: &str) -> Option<&'a mut Value> {
    configuration(primary(object.pointer_mut(pointer)?.as_array_mut())?, pool)
}

async fn scale_set(
    arm: &Arm,
    group: &ResourceGroup,
    set: &str,
    pool: &str,
    joins: bool,
) -> Result<()> {
    let pointer = "/properties/virtualMachineProfile/networkProfile/networkInterfaceConfigurations";
    write_pool(
        arm,
        (&SCALE_SETS, group, &[set]),
        |scale_set| of_model(scale_set, pointer, pool),
        pool,
        joins,
    )
    .await
}

/// Changes one interface or instance. A machine that no longer exists is skipped.
async fn member(arm: &Arm, target: &str, pool: &str, joins: bool) -> Result<()> {
    let outcome = match (scale_set_of(target), place_of(target)) {
        (Some((group, set, instance)), _) => {
            let pointer = "/properties/networkProfileConfiguration/networkInterfaceConfigurations";
            let place = (&INSTANCES, &group, &[set, instance][..]);
            write_pool(
                arm,
                place,
                |object| of_model(object, pointer, pool),
                pool,
                joins,
            )
            .await
        }
        (None, Some((group, name))) => {
            write_pool(
                arm,
                (&INTERFACES, &group, &[name]),
                |interface| configuration(interface, pool),
                pool,
                joins,
            )
            .await
        }
        (None, None) => Err(Error::other("this is no network interface")),
    };
    match outcome {
        Err(error)
            if error.is_not_found()
                || error.to_string().contains("not an active Virtual Machine") =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

fn about(error: Error, target: &str) -> Error {
    error.context(format!("cannot change the pools of {target}"))
}

/// Writes a resource if its IP configuration is not in the pool as wanted.
async fn write_pool(
    arm: &Arm,
    (of, group, names): (&ResourceType, &ResourceGroup, &[&str]),
    configuration: impl Fn(&mut Value) -> Option<&mut Value>,
    pool: &str,
    joins: bool,
) -> Result<()> {
    let Some(mut shown) = arm.get::<Value>(of, group, names).await? else {
        return Ok(());
    };
    match configuration(&mut shown)
        .is_some_and(|configuration| set_pool(configuration, pool, joins))
    {
        true => arm.write(of, group, names, &shown).await.map(drop),
        false => Ok(()),
    }
}

impl AzureLoadBalancers {
    /// Reports members that Azure refuses, on their Nodes.
    pub(super) async fn warn_of_refused(&self, refused: &Refused) {
        if refused.is_empty() {
            return;
        }
        let nodes = self.nodes();
        let known: Vec<_> = nodes.iter().map(compared).collect();
        let machines = self
            .machines
            .find_all(&known, false, Priority::Ordinary)
            .await;
        for (node, machine) in nodes.iter().zip(machines) {
            let Ok(Found::Present(machine)) = machine else {
                continue;
            };
            let Some(text) = refused.get(&*machine.interface) else {
                continue;
            };
            let subject = EventSubject::Node(node);
            let reason = "LoadBalancerNodeLeftOut";
            let text = format!("load balancers leave the Node out: {text}");
            if self.deduplicator.is_first(subject, reason, &text) {
                self.cluster_view.events().warning(subject, reason, text);
            }
        }
    }

    /// Reports a pool without members although the Service has Nodes.
    pub(super) fn warn_of_empty_pool(
        &self,
        service: &Service,
        nodes: &[Arc<Node>],
        is_ipv6: bool,
        targets: Option<&Targets>,
    ) {
        if nodes.is_empty() || !is_ipv6 || targets.is_some_and(|targets| !targets.is_empty()) {
            return;
        }
        let subject = EventSubject::Service(service);
        let reason = "LoadBalancerPoolEmpty";
        let text = "no Node has an IPv6 address, so the IPv6 address of the load balancer leads to no Node; add an IPv6 \
                    configuration to the network interfaces of the machines or scale sets";
        if self.deduplicator.is_first(subject, reason, text) {
            self.cluster_view.events().warning(subject, reason, text);
        }
    }
}
