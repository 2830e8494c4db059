//! The API server, as far as one Lease goes.

use runtime::election::{Failure, Input, Lease};
use serde_json::{Value, json};

/// A request of an elector.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Read,
    Create(Lease),
    Update(Lease),
}

impl Request {
    /// Returns the input for a request without a response.
    pub(crate) fn unanswered(&self) -> Input {
        match self {
            Self::Read => Input::Read(Err(Failure::Unknown)),
            _ => Input::Written(Err(Failure::Unknown)),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) lease: Option<Lease>,
    pub(crate) put_creates: bool,
    pub(crate) version: u64,
}

impl Server {
    /// Carries out a request; returns the response, and `true` if the Lease changed.
    pub(crate) fn answer(&mut self, request: Request) -> (Input, bool) {
        let conflict = (Input::Written(Err(Failure::Conflict)), false);
        match (request, self.lease.is_some()) {
            (Request::Read, _) => (Input::Read(Ok(self.lease.clone())), false),
            (Request::Create(lease), false) => self.store(&lease, None),
            (Request::Update(lease), false) if self.put_creates => self.store(&lease, None),
            (Request::Update(lease), true) => {
                let sent = metadata(Some(&lease));
                let stored = metadata(self.lease.as_ref());
                let is_same = |key: &str| sent[key] == stored[key];
                if !is_same("uid") || !is_same("resourceVersion") {
                    return conflict;
                }
                self.store(&lease, Some(stored["uid"].clone()))
            }
            (Request::Create(_), true) | (Request::Update(_), false) => conflict,
        }
    }

    fn store(&mut self, lease: &Lease, uid: Option<Value>) -> (Input, bool) {
        self.version += 1;
        let mut object = serde_json::to_value(lease).unwrap();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("uid-{}", self.version)));
        let lease: Lease = serde_json::from_value(object).unwrap();
        self.lease = Some(lease.clone());
        (Input::Written(Ok(lease)), true)
    }

    pub(crate) fn holder(&self) -> Option<String> {
        self.lease.as_ref().map(|lease| lease.record().holder)
    }
}

fn metadata(lease: Option<&Lease>) -> Value {
    lease.map_or(Value::Null, |lease| {
        serde_json::to_value(lease).unwrap()["metadata"].clone()
    })
}
