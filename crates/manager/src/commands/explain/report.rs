//! The explanation of one object.

use cloud_provider::{Cluster, LoadBalancerDescription};
use k8s_openapi::jiff::Timestamp;

use super::cause::Cause;
use super::facts::{EventFact, Leader};
use super::rows::Row;
use super::state::Weight;
use super::subject::Subject;
use crate::commands::plan::{ObjectPlan, Outcome};

/// Explanation of one object: facts, causes and advice.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The object that is explained.
    pub subject: Subject,
    /// Name of the provider; empty if the provider cannot be created.
    pub provider: String,
    /// Cluster that the object belongs to.
    pub cluster: Cluster,
    /// Time at which the facts were read.
    pub now: Timestamp,
    /// If set, the object exists in the API.
    pub exists: bool,
    /// Names of other objects of the kind, the most similar first, if the object does not exist.
    pub similar: Vec<String>,
    /// Causes; those that make the object wait come first.
    pub causes: Vec<Cause>,
    /// The object in Kubernetes, as rows.
    pub kubernetes: Vec<Row>,
    /// The object in the cloud, as rows.
    pub cloud: Vec<Row>,
    /// Load balancers that belong to the Service, or whose name or ID conflicts with the Service's own.
    pub balancers: Vec<LoadBalancerDescription>,
    /// Claims of other controllers on the object or on its resources.
    pub claims: Vec<String>,
    /// Changes that would be made next.
    pub plan: ObjectPlan,
    /// Last errors, the newest first.
    pub last_errors: Vec<LastError>,
    /// Events, the newest first.
    pub events: Vec<EventFact>,
    /// The leading manager, if one leads.
    pub leader: Leader,
    /// Facts that only the leading manager knows.
    pub unknown: Vec<String>,
    /// Errors that kept facts from being read.
    pub errors: Vec<String>,
}

/// An error in the words of the cloud or of the API.
#[derive(Clone, Debug, PartialEq)]
pub struct LastError {
    /// Time of the error; `None` if the error occurred while the facts were read.
    pub at: Option<Timestamp>,
    /// Place where it was found: `now`, `condition` or the reason of an event.
    pub source: String,
    /// Text of the error.
    pub text: String,
}

/// Returns `true` if two texts end with the same cause, because each error of a chain is wrapped at its front.
pub(super) fn is_same_error(one: &str, other: &str) -> bool {
    const CAUSE: usize = 40;
    /// Shorter texts may be part of another one by chance.
    const SHORTEST: usize = 20;
    if one.len().min(other.len()) < SHORTEST {
        return one == other;
    }
    let end = |text: &str| {
        let from = text
            .char_indices()
            .rev()
            .nth(CAUSE - 1)
            .map_or(0, |(at, _)| at);
        text[from..].trim_end_matches('.').to_owned()
    };
    one.contains(&end(other)) || other.contains(&end(one))
}

impl Explanation {
    /// Returns the outcome, which determines the exit code: 0 if nothing waits and nothing would change, 2 if something
    /// does, 1 if a fact could not be read.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let waits = self
            .causes
            .iter()
            .any(|cause| cause.state.weight() == Weight::Waits);
        if !self.exists || !self.errors.is_empty() || !self.plan.errors.is_empty() {
            Outcome::Incomplete
        } else if waits || !self.plan.steps.is_empty() {
            Outcome::Changes
        } else {
            Outcome::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_same_however_they_are_wrapped() {
        let event = "Error syncing load balancer: failed to ensure load balancer: POST /lbs answered 403: project \"real\" is full";
        let condition = "failed to ensure load balancer: POST /lbs answered 403: project \"real\" is full. Free something.";
        assert!(is_same_error(event, condition) && is_same_error(condition, event));
        assert!(!is_same_error(event, "") && !is_same_error(event, "is full"));
        assert!(!is_same_error(
            event,
            "GET /lbs answered 401: the token is not valid any more, or never was"
        ));
    }
}
