//! Preview of the actions of a controller that starts now, from a single read, for `plan` (P-31).

use std::sync::Arc;

use cloud_provider::{CloudProvider, InstanceState, Node, Result};
use tokio::time::Instant;

use crate::lifecycle::guard::{Guard, NodeHoldReason, WitnessRead, population};
use crate::lifecycle::verdict::{
    InstanceVerdict, Triage, is_ours_to_judge, judge, shutdown_taint, triage,
};
use crate::lifecycle::witnesses::is_witness;
use crate::options::{LifecycleOptions, NodeDeletion};
use crate::taints::with_taints;

/// The next action on one Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecyclePreview {
    /// No action is due.
    Leave,
    /// The shutdown taint is added, because the machine is shut down.
    Taint,
    /// The shutdown taint is removed, because the Node is ready.
    Untaint,
    /// The Node is deleted, because its machine does not exist. The guard first requires a second read with the same
    /// result.
    Delete,
    /// The Node is kept although its machine does not, or seems not to, exist.
    Held(NodeHoldReason),
}

/// Returns the next action on each Node, in their order. `answers` are the cloud's answers, one for each Node.
///
/// The past is unknown, so that conditions that must last for some time count as just begun.
#[must_use]
pub fn preview(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    answers: &[Result<InstanceState>],
) -> Vec<LifecyclePreview> {
    let mut previews: Vec<LifecyclePreview> = nodes
        .iter()
        .zip(answers)
        .map(|(node, answer)| preview_node(options, provider, node, answer))
        .collect();
    let suspects: Vec<usize> = previews
        .iter()
        .enumerate()
        .filter(|(_, preview)| **preview == LifecyclePreview::Delete)
        .map(|(index, _)| index)
        .collect();
    for (index, held) in suspects
        .iter()
        .zip(held(options, provider, nodes, answers, &suspects))
    {
        if let Some(held) = held {
            previews[*index] = LifecyclePreview::Held(held);
        }
    }
    previews
}

fn preview_node(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    node: &Node,
    answer: &Result<InstanceState>,
) -> LifecyclePreview {
    match triage(node) {
        Triage::Untaint => LifecyclePreview::Untaint,
        Triage::LookUp if is_ours_to_judge(options, provider, node) => match judge(answer) {
            InstanceVerdict::Gone(_) => LifecyclePreview::Delete,
            InstanceVerdict::Taint if with_taints(&node.taints, &[shutdown_taint()]).is_some() => {
                LifecyclePreview::Taint
            }
            InstanceVerdict::Taint | InstanceVerdict::Leave => LifecyclePreview::Leave,
        },
        Triage::Leave | Triage::LookUp => LifecyclePreview::Leave,
    }
}

/// Returns the reason to hold each suspect (an index into `nodes`).
fn held(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    answers: &[Result<InstanceState>],
    suspects: &[usize],
) -> Vec<Option<NodeHoldReason>> {
    if options.deletion == NodeDeletion::Off {
        return suspects.iter().map(|_| Some(NodeHoldReason::Off)).collect();
    }
    let dry_run = (options.deletion == NodeDeletion::DryRun).then_some(NodeHoldReason::DryRun);
    let Some(guard) = options.guard else {
        return suspects.iter().map(|_| dry_run.clone()).collect();
    };
    let mut guard = Guard::new(guard);
    let now = Instant::now();
    let gone: Vec<&Node> = suspects.iter().map(|index| &*nodes[*index]).collect();
    let opened = guard.open(now, &gone, population(provider, nodes, &gone));
    // The first read stands in for the second. Nodes that it found count as witnesses.
    let is_present =
        |answer: &Result<InstanceState>| matches!(answer, Ok(InstanceState::Present { .. }));
    let present = nodes
        .iter()
        .zip(answers)
        .filter(|(node, answer)| is_witness(provider, node) && is_present(answer));
    let witness_read = WitnessRead {
        present: present.count(),
        gone: 0,
    };
    let second = |index: &usize| &answers[*index];
    opened
        .into_iter()
        .zip(suspects)
        .map(|(opened, index)| {
            opened
                .and_then(|()| guard.close(now, &nodes[*index], second(index), witness_read))
                .err()
                .or(dry_run.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED};
    use cloud_provider::{ConditionStatus, Gone, Taint};

    struct Acme;

    impl CloudProvider for Acme {
        fn name(&self) -> &'static str {
            "acme"
        }
    }

    fn node(name: &str, id: &str, ready: bool) -> Node {
        let ready = if ready {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        Node {
            name: name.into(),
            uid: name.into(),
            provider_id: id.into(),
            ready,
            ..Node::default()
        }
    }

    fn gone() -> Result<InstanceState> {
        Ok(InstanceState::Gone(Gone::no_such_id("x")))
    }

    fn present(shutdown: bool) -> Result<InstanceState> {
        Ok(InstanceState::Present {
            shutdown: Some(shutdown),
            metadata: None,
        })
    }

    fn previews_of(
        options: &LifecycleOptions,
        cluster: Vec<(Node, Result<InstanceState>)>,
    ) -> Vec<LifecyclePreview> {
        let (nodes, answers): (Vec<_>, Vec<_>) = cluster
            .into_iter()
            .map(|(node, answer)| (Arc::new(node), answer))
            .unzip();
        preview(options, &Acme, &nodes, &answers)
    }

    #[test]
    fn preview_of_each_node_matches_a_pass() {
        let options = LifecycleOptions::default();
        let tainted = |ready| Node {
            taints: [shutdown_taint()].into(),
            ..node("t", "acme://7", ready)
        };
        let taint = Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE);
        let uninitialized = Node {
            taints: [taint].into(),
            ..node("new", "", false)
        };
        let cluster = vec![
            (node("ready", "acme://1", true), gone()),
            (node("gone", "acme://2", false), gone()),
            (node("off", "acme://3", false), present(true)),
            (node("elsewhere", "other://4", false), gone()),
            (node("nameless", "", false), gone()),
            (uninitialized, gone()),
            (tainted(true), present(false)),
            (tainted(false), present(true)),
        ];
        let previews = previews_of(&options, cluster);
        assert_eq!(
            previews[4],
            LifecyclePreview::Held(NodeHoldReason::NeverManaged)
        );
        assert!(
            matches!(
                &previews[5],
                LifecyclePreview::Held(NodeHoldReason::NeverIdentified { .. })
            ),
            "{previews:?}"
        );
        let expected = [
            LifecyclePreview::Leave,
            LifecyclePreview::Delete,
            LifecyclePreview::Taint,
            LifecyclePreview::Leave,
        ];
        assert_eq!(previews[..4], expected);
        assert_eq!(
            previews[6..],
            [LifecyclePreview::Untaint, LifecyclePreview::Leave]
        );
    }

    #[test]
    fn guard_and_deletion_mode_hold_nodes() {
        let options = LifecycleOptions::default();
        let lost = || (node("gone", "acme://2", false), gone());
        assert_eq!(
            previews_of(&options, vec![lost()]),
            [LifecyclePreview::Held(NodeHoldReason::NoWitness)]
        );
        let many = (0..5).map(|n| {
            (
                node(&n.to_string(), "acme://1", n == 0),
                if n == 0 { present(false) } else { gone() },
            )
        });
        assert!(matches!(
            &previews_of(&options, many.collect())[1],
            LifecyclePreview::Held(NodeHoldReason::Landslide { gone: 4, of: 5, .. })
        ));
        let with = |deletion, guard| LifecycleOptions {
            deletion,
            guard,
            ..LifecycleOptions::default()
        };
        let cluster = || vec![lost(), (node("well", "acme://1", true), present(false))];
        assert_eq!(
            previews_of(&options, cluster())[0],
            LifecyclePreview::Delete
        );
        assert_eq!(
            previews_of(&with(NodeDeletion::Off, options.guard), cluster())[0],
            LifecyclePreview::Held(NodeHoldReason::Off)
        );
        assert_eq!(
            previews_of(&with(NodeDeletion::DryRun, options.guard), cluster())[0],
            LifecyclePreview::Held(NodeHoldReason::DryRun)
        );
        assert_eq!(
            previews_of(&with(NodeDeletion::On, None), vec![lost()]),
            [LifecyclePreview::Delete]
        );
    }
}
