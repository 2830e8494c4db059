//! Preview of the actions of a controller that starts now, from a single read, for `plan` (P-31).

use std::sync::Arc;

use cloud_provider::{CloudProvider, InstanceState, Node, Result};
use tokio::time::Instant;

use crate::lifecycle::guard::{Guard, Held, Testimony, population};
use crate::lifecycle::verdict::{Triage, Verdict, is_ours_to_judge, judge, shutdown_taint, triage};
use crate::lifecycle::witnesses::is_witness;
use crate::options::{LifecycleOptions, NodeDeletion};
use crate::taints::with_taints;

/// The next action on one Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
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
    Held(Held),
}

/// Returns the next action on each Node, in their order. `answers` are the cloud's answers, one for each Node.
///
/// The past is unknown, so that conditions that must last for some time count as just begun.
#[must_use]
pub fn foresee(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    answers: &[Result<InstanceState>],
) -> Vec<Outlook> {
    let mut outlooks: Vec<Outlook> =
        nodes.iter().zip(answers).map(|(node, answer)| at_first_sight(options, provider, node, answer)).collect();
    let suspects: Vec<usize> = outlooks
        .iter()
        .enumerate()
        .filter(|(_, outlook)| **outlook == Outlook::Delete)
        .map(|(index, _)| index)
        .collect();
    for (index, held) in suspects.iter().zip(held(options, provider, nodes, answers, &suspects)) {
        if let Some(held) = held {
            outlooks[*index] = Outlook::Held(held);
        }
    }
    outlooks
}

fn at_first_sight(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    node: &Node,
    answer: &Result<InstanceState>,
) -> Outlook {
    match triage(node) {
        Triage::Untaint => Outlook::Untaint,
        Triage::Ask if is_ours_to_judge(options, provider, node) => match judge(answer) {
            Verdict::Gone(_) => Outlook::Delete,
            Verdict::Taint if with_taints(&node.taints, &[shutdown_taint()]).is_some() => Outlook::Taint,
            Verdict::Taint | Verdict::Leave => Outlook::Leave,
        },
        Triage::Leave | Triage::Ask => Outlook::Leave,
    }
}

/// Returns the reason to hold each suspect (an index into `nodes`).
fn held(
    options: &LifecycleOptions,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    answers: &[Result<InstanceState>],
    suspects: &[usize],
) -> Vec<Option<Held>> {
    if options.deletion == NodeDeletion::Off {
        return suspects.iter().map(|_| Some(Held::Off)).collect();
    }
    let dry_run = (options.deletion == NodeDeletion::DryRun).then_some(Held::DryRun);
    let Some(guard) = options.guard else { return suspects.iter().map(|_| dry_run.clone()).collect() };
    let (mut guard, now) = (Guard::new(guard), Instant::now());
    let gone: Vec<&Node> = suspects.iter().map(|index| &*nodes[*index]).collect();
    let opened = guard.open(now, &gone, population(provider, nodes, &gone));
    // The first read stands in for the second. Nodes that it found count as witnesses.
    let is_present = |answer: &Result<InstanceState>| matches!(answer, Ok(InstanceState::Present { .. }));
    let present = nodes.iter().zip(answers).filter(|(node, answer)| is_witness(provider, node) && is_present(answer));
    let testimony = Testimony { present: present.count(), gone: 0 };
    let second = |index: &usize| &answers[*index];
    opened
        .into_iter()
        .zip(suspects)
        .map(|(opened, index)| {
            opened.and_then(|()| guard.close(now, &nodes[*index], second(index), testimony)).err().or(dry_run.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::{ConditionStatus, Gone};

    struct Acme;

    impl CloudProvider for Acme {
        fn name(&self) -> &'static str {
            "acme"
        }
    }

    fn node(name: &str, id: &str, ready: bool) -> Node {
        let ready = if ready { ConditionStatus::True } else { ConditionStatus::False };
        Node { name: name.into(), uid: name.into(), provider_id: id.into(), ready, ..Node::default() }
    }

    fn gone() -> Result<InstanceState> {
        Ok(InstanceState::Gone(Gone::no_such_id("x")))
    }

    fn present(shutdown: bool) -> Result<InstanceState> {
        Ok(InstanceState::Present { shutdown: Some(shutdown), metadata: None })
    }

    fn look(options: &LifecycleOptions, world: Vec<(Node, Result<InstanceState>)>) -> Vec<Outlook> {
        let (nodes, answers): (Vec<_>, Vec<_>) =
            world.into_iter().map(|(node, answer)| (Arc::new(node), answer)).unzip();
        foresee(options, &Acme, &nodes, &answers)
    }

    #[test]
    fn each_node_is_seen_as_a_pass_would() {
        let options = LifecycleOptions::default();
        let tainted = |ready| Node { taints: [shutdown_taint()].into(), ..node("t", "acme://7", ready) };
        let world = vec![
            (node("ready", "acme://1", true), gone()),
            (node("gone", "acme://2", false), gone()),
            (node("off", "acme://3", false), present(true)),
            (node("elsewhere", "other://4", false), gone()),
            (node("nameless", "", false), gone()),
            (tainted(true), present(false)),
            (tainted(false), present(true)),
        ];
        let outlooks = look(&options, world);
        assert!(matches!(&outlooks[4], Outlook::Held(Held::NeverIdentified { .. })), "{outlooks:?}");
        let expected = [Outlook::Leave, Outlook::Delete, Outlook::Taint, Outlook::Leave];
        assert_eq!(outlooks[..4], expected);
        assert_eq!(outlooks[5..], [Outlook::Untaint, Outlook::Leave]);
    }

    #[test]
    fn the_guard_and_the_mode_hold() {
        let options = LifecycleOptions::default();
        let lost = || (node("gone", "acme://2", false), gone());
        assert_eq!(look(&options, vec![lost()]), [Outlook::Held(Held::NoWitness)]);
        let many =
            (0..5).map(|n| (node(&n.to_string(), "acme://1", n == 0), if n == 0 { present(false) } else { gone() }));
        assert!(matches!(&look(&options, many.collect())[1], Outlook::Held(Held::Landslide { gone: 4, of: 5, .. })));
        let with = |deletion, guard| LifecycleOptions { deletion, guard, ..LifecycleOptions::default() };
        let world = || vec![lost(), (node("well", "acme://1", true), present(false))];
        assert_eq!(look(&options, world())[0], Outlook::Delete);
        assert_eq!(look(&with(NodeDeletion::Off, options.guard), world())[0], Outlook::Held(Held::Off));
        assert_eq!(look(&with(NodeDeletion::DryRun, options.guard), world())[0], Outlook::Held(Held::DryRun));
        assert_eq!(look(&with(NodeDeletion::On, None), vec![lost()]), [Outlook::Delete]);
    }
}
