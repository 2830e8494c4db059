//! Products and their actions.

use provider_kit::transport::{Call, Priority};
use serde_json::{Map, Value, json};

/// An API: the first label of its host, its version, the variable with another endpoint, and requests in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(super) variable: &'static str,
    pub(super) rate: u32,
}

const fn product(
    name: &'static str,
    version: &'static str,
    variable: &'static str,
    rate: u32,
) -> Product {
    Product {
        name,
        version,
        variable,
        rate,
    }
}

pub(crate) const ECS: Product = product("ecs", "2014-05-26", "ECS_ENDPOINT", 30);
pub(crate) const SLB: Product = product("slb", "2014-05-15", "SLB_ENDPOINT", 30);
pub(crate) const NLB: Product = product("nlb", "2022-04-30", "NLB_ENDPOINT", 30);
pub(crate) const VPC: Product = product("vpc", "2016-04-28", "VPC_ENDPOINT", 20);
pub(crate) const STS: Product = product("sts", "2015-04-01", "STS_ENDPOINT", 10);
pub(crate) const CBN: Product = product("cbn", "2017-09-12", "CBN_ENDPOINT", 10);
pub(crate) const EFLO: Product = product(
    "eflo-controller",
    "2022-12-15",
    "EFLO_CONTROLLER_ENDPOINT",
    10,
);

/// Declares structs of answers. A field that an answer lacks has its default.
macro_rules! wire {
    ($($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$of])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        pub(crate) struct $name { $($(#[$doc])* pub(crate) $field: $kind),* }
    )*};
}
pub(crate) use wire;

/// An action with its parameters: a list becomes `Key.1=…`, a struct `Key.Field=…`, and null nothing.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(super) product: Product,
    pub(super) action: &'static str,
    fields: Map<String, Value>,
    priority: Priority,
    /// The region, unless it is that of the configuration.
    pub(super) region: Option<String>,
}

impl Query {
    pub(crate) fn new(product: Product, action: &'static str) -> Self {
        let is_urgent = ["Delete", "Remove"]
            .iter()
            .any(|verb| action.starts_with(verb));
        let priority = if is_urgent {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        Self {
            product,
            action,
            fields: Map::new(),
            priority,
            region: None,
        }
    }

    pub(crate) fn set(mut self, key: &str, value: impl serde::Serialize) -> Self {
        self.fields.insert(
            key.to_owned(),
            serde_json::to_value(value).unwrap_or_default(),
        );
        self
    }

    /// Sets one parameter for each field of an object.
    pub(crate) fn fields(mut self, fields: impl serde::Serialize) -> Self {
        if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
            self.fields.extend(fields);
        }
        self
    }

    pub(crate) fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Sends the action to another region.
    pub(crate) fn of_region(self, region: &str) -> Self {
        Self {
            region: Some(region.to_owned()),
            ..self
        }
    }

    /// Returns `true` for creations that the API carries out once for each token.
    pub(super) fn takes_token(&self) -> bool {
        self.action == "CreateLoadBalancer"
            || self.product.name == "nlb" && self.action.starts_with("Create")
    }

    fn is_read(&self) -> bool {
        ["Describe", "List", "Get", "AssumeRole"]
            .iter()
            .any(|verb| self.action.starts_with(verb))
    }

    pub(crate) fn call(&self) -> Call {
        let Product { name, version, .. } = self.product;
        let call = Call::post("/", &[])
            .operation(format!("{name} {}", self.action))
            .with_priority(self.priority);
        let call = call
            .header("x-acs-action", self.action)
            .header("x-acs-version", version);
        let call = self
            .fields
            .iter()
            .fold(call, |call, (key, value)| call.nested(key, value, ""));
        let call = if self.is_read() {
            call.reading().list()
        } else {
            call
        };
        // Changes of NLB and all requests about Lingjun have their parameters in the body, all other requests in the query.
        match name {
            "eflo-controller" => call.form(),
            "nlb" if !self.is_read() => call.form(),
            _ => call,
        }
    }
}

/// Returns tags as parameters: `[{"Key": …, "Value": …}]`.
pub(crate) fn tag_list<'a>(tags: impl IntoIterator<Item = (&'a String, &'a String)>) -> Value {
    tags.into_iter()
        .map(|(key, value)| json!({"Key": key, "Value": value}))
        .collect()
}
