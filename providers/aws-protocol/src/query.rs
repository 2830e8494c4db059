//! Actions of AWS APIs with their parameters.

use provider_kit::transport::{Call, Priority};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::endpoint::{EC2, Service};

/// An action with its parameters. Values are anything that serializes: a struct or map becomes `Key.Field=…`, a list
/// `Key.1=…` (EC2) or `Key.member.1=…` (ELB), and null nothing.
///
/// ```
/// use aws_protocol::Query;
/// use serde_json::json;
///
/// let query = Query::new("CreateSecurityGroup").set("GroupName", "k8s-elb-a1").tags("security-group", [("Name", "web")]);
/// let query = query.set("IpPermissions", json!([{"IpProtocol": "tcp", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]));
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    action: &'static str,
    fields: Map<String, Value>,
    page: Option<usize>,
    priority: Priority,
    is_repeatable: bool,
}

impl Query {
    /// Returns a query for this action, without parameters. Actions that delete, revoke or deregister are urgent.
    #[must_use]
    pub fn new(action: &'static str) -> Self {
        let is_urgent = ["Delete", "Revoke", "Deregister", "Detach"]
            .iter()
            .any(|verb| action.starts_with(verb));
        let priority = if is_urgent {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        Self {
            action,
            fields: Map::new(),
            page: None,
            priority,
            is_repeatable: false,
        }
    }

    /// Sets a parameter: a text, number, boolean, list, struct or map. A second value replaces the first.
    #[must_use]
    pub fn set(self, key: &str, value: impl Serialize) -> Self {
        self.fields(json!({key: value}))
    }

    /// Sets one parameter for each field of a struct or map.
    #[must_use]
    pub fn fields(mut self, fields: impl Serialize) -> Self {
        self.fields.extend(
            serde_json::to_value(fields)
                .ok()
                .and_then(|object| Some(object.as_object()?.clone()))
                .unwrap_or_default(),
        );
        self
    }

    /// Adds a filter of EC2: objects with one of these values.
    #[must_use]
    pub fn filter<V: Into<String>>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        let filters = self.fields.entry("Filter").or_insert_with(|| json!([]));
        filters
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(json!({"Name": name, "Value": values})));
        self
    }

    /// Sets the tags that EC2 gives to an object which the action creates.
    #[must_use]
    pub fn tags<K: Into<String>, V: Into<String>>(
        self,
        resource_type: &str,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.set(
            "TagSpecification",
            json!([{"ResourceType": resource_type, "Tag": Self::tag_list(tags)}]),
        )
    }

    /// Returns tags in the form of AWS: `[{"Key": …, "Value": …}]`.
    #[must_use]
    pub fn tag_list<K: Into<String>, V: Into<String>>(
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Value {
        tags.into_iter()
            .map(|(key, value)| json!({"Key": key.into(), "Value": value.into()}))
            .collect()
    }

    /// Asks for pages of so many items. Some actions reject a page size, and EC2 rejects one beside IDs.
    #[must_use]
    pub fn page(mut self, items: usize) -> Self {
        self.page = Some(items);
        self
    }

    /// Sets the priority, instead of the one of the action.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Marks a change that can be sent again after a lost answer, such as setting or deleting something.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    pub(crate) fn call(&self, service: &Service, is_read: bool) -> Call {
        let (size, item) = if service.label == EC2.label {
            ("MaxResults", "")
        } else {
            ("PageSize", "member.")
        };
        let call = Call::post("/", &[])
            .form()
            .operation(format!("{} {}", service.label, self.action));
        let call = call
            .header("accept", "application/xml")
            .with_priority(self.priority);
        let call = call
            .query("Action", self.action)
            .query("Version", service.version);
        let call = self
            .page
            .iter()
            .fold(call, |call, items| call.query(size, items));
        let call = self
            .fields
            .iter()
            .fold(call, |call, (key, value)| call.nested(key, value, item));
        match (is_read, self.is_repeatable) {
            (true, _) => call.reading().list(),
            (false, true) => call.repeatable(),
            (false, false) => call,
        }
    }
}
