//! The deletion guard (D-2, INV-1). A Node is deleted only if a second read confirms that its instance does not exist,
//! if another Node of the cluster (a witness) is found with the same credential, and if no mass deletion (a landslide)
//! is suspected.
//!
//! The guard is a state machine without a clock of its own. A pass that finds instances absent calls
//! [`open`](Guard::open), which holds the Nodes that must wait in any case without a further request. The other Nodes
//! are read once more, together with witnesses, and passed to [`close`](Guard::close).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, InstanceState, Node, Result};
use tokio::time::Instant;

use crate::options::GuardOptions;

/// The reason why a Node without an instance is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeHoldReason {
    /// The second read found no witness, that is, no other Node of the cluster.
    NoWitness,
    /// Mass deletion: too many Nodes have no instance at the same time.
    Landslide {
        /// Number of Nodes without an instance.
        gone: usize,
        /// Number of Nodes in total.
        of: usize,
        /// Number of Nodes that were deleted within the last `delay`, which count as well (D-102).
        deleted: usize,
        /// Time for which the landslide must last before Nodes are deleted.
        delay: Duration,
    },
    /// The Node has neither a provider ID nor the uninitialized taint, so that it was never a Node of this cloud.
    NeverManaged,
    /// The Node waits for its provider ID, so that only its name identifies the machine.
    NeverIdentified {
        /// Time for which the instance must be absent.
        delay: Duration,
    },
    /// The second read failed, with this error.
    Unconfirmed(String),
    /// The second read found the instance.
    Contradicted,
    /// The second read no longer found a witness, so that a landslide may have begun.
    Unsettled,
    /// The first read failed, repeatedly or because of an invalid credential, so that the state of the instance is
    /// unknown.
    Unknown(String),
    /// The flag `--node-deletion=dry-run` is set.
    DryRun,
    /// The flag `--node-deletion=off` is set.
    Off,
}

impl NodeHoldReason {
    /// Returns the name of the cause for the metric's label and for reports once per Node and cause.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NoWitness => "no-witness",
            Self::Landslide { .. } => "landslide",
            Self::NeverManaged => "never-managed",
            Self::NeverIdentified { .. } => "never-identified",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::Contradicted => "contradicted",
            Self::Unsettled => "unsettled",
            Self::Unknown(_) => "unknown",
            Self::DryRun => "dry-run",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for NodeHoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWitness => f.write_str(
                "no other Node of this cluster was found with the same credential, so the answer may be about another \
                 project, account or region; check the credential and its scope",
            ),
            Self::Landslide { gone, of, deleted, delay } => {
                let seconds = delay.as_secs();
                write!(f, "{gone} of {of} Nodes are without a machine")?;
                if *deleted > 0 {
                    write!(f, ", {deleted} more were deleted within the last {seconds} s")?;
                }
                write!(f, "; they are deleted if this lasts for {seconds} s")
            }
            Self::NeverManaged => f.write_str(
                "it has neither a provider ID nor the uninitialized taint, so it was never a Node of this cloud; \
                 delete it yourself if its machine no longer exists",
            ),
            Self::NeverIdentified { delay } => write!(
                f,
                "it never had a provider ID, so its machine may have another name; the Node is deleted if no machine \
                 is found for {} s",
                delay.as_secs()
            ),
            Self::Unconfirmed(error) => write!(f, "a second read failed: {error}"),
            Self::Contradicted => f.write_str("a second read found its instance"),
            Self::Unsettled => f.write_str("more Nodes lost their machine during the second read"),
            Self::Unknown(error) => write!(f, "the lookup in the cloud failed: {error}"),
            Self::DryRun => f.write_str("--node-deletion=dry-run; without this flag the Node would be deleted now"),
            Self::Off => f.write_str("--node-deletion=off"),
        }
    }
}

/// The result of the second read for the witnesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WitnessRead {
    /// Number of witnesses that were found.
    pub present: usize,
    /// Number of witnesses that do not exist themselves.
    pub gone: usize,
}

impl WitnessRead {
    /// Returns the result for these answers. A suspect that was found after all counts as a witness.
    #[must_use]
    pub fn of(witnesses: &[Result<InstanceState>], suspects: &[Result<InstanceState>]) -> Self {
        let is_present =
            |answer: &&Result<InstanceState>| matches!(answer, Ok(InstanceState::Present { .. }));
        Self {
            present: witnesses.iter().chain(suspects).filter(is_present).count(),
            gone: witnesses
                .iter()
                .filter(|answer| matches!(answer, Ok(InstanceState::Gone(_))))
                .count(),
        }
    }

    /// Returns the result, but with `present` set to 0 if `before`, a read of the witnesses that preceded that of the
    /// suspects, found none. A witness that was found only later may have been read with another credential than the
    /// suspects.
    #[must_use]
    pub fn discard_unless_found_before(self, before: &[Result<InstanceState>]) -> Self {
        let was_found = before
            .iter()
            .any(|answer| matches!(answer, Ok(InstanceState::Present { .. })));
        Self {
            present: if was_found { self.present } else { 0 },
            ..self
        }
    }
}

/// Returns `true` if the Node carries no proof that it was ever a Node of this cloud: it has no provider ID and does not
/// wait for one.
fn was_never_managed(node: &Node) -> bool {
    node.provider_id().is_none() && !node.is_uninitialized()
}

/// Returns the number of Nodes that the suspects are a share of: those of this provider. A Node without a provider ID
/// counts only if it is suspected and waits for one, because it may belong to no provider.
#[must_use]
pub fn population(provider: &dyn CloudProvider, nodes: &[Arc<Node>], suspects: &[&Node]) -> usize {
    let counts = |node: &&Arc<Node>| {
        node.provider_id().is_some() && !node.terminating && provider.owns_node(node)
    };
    let unidentified = |node: &&&Node| node.provider_id().is_none() && node.is_uninitialized();
    let managed = suspects
        .iter()
        .filter(|node| !was_never_managed(node))
        .count();
    (nodes.iter().filter(counts).count() + suspects.iter().filter(unidentified).count())
        .max(managed)
}

/// The decision about a Node without an instance: `Ok` to proceed, or the reason to hold it.
pub type Decision = Result<(), NodeHoldReason>;

/// The guard's state, by Node UID. The state is lost with the process: a landslide must then last for the whole delay
/// again, but Nodes that were deleted before no longer count.
#[derive(Debug)]
pub struct Guard {
    options: GuardOptions,
    landslide_since: Option<Instant>,
    /// Time since when the instance of each Node, by UID, has been absent without interruption.
    gone_since: HashMap<Box<str>, Instant>,
    /// Times at which Nodes were deleted within the last delay, by UID.
    deleted: HashMap<Box<str>, Instant>,
}

impl Guard {
    /// Creates a guard without any state.
    #[must_use]
    pub fn new(options: GuardOptions) -> Self {
        Self {
            options,
            landslide_since: None,
            gone_since: HashMap::new(),
            deleted: HashMap::new(),
        }
    }

    /// Records the Nodes that a complete, fresh read found without an instance, out of `nodes` Nodes of this provider.
    /// Returns `Ok` for Nodes that are worth a second read now, and `Err` for Nodes that are held whatever its result.
    pub fn open(&mut self, now: Instant, gone: &[&Node], nodes: usize) -> Vec<Decision> {
        let present: HashSet<&str> = gone.iter().map(|n| &*n.uid).collect();
        self.gone_since.retain(|uid, _| present.contains(&**uid));
        for node in gone {
            self.gone_since.entry(node.uid.clone()).or_insert(now);
        }
        let managed = gone.iter().filter(|node| !was_never_managed(node)).count();
        let landslide = self.landslide(now, managed, nodes);
        gone.iter()
            .map(|node| {
                let lasted = self.lasted(self.gone_since.get(&node.uid), now);
                match &landslide {
                    _ if was_never_managed(node) => Err(NodeHoldReason::NeverManaged),
                    // Both the landslide and the absence of this Node's instance must have lasted for the delay.
                    Some(held) if !(lasted && self.lasted(self.landslide_since.as_ref(), now)) => {
                        Err(held.clone())
                    }
                    _ if node.provider_id().is_none() && !lasted => {
                        Err(NodeHoldReason::NeverIdentified {
                            delay: self.options.delay,
                        })
                    }
                    _ => Ok(()),
                }
            })
            .collect()
    }

    /// Decides about `node` after its second read, made together with `witnesses`.
    pub fn close(
        &mut self,
        now: Instant,
        node: &Node,
        second: &Result<InstanceState>,
        witnesses: WitnessRead,
    ) -> Decision {
        match second {
            Err(error) => Err(NodeHoldReason::Unconfirmed(error.to_string())),
            Ok(InstanceState::Present { .. }) => Err(NodeHoldReason::Contradicted),
            Ok(InstanceState::Gone(_)) if witnesses.present == 0 => Err(NodeHoldReason::NoWitness),
            Ok(InstanceState::Gone(_)) if witnesses.gone > 0 => Err(NodeHoldReason::Unsettled),
            Ok(InstanceState::Gone(_)) => {
                self.deleted.insert(node.uid.clone(), now);
                Ok(())
            }
        }
    }

    /// Returns the hold if there is a landslide. Recently deleted Nodes count, so that a landslide in small portions is
    /// detected too.
    fn landslide(&mut self, now: Instant, gone: usize, nodes: usize) -> Option<NodeHoldReason> {
        self.deleted
            .retain(|_, at| now.duration_since(*at) < self.options.delay);
        // A Node that still exists (a dry run, a refused deletion, a finalizer) is counted already.
        let deleted = self
            .deleted
            .keys()
            .filter(|uid| !self.gone_since.contains_key(*uid))
            .count();
        let gone_lately = gone + deleted;
        let of = nodes + deleted;
        #[allow(clippy::cast_precision_loss)] // Nodes are counted in thousands.
        let slides = gone > 0
            && of >= GuardOptions::SMALLEST_LANDSLIDE
            && gone_lately as f64 > self.options.share * of as f64;
        if !slides {
            self.landslide_since = None;
            return None;
        }
        self.landslide_since.get_or_insert(now);
        Some(NodeHoldReason::Landslide {
            gone,
            of: nodes,
            deleted,
            delay: self.options.delay,
        })
    }

    fn lasted(&self, since: Option<&Instant>, now: Instant) -> bool {
        since.is_some_and(|since| now.duration_since(*since) >= self.options.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED};
    use cloud_provider::{Error, Gone, Taint};

    const DELAY: Duration = Duration::from_secs(300);

    fn node(i: usize, provider_id: &str) -> Node {
        Node {
            name: format!("n{i}").into(),
            uid: format!("u{i}").into(),
            provider_id: provider_id.into(),
            ..Node::default()
        }
    }

    fn nodes(n: usize) -> Vec<Node> {
        (0..n).map(|i| node(i, &format!("p://{i}"))).collect()
    }

    fn gone() -> Result<InstanceState> {
        Ok(InstanceState::Gone(Gone::no_such_id("p://1")))
    }

    #[test]
    fn witness_that_was_not_found_before_the_suspects_does_not_count() {
        let present = || {
            Ok(InstanceState::Present {
                shutdown: None,
                metadata: None,
            })
        };
        // A credential that comes right while the second read is on its way: the suspect's answer is the old one's, the
        // witness's the new one's.
        let late = WitnessRead::of(&[present()], &[gone()]);
        assert_eq!(late.discard_unless_found_before(&[gone()]).present, 0);
        assert_eq!(
            late.discard_unless_found_before(&[Err(Error::other("no answer"))])
                .present,
            0
        );
        assert_eq!(late.discard_unless_found_before(&[]).present, 0);
        assert_eq!(late.discard_unless_found_before(&[gone(), present()]), late);
    }

    fn found(present: usize) -> WitnessRead {
        WitnessRead { present, gone: 0 }
    }

    fn guard() -> Guard {
        Guard::new(GuardOptions::default())
    }

    fn open(guard: &mut Guard, now: Instant, gone: &[Node], of: usize) -> Vec<Decision> {
        guard.open(now, &gone.iter().collect::<Vec<_>>(), of)
    }

    fn cause(decision: &Decision) -> &'static str {
        decision
            .as_ref()
            .map_or_else(NodeHoldReason::cause, |()| "delete")
    }

    #[test]
    fn one_node_gone_is_confirmed_and_witnessed_before_it_goes() {
        let mut guard = guard();
        let now = Instant::now();
        assert_eq!(open(&mut guard, now, &nodes(1), 5), [Ok(())]);
        let present = Ok(InstanceState::Present {
            shutdown: None,
            metadata: None,
        });
        let table = [
            (gone(), 1, "delete"),
            (gone(), 0, "no-witness"),
            (present, 3, "contradicted"),
            (Err(Error::other("503")), 3, "unconfirmed"),
            (Err(Error::instance_not_found()), 3, "unconfirmed"),
        ];
        for (second, witnesses, expected) in table {
            assert_eq!(
                cause(&guard.close(now, &nodes(1)[0], &second, found(witnesses))),
                expected,
                "{second:?} with {witnesses}"
            );
        }
    }

    #[test]
    fn a_witness_that_goes_too_holds_everything() {
        let mut guard = guard();
        let now = Instant::now();
        let decision = guard.close(
            now,
            &nodes(1)[0],
            &gone(),
            WitnessRead {
                present: 2,
                gone: 1,
            },
        );
        assert_eq!(cause(&decision), "unsettled");
    }

    #[test]
    fn half_of_the_nodes_is_no_landslide_and_more_is() {
        for (gone, of, expected) in [
            (1, 1, "delete"),
            (3, 3, "delete"),
            (2, 4, "delete"),
            (3, 4, "landslide"),
            (5, 10, "delete"),
            (6, 10, "landslide"),
            (9, 10, "landslide"),
        ] {
            let decisions = open(&mut guard(), Instant::now(), &nodes(gone), of);
            assert!(
                decisions.iter().all(|d| cause(d) == expected),
                "{gone} of {of}: {decisions:?}"
            );
        }
    }

    #[test]
    fn a_landslide_is_believed_when_it_lasted_without_a_break() {
        let mut guard = guard();
        let start = Instant::now();
        let slid = nodes(6);
        assert_eq!(cause(&open(&mut guard, start, &slid, 10)[0]), "landslide");
        assert_eq!(
            cause(&open(&mut guard, start + DELAY / 2, &slid, 10)[0]),
            "landslide"
        );
        assert_eq!(open(&mut guard, start + DELAY, &slid, 10), vec![Ok(()); 6]);

        // One pass in which the Nodes are found again, or their state is unknown, restarts the delay.
        open(&mut guard, start + DELAY, &[], 10);
        assert_eq!(
            cause(&open(&mut guard, start + 2 * DELAY, &slid, 10)[0]),
            "landslide"
        );
    }

    #[test]
    fn a_landslide_in_small_portions_is_one_too() {
        let mut guard = guard();
        let now = Instant::now();
        let all = nodes(10);
        for i in 0..5 {
            assert_eq!(open(&mut guard, now, &all[i..=i], 10 - i), [Ok(())], "{i}");
            assert_eq!(guard.close(now, &all[i], &gone(), found(1)), Ok(()));
        }
        assert_eq!(cause(&open(&mut guard, now, &all[5..6], 5)[0]), "landslide");
        assert_eq!(
            open(&mut guard, now + DELAY, &all[5..6], 5),
            [Ok(())],
            "the others were deleted long ago"
        );
    }

    #[test]
    fn a_node_that_stays_is_counted_once() {
        let mut guard = guard();
        let mut now = Instant::now();
        let all = nodes(10);
        for pass in 0..50 {
            now += Duration::from_secs(5);
            assert_eq!(
                open(&mut guard, now, &all[..1], 10),
                [Ok(())],
                "pass {pass}"
            );
            assert_eq!(
                guard.close(now, &all[0], &gone(), found(1)),
                Ok(()),
                "its deletion is refused by the API each time"
            );
        }
    }

    #[test]
    fn node_without_a_provider_id_and_taint_is_kept_and_counts_for_no_mass_deletion() {
        let mut guard = guard();
        let start = Instant::now();
        let never_managed = node(9, "");
        let ours = nodes(4);
        let gone = [&never_managed, &ours[0], &ours[1]];
        for elapsed in [Duration::ZERO, DELAY, 10 * DELAY] {
            let decisions = guard.open(start + elapsed, &gone, 4);
            assert_eq!(
                decisions,
                [Err(NodeHoldReason::NeverManaged), Ok(()), Ok(())],
                "after {elapsed:?}"
            );
        }
    }

    #[test]
    fn uninitialized_node_without_a_provider_id_waits_and_its_namesake_waits_again() {
        let mut guard = guard();
        let start = Instant::now();
        let taint = Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE);
        let uninitialized = |uid: &str| Node {
            uid: uid.into(),
            taints: [taint.clone()].into(),
            ..node(1, "")
        };
        let first = [uninitialized("u1")];
        assert_eq!(
            cause(&open(&mut guard, start, &first, 5)[0]),
            "never-identified"
        );
        let second = [uninitialized("another")];
        assert_eq!(
            cause(&open(&mut guard, start + DELAY, &second, 5)[0]),
            "never-identified"
        );
        assert_eq!(open(&mut guard, start + 2 * DELAY, &second, 5), [Ok(())]);
    }

    #[test]
    fn every_cause_says_what_it_is_about() {
        let held = |deleted| {
            NodeHoldReason::Landslide {
                gone: 6,
                of: 10,
                deleted,
                delay: DELAY,
            }
            .to_string()
        };
        assert_eq!(
            held(0),
            "6 of 10 Nodes are without a machine; they are deleted if this lasts for 300 s"
        );
        assert!(
            held(2).contains("machine, 2 more were deleted within the last 300 s; they"),
            "{}",
            held(2)
        );
    }

    proptest::proptest! {
        /// Every deletion was confirmed, witnessed and, in a landslide, delayed, whatever the history (INV-1).
        #[test]
        fn no_history_deletes_without_confirmation_witness_and_delay(
            history in proptest::collection::vec((0usize..12, 0usize..3, 0u64..200, proptest::bool::ANY), 1..60)
        ) {
            let mut guard = guard(); let mut now = Instant::now();
            let all = nodes(12);
            let mut gone_since: Vec<Option<Instant>> = vec![None; 12];
            for (count, witnesses, seconds, confirmed) in history {
                now += Duration::from_secs(seconds);
                for (i, since) in gone_since.iter_mut().enumerate() {
                    *since = (i < count).then(|| since.unwrap_or(now));
                }
                let opened = open(&mut guard, now, &all[..count], 12);
                for (i, _) in opened.iter().enumerate().filter(|(_, d)| d.is_ok()) {
                    let second = if confirmed { gone() } else { Err(Error::other("x")) };
                    if guard.close(now, &all[i], &second, found(witnesses)).is_ok() {
                        proptest::prop_assert!(confirmed && witnesses > 0);
                        proptest::prop_assert!(count <= 6 || gone_since[i].is_some_and(|since| now - since >= DELAY));
                    }
                }
            }
        }
    }
}
