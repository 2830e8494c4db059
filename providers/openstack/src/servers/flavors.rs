//! Which instance type a flavor is (§2.2).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use cloud_provider::Result;
use provider_kit::labels::{is_value, value_from};
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use super::wire;
use crate::services::Services;

/// What a server was made by, as far as it is told with the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Made {
    /// A name that can be the value of a label.
    ByType(Box<str>),
    /// A name that cannot.
    ByName(Box<str>),
    /// An id: Nova before 2.47.
    ById(Box<str>),
}

/// What is known of flavors. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct Flavors {
    services: Services,
    /// From an id, or a name that is no label value, to the instance type.
    types: Arc<RwLock<HashMap<Made, Box<str>>>>,
}

#[derive(Deserialize)]
struct One {
    flavor: Flavor,
}

#[derive(Deserialize)]
struct Flavor {
    id: Box<str>,
    name: Box<str>,
}

impl From<wire::Flavor> for Made {
    fn from(flavor: wire::Flavor) -> Self {
        match (flavor.original_name.filter(|name| !name.is_empty()), flavor.id) {
            (Some(name), _) if is_value(&name) => Self::ByType(name),
            (_, Some(id)) => Self::ById(id),
            (name, None) => Self::ByName(name.unwrap_or_default()),
        }
    }
}

impl Flavors {
    pub(super) fn new(services: Services) -> Self {
        Self { services, types: Arc::default() }
    }

    /// Finds out the instance types of these, as far as they are not known.
    ///
    /// # Errors
    /// What Nova answered.
    pub(super) async fn learn(&self, made: impl Iterator<Item = &Made>, priority: Priority) -> Result<()> {
        for made in made {
            if self.known(made).is_none() {
                let found = self.find(made, priority).await?;
                self.types.write().unwrap_or_else(PoisonError::into_inner).insert(made.clone(), found);
            }
        }
        Ok(())
    }

    /// The instance type; empty if nobody has learnt it.
    pub(super) fn instance_type(&self, made: &Made) -> Box<str> {
        self.known(made).unwrap_or_default()
    }

    fn known(&self, made: &Made) -> Option<Box<str>> {
        match made {
            Made::ByType(name) => Some(name.clone()),
            other => self.types.read().unwrap_or_else(PoisonError::into_inner).get(other).cloned(),
        }
    }

    /// The name, or else the id. A flavor may be gone while there are servers of it.
    async fn find(&self, made: &Made, priority: Priority) -> Result<Box<str>> {
        let compute = &self.services.compute;
        match made {
            Made::ByType(name) => Ok(name.clone()),
            Made::ById(id) => {
                let found: Option<One> = compute.find(Call::get("/flavors/{id}", &[id]).priority(priority)).await?;
                Ok(found.map(|it| it.flavor.name).filter(|name| is_value(name)).unwrap_or_else(|| id.clone()))
            }
            Made::ByName(name) => {
                let call = Call::get("/flavors", &[]).priority(priority);
                let all = self.services.list(compute, call, "flavors", |it: Flavor| it, |it| it.id.clone()).await?;
                let flavor = all.into_items().into_iter().find(|it| it.name == *name);
                Ok(flavor.map_or_else(|| value_from(name).into(), |it| it.id))
            }
        }
    }
}
