//! The instance type of a flavor.

use std::collections::HashMap;

use cloud_provider::Result;
use parking_lot::RwLock;
use provider_kit::labels::{is_value, value_from};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::services::Services;

/// The flavor in a server: its name from microversion 2.47 on, its ID before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(super) struct Flavor {
    original_name: Option<Box<str>>,
    id: Option<Box<str>>,
}

/// The instance types of flavors whose name is unknown, or is not valid as a label.
#[derive(Default)]
pub(super) struct Flavors(RwLock<HashMap<Flavor, Box<str>>>);

#[derive(Deserialize)]
struct Named {
    name: Box<str>,
}

impl Flavors {
    /// Reads the instance types of these flavors, as far as they are not known.
    ///
    /// # Errors
    /// Nova's answer.
    pub(super) async fn learn(
        &self,
        services: &Services,
        flavors: impl Iterator<Item = &Flavor>,
        priority: Priority,
    ) -> Result<()> {
        for flavor in flavors {
            if self.instance_type(flavor).is_none() {
                let found = flavor.find(services, priority).await?;
                self.0.write().insert(flavor.clone(), found);
            }
        }
        Ok(())
    }

    /// Returns the instance type; `None` if it was not read.
    pub(super) fn instance_type(&self, flavor: &Flavor) -> Option<String> {
        let told = flavor
            .original_name
            .as_ref()
            .filter(|name| !name.is_empty() && is_value(name));
        let learnt = || self.0.read().get(flavor).map(ToString::to_string);
        told.map(ToString::to_string).or_else(learnt)
    }
}

impl Flavor {
    /// Reads the name, or else the ID. A flavor may be deleted while there are servers of it.
    async fn find(&self, services: &Services, priority: Priority) -> Result<Box<str>> {
        let Self { original_name, id } = self;
        if let Some(id) = id {
            let call = Call::get("/flavors/{id}", &[id])
                .inside("flavor")
                .with_priority(priority);
            let found: Option<Named> = services.compute.find(call).await?;
            return Ok(found
                .map(|entry| entry.name)
                .filter(|name| is_value(name))
                .unwrap_or_else(|| id.clone()));
        }
        let call = Call::get("/flavors", &[]).with_priority(priority);
        let name = original_name.as_deref().unwrap_or_default();
        let all = services
            .texts(&services.compute, call, "flavors", ["id", "name"])
            .await?;
        let named = all.into_iter().find(|[_, its]| its == name);
        Ok(named.map_or_else(|| value_from(name), |[id, _]| id).into())
    }
}
