//! The adoption of a load balancer that a Service names, and that was not created for it (D-322).

use cloud_provider::{AdoptableTag, Error, Result, default_load_balancer_name};

use super::model::{ObservedLoadBalancer, OwnerTags};
use super::ownership::Identity;

impl Identity<'_> {
    /// Returns `true` if a cloud controller manager created the load balancer for the Service: its name contains the
    /// Service's UID, or the Service's status, which authors cannot write, shows it.
    #[must_use]
    pub fn was_created_for(&self, actual: &ObservedLoadBalancer) -> bool {
        let is_named = !self.is_name_chosen && actual.name == self.name;
        is_named || actual.name == default_load_balancer_name(self.service) || self.shows(actual)
    }

    /// Returns `true` if the legacy owner tag makes the load balancer the Service's own.
    pub(super) fn has_legacy_tag(&self, actual: &ObservedLoadBalancer) -> bool {
        let is_tagged = actual.legacy_owner.is_some() && actual.legacy_owner == self.legacy_owner;
        is_tagged && (!self.is_legacy_owner_stated || self.was_created_for(actual))
    }

    /// Returns `true` if the load balancer was not created for the Service, and would be adopted: the provider marks it as
    /// [adopted](ObservedLoadBalancer::adopted) when it writes the owner tags.
    #[must_use]
    pub fn is_adoption(&self, actual: &ObservedLoadBalancer) -> bool {
        let has_no_owner = actual.owner_tags == OwnerTags::default();
        actual.adopted
            || has_no_owner && !self.has_legacy_tag(actual) && !self.was_created_for(actual)
    }
}

/// Refuses to adopt a load balancer that serves somebody, in a cloud where all of its ports and targets would be replaced.
/// The tag that an administrator [requires](super::Options::adoptable_tag) permits it; `tags` are those of the load balancer.
///
/// # Errors
/// *Invalid*, with what to do.
pub fn check_adoption(
    observed: &ObservedLoadBalancer,
    identity: &Identity<'_>,
    required: Option<&AdoptableTag>,
    tags: &[String],
) -> Result<()> {
    let is_permitted = required.is_some_and(|required| required.is_among(tags));
    if observed.adopted
        || is_permitted
        || !identity.is_adoption(observed)
        || observed.targets().is_empty()
    {
        return Ok(());
    }
    let permission = match required {
        Some(tag) => format!("give it the tag {tag}"),
        None => "set --adoptable-load-balancer-tag, and give it that tag".to_owned(),
    };
    Err(Error::invalid(format!(
        "{} is in use: it has targets, and was not created for this Service; its ports and targets would be replaced. Remove its \
         targets, or {permission}",
        observed.place()
    )))
}

/// Refuses to adopt a load balancer without the tag that an administrator [requires](super::Options::adoptable_tag), in a cloud
/// whose provider decides by itself who adopts what. `place` names the load balancer, and `tags` are those that it has.
///
/// # Errors
/// *Invalid*, with what to do.
pub fn check_adoptable_tag(
    place: &str,
    required: Option<&AdoptableTag>,
    tags: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<()> {
    match required {
        Some(required) if !required.is_among(tags) => Err(Error::invalid(format!(
            "{place} was not created for this Service; {}",
            needed(required)
        ))),
        _ => Ok(()),
    }
}

/// Returns the advice to give a load balancer the required tag.
pub(super) fn needed(required: &AdoptableTag) -> String {
    format!("give it the tag {required}, which --adoptable-load-balancer-tag requires")
}

/// Returns the text of the event that tells a user that an adopted load balancer stays, without `what` of the Service.
#[must_use]
pub fn stays(observed: &ObservedLoadBalancer, what: &str) -> String {
    format!(
        "{} was not created for this Service, so it stays without the {what} of the Service; delete it by hand if it is no \
         longer needed",
        observed.place()
    )
}
