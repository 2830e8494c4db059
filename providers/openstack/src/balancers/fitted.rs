//! What is wanted of a load balancer that is there (§3.6, §3.7): others may have a part in it, and some things are left as they
//! are.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Actual, Attributes, Part, Tree, in_order};
use serde_json::json;

use super::asked::Asked;
use super::octavia::{ALLOWED_CIDRS, MEMBER_PORT, MONITOR_PORT, MONITOR_SETTINGS, POOL_SETTINGS};
use super::{floating_ip, second_vip, security_group};
use crate::annotations as key;

/// What is wanted of this one.
///
/// # Errors
/// *Invalid* if it is another Service's, and this one wants it to be internal.
pub(super) fn fitted(mut wanted: Tree, actual: &Actual, asked: &Asked) -> Result<Tree> {
    if actual.id.contains('/') && !actual.foreign.is_empty() && asked.internal {
        return Err(Error::invalid(format!(
            "{} is another Service's, and may be reached from everywhere; a Service that shares it cannot be internal ({})",
            actual.place(),
            key::INTERNAL.key()
        )));
    }
    let Some(tree) = actual.tree.as_ref().filter(|it| it.balancer_attributes().is_some()) else { return Ok(wanted) };
    let front = floating_ip::part();
    if actual.foreign.contains_key(&front) {
        wanted.parts.remove(&front);
    } else if tree.parts.contains_key(&front) && !asked.internal && !asked.is_ipv6() {
        // Also where no network for a new one was found.
        wanted.parts.insert(front, Attributes::default());
    }
    let parts = std::mem::take(&mut wanted.parts);
    for (part, settings) in &parts {
        let settings = match part {
            Part::Pool(pool) if tree.parts.contains_key(part) => of_members(settings, &wanted, tree, pool),
            Part::Listener(_) if asked.second.is_some() && settings.get(ALLOWED_CIDRS).is_some() => {
                let is_both = tree.balancer_attributes().is_some_and(|it| second_vip::is_there(it, asked));
                settings.clone().set(ALLOWED_CIDRS, in_order(json!(asked.allowed(is_both))))
            }
            Part::Support(_) => match tree.parts.get(part) {
                Some(present) => security_group::fitted(settings, present),
                None => settings.clone(),
            },
            _ => settings.clone(),
        };
        wanted.parts.insert(part.clone(), settings);
    }
    Ok(wanted)
}

/// Settings of members can be seen, and changed, only where there are members; the subnet that they were put in stays.
fn of_members(settings: &Attributes, wanted: &Tree, actual: &Tree, pool: &str) -> Attributes {
    let has_members = !actual.targets_of(pool).is_empty();
    let shall_have = wanted.targets.get(pool).map_or(has_members, |targets| !targets.is_empty());
    let mut keys: Vec<&str> = MONITOR_SETTINGS.into_iter().chain(POOL_SETTINGS).collect();
    match (shall_have, has_members) {
        (false, _) => {}
        (true, true) => keys.extend([MEMBER_PORT, MONITOR_PORT]),
        (true, false) => return settings.clone(),
    }
    settings.clone().only(&keys)
}
