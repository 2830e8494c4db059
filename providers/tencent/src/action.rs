//! Products of API 3.0, and their actions.

use provider_kit::transport::{Call, Priority};
use serde_json::{Map, Value};

/// An API: the first label of its host, and its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    version: &'static str,
}

pub(crate) const CVM: Product = Product {
    name: "cvm",
    version: "2017-03-12",
};
pub(crate) const CLB: Product = Product {
    name: "clb",
    version: "2018-03-17",
};
pub(crate) const VPC: Product = Product {
    name: "vpc",
    version: "2017-03-12",
};
pub(crate) const TKE: Product = Product {
    name: "tke",
    version: "2018-05-25",
};
pub(crate) const TAG: Product = Product {
    name: "tag",
    version: "2018-08-13",
};
pub(crate) const STS: Product = Product {
    name: "sts",
    version: "2018-08-13",
};

/// An action with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) product: Product,
    pub(crate) name: &'static str,
    parameters: Map<String, Value>,
    priority: Priority,
}

impl Action {
    pub(crate) fn new(product: Product, name: &'static str) -> Self {
        let is_urgent = ["Delete", "Deregister"]
            .iter()
            .any(|verb| name.contains(verb));
        let priority = if is_urgent {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        Self {
            product,
            name,
            parameters: Map::new(),
            priority,
        }
    }

    /// Sets a parameter; null sets none.
    pub(crate) fn set(mut self, key: &str, value: impl serde::Serialize) -> Self {
        match serde_json::to_value(value).unwrap_or_default() {
            Value::Null => self.parameters.remove(key),
            value => self.parameters.insert(key.to_owned(), value),
        };
        self
    }

    /// Sets one parameter for each field of an object.
    pub(crate) fn fields(self, fields: Value) -> Self {
        let Value::Object(fields) = fields else {
            return self;
        };
        fields
            .into_iter()
            .fold(self, |action, (key, value)| action.set(&key, value))
    }

    pub(crate) fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Returns the request. A change that sets a state can be sent again after a lost answer.
    pub(crate) fn call(&self, region: &str) -> Call {
        let Product { name, version } = self.product;
        let call = Call::post("/", &[])
            .operation(format!("{name} {}", self.name))
            .json(&self.parameters);
        let call = call
            .header("x-tc-action", self.name)
            .header("x-tc-version", version);
        let call = call
            .header("x-tc-region", region)
            .inside("Response")
            .with_priority(self.priority);
        let is_read = ["Describe", "AssumeRole"]
            .iter()
            .any(|verb| self.name.starts_with(verb));
        let sets_state = ["Delete", "Modify", "Set", "Replace", "BatchModify"]
            .iter()
            .any(|verb| self.name.starts_with(verb));
        match (is_read, sets_state) {
            (true, _) => call.reading().list(),
            (false, true) => call.repeatable(),
            (false, false) => call,
        }
    }
}
