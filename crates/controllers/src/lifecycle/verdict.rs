//! The action on a Node, from its readiness and the cloud's answer (LIFE-11 to LIFE-17).

use cloud_provider::names::{EFFECT_NO_SCHEDULE, LABEL_EXCLUDE_LIFECYCLE, TAINT_SHUTDOWN};
use cloud_provider::{CloudProvider, ConditionStatus, Gone, InstanceState, Node, Result, Taint};

use crate::options::LifecycleOptions;

/// Returns the taint of a Node whose instance is shut down (PROV-72).
#[must_use]
pub fn shutdown_taint() -> Taint {
    Taint::new(TAINT_SHUTDOWN, EFFECT_NO_SCHEDULE)
}

/// The action on a Node before the cloud is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Triage {
    /// No action: the Node is ready and has no shutdown taint, or it is being deleted (LIFE-34).
    Leave,
    /// The Node is ready: the shutdown taint is removed without a look-up (LIFE-12, LIFE-30).
    Untaint,
    /// The Node is not ready: its instance is looked up (LIFE-13).
    LookUp,
}

/// Returns the action that follows from the Node object.
#[must_use]
pub fn triage(node: &Node) -> Triage {
    if node.terminating {
        return Triage::Leave;
    }
    let tainted = node.taints.iter().any(|t| t.matches(&shutdown_taint()));
    match (node.ready, tainted) {
        (ConditionStatus::True, true) => Triage::Untaint,
        (ConditionStatus::True, false) => Triage::Leave,
        (ConditionStatus::False | ConditionStatus::Unknown, _) => Triage::LookUp,
    }
}

/// Returns `true` if a Node that is not ready may be looked up. Nodes of another cloud or without one, and Nodes that a
/// label excludes, may not (P-15). The Go program looks up all Nodes.
#[must_use]
pub fn is_ours_to_judge(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    node: &Node,
) -> bool {
    let is_excluded = node
        .labels
        .get(LABEL_EXCLUDE_LIFECYCLE)
        .is_some_and(|value| value != "false");
    options.guard.is_none() || (!is_excluded && provider.owns_node(node))
}

/// The action on a Node that is not ready.
#[derive(Debug, Clone, PartialEq)]
pub enum InstanceVerdict {
    /// The instance does not exist (LIFE-16).
    Gone(Gone),
    /// The instance is shut down (LIFE-43).
    Taint,
    /// The instance runs (LIFE-44), or its state is unknown (LIFE-15, LIFE-42).
    Leave,
}

/// Returns the action for the cloud's answer. An error is no answer; the caller logs it.
#[must_use]
pub fn judge(answer: &Result<InstanceState>) -> InstanceVerdict {
    match answer {
        Ok(InstanceState::Gone(gone)) => InstanceVerdict::Gone(gone.clone()),
        Ok(InstanceState::Present {
            shutdown: Some(true),
            ..
        }) => InstanceVerdict::Taint,
        Ok(InstanceState::Present { .. }) | Err(_) => InstanceVerdict::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::Error;

    fn node(ready: ConditionStatus, taints: &[Taint], terminating: bool) -> Node {
        Node {
            ready,
            taints: taints.into(),
            terminating,
            ..Node::default()
        }
    }

    #[test]
    fn only_a_node_that_is_not_ready_is_looked_up() {
        use ConditionStatus::{False, True, Unknown};
        let ours = [shutdown_taint()];
        let other = [Taint::new(TAINT_SHUTDOWN, "NoExecute")];
        let table = [
            (node(True, &[], false), Triage::Leave),
            (node(True, &ours, false), Triage::Untaint),
            (node(True, &other, false), Triage::Leave),
            (node(False, &[], false), Triage::LookUp),
            (node(Unknown, &ours, false), Triage::LookUp),
            (node(Unknown, &[], true), Triage::Leave),
            (node(True, &ours, true), Triage::Leave),
        ];
        for (node, expected) in table {
            assert_eq!(triage(&node), expected, "{node:?}");
        }
    }

    #[test]
    fn an_error_is_no_answer() {
        assert_eq!(
            judge(&Err(Error::instance_not_found())),
            InstanceVerdict::Leave
        );
        let present = |shutdown| {
            Ok(InstanceState::Present {
                shutdown,
                metadata: None,
            })
        };
        assert_eq!(judge(&present(Some(true))), InstanceVerdict::Taint);
        assert_eq!(judge(&present(Some(false))), InstanceVerdict::Leave);
        assert_eq!(judge(&present(None)), InstanceVerdict::Leave);
        let gone = Gone::no_such_id("p://1");
        assert_eq!(
            judge(&Ok(InstanceState::Gone(gone.clone()))),
            InstanceVerdict::Gone(gone)
        );
    }
}
