//! The explanation of one object.

use cloud_provider::{Cluster, LoadBalancerDescription};
use k8s_openapi::jiff::Timestamp;

use super::cause::Cause;
use super::facts::{EventFact, Leader};
use super::rows::Row;
use super::state::Weight;
use super::subject::Subject;
use crate::plan::{ObjectPlan, Outcome};

/// Explanation of one object: facts, causes and advice.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The object that is explained.
    pub subject: Subject,
    /// Name of the provider; empty if it cannot be made.
    pub provider: String,
    /// The cluster that it belongs to.
    pub cluster: Cluster,
    /// Time of the reading.
    pub now: Timestamp,
    /// If set, the API has the object.
    pub exists: bool,
    /// Causes, those that make it wait first.
    pub causes: Vec<Cause>,
    /// The object in Kubernetes, as rows.
    pub kubernetes: Vec<Row>,
    /// The cloud's side, as rows.
    pub cloud: Vec<Row>,
    /// Load balancers that are the Service's, or stand where its own would be.
    pub balancers: Vec<LoadBalancerDescription>,
    /// Claims of others on the object or on what belongs to it.
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
    /// Time; `None`: it was met just now.
    pub at: Option<Timestamp>,
    /// Place where it was found: `now`, `condition` or the reason of an event.
    pub source: String,
    /// Text of the error.
    pub text: String,
}

/// Returns `true` if two texts end with the same cause: the errors of a chain are wrapped at their front.
pub(super) fn is_same_error(one: &str, other: &str) -> bool {
    const CAUSE: usize = 40;
    /// Shorter texts may be part of another one by chance.
    const SHORTEST: usize = 20;
    if one.len().min(other.len()) < SHORTEST {
        return one == other;
    }
    let end = |text: &str| {
        let from = text.char_indices().rev().nth(CAUSE - 1).map_or(0, |(at, _)| at);
        text[from..].trim_end_matches('.').to_owned()
    };
    one.contains(&end(other)) || other.contains(&end(one))
}

impl Explanation {
    /// Returns the exit code: 0 nothing waits and nothing would change, 2 something does, 1 something could not be found out.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let waits = self.causes.iter().any(|cause| cause.state.weight() == Weight::Waits);
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
        let condition =
            "failed to ensure load balancer: POST /lbs answered 403: project \"real\" is full. Free something.";
        assert!(is_same_error(event, condition) && is_same_error(condition, event));
        assert!(!is_same_error(event, "") && !is_same_error(event, "is full"));
        assert!(!is_same_error(event, "GET /lbs answered 401: the token is not valid any more, or never was"));
    }
}
