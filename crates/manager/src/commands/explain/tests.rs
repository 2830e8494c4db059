//! Tests that `explain` names every state in which the controllers let an object wait, hold it or leave it alone. A new
//! state does not compile without a situation here.

use std::time::Duration;

use cloud_provider::names::{
    CONDITION_LOAD_BALANCER_READY, FINALIZER_LOAD_BALANCER, LABEL_EXCLUDE_BALANCER,
    LABEL_EXCLUDE_LIFECYCLE, TAINT_SHUTDOWN, TAINT_TO_BE_DELETED, TAINT_UNINITIALIZED,
};
use cloud_provider::{
    Cluster, LoadBalancerDescription, Ownership, PlanAction, PlanStep, TargetDescription,
    TargetHealth,
};
use controllers::EventReason;
use controllers::lifecycle::guard::NodeHoldReason;
use controllers::lifecycle::preview::LifecyclePreview;
use controllers::options::ServiceOptions;
use controllers::service::condition::Reason;
use serde_json::{Value, json};

use super::facts::{Balancers, EventFact, Facts, Leader, Machine, NodeFacts, Runs, ServiceFacts};
use super::read::last_errors;
use super::{Cause, Explanation, State, Subject, Weight, node, service, text};
use crate::commands::plan::{ObjectPlan, RUN_ELSEWHERE, Side, Step};

const NOW: &str = "2026-01-01T01:00:00Z";
const THEN: &str = "2026-01-01T00:00:00Z";

fn facts() -> Facts {
    Facts {
        leader: Leader::Leads {
            holder: "ccm-0".into(),
            renewed: Duration::from_secs(2),
        },
        runs: Runs {
            node: true,
            lifecycle: true,
            service: true,
            route: true,
        },
        events: Vec::new(),
        plan: ObjectPlan::default(),
        cloud_error: None,
    }
}

/// A Service with a load balancer in sync, and an initialized, ready and routed Node: nothing to explain.
struct Situation {
    facts: Facts,
    service: Value,
    services: ServiceFacts,
    node: Value,
    nodes: NodeFacts,
    has_object: bool,
}

impl Situation {
    fn well() -> Self {
        Self {
            facts: facts(),
            service: json!({
                "metadata": {"namespace": "shop", "name": "web", "uid": "u1", "creationTimestamp": THEN,
                    "finalizers": [FINALIZER_LOAD_BALANCER]},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
            }),
            services: ServiceFacts {
                service: None,
                options: ServiceOptions::default(),
                offers: true,
                balancers: Balancers::Described(vec![balancer(Ownership::Own)]),
                targets: 2,
                excluded: Vec::new(),
                unidentified: None,
            },
            node: json!({
                "metadata": {"name": "worker-1", "uid": "n1", "creationTimestamp": THEN, "labels": {}},
                "spec": {"providerID": "acme://1", "podCIDRs": ["10.244.1.0/24"], "taints": []},
                "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": THEN},
                    {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "lastTransitionTime": THEN},
                ]},
            }),
            nodes: NodeFacts {
                node: None,
                object: Value::Null,
                offers: true,
                is_ours: true,
                all_foreign: false,
                is_unidentified: false,
                machine: Machine::Present {
                    shutdown: Some(false),
                    metadata: Some(Box::default()),
                },
                named: None,
                preview: LifecyclePreview::Leave,
                routes: Some(vec!["10.244.1.0/24".into()]),
                route_error: None,
                waits_for_network: false,
            },
            has_object: true,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn event(self, reason: EventReason) -> Self {
        self.with(|situation| situation.facts.events.push(event(reason, THEN)))
    }

    fn gone(self) -> Self {
        self.with(|situation| situation.has_object = false)
    }

    fn condition(self, reason: Reason) -> Self {
        self.with(|situation| {
            situation.service["status"]["conditions"] = json!([{"type": CONDITION_LOAD_BALANCER_READY, "status": "False",
                "reason": reason.as_str(), "message": "the cloud's words", "lastTransitionTime": THEN}]);
        })
    }

    fn deleted(self) -> Self {
        self.with(|situation| {
            situation.service["metadata"]["deletionTimestamp"] = json!(THEN);
            situation.node["metadata"]["deletionTimestamp"] = json!(THEN);
        })
    }

    fn unready(self) -> Self {
        self.with(|situation| {
            situation.node["status"]["conditions"][0]["status"] = json!("Unknown");
        })
    }

    fn taint(self, key: &str) -> Self {
        self.with(|situation| {
            situation.node["spec"]["taints"] = json!([{"key": key, "effect": "NoSchedule"}]);
        })
    }

    fn unidentified(self) -> Self {
        self.taint(TAINT_UNINITIALIZED)
            .with(|situation| situation.node["spec"]["providerID"] = json!(""))
    }

    fn lost(self) -> Self {
        self.with(|situation| {
            situation.nodes.machine =
                Machine::Gone("the cloud has no instance with id \"acme://1\"".into());
        })
    }

    fn label(self, key: &str) -> Self {
        self.with(|situation| situation.node["metadata"]["labels"][key] = json!("true"))
    }

    fn planned(self, side: Side) -> Self {
        let step = PlanStep {
            action: PlanAction::Update,
            what: "route".into(),
            detail: String::new(),
        };
        self.with(|situation| situation.facts.plan.steps.push(Step { side, step }))
    }

    fn unrouted(self, reason: &str) -> Self {
        self.with(|situation| {
            situation.node["status"]["conditions"][1]["status"] = json!("True");
            situation.node["status"]["conditions"][1]["reason"] = json!(reason);
        })
    }

    /// Returns the causes of the Service.
    fn service(mut self) -> Vec<Cause> {
        self.services.service = self
            .has_object
            .then(|| serde_json::from_value(self.service).unwrap());
        service::causes(&self.facts, &self.services)
    }

    /// Returns the causes of the Node.
    fn node(mut self) -> Vec<Cause> {
        self.nodes.node = self
            .has_object
            .then(|| serde_json::from_value(self.node.clone()).unwrap());
        self.nodes.object = self.node;
        node::causes(&self.facts, &self.nodes)
    }
}

fn balancer(ownership: Ownership) -> LoadBalancerDescription {
    LoadBalancerDescription {
        id: "lb-1".into(),
        name: "a1".into(),
        ownership,
        ..LoadBalancerDescription::default()
    }
}

fn event(reason: EventReason, at: &str) -> EventFact {
    let at = Some(at.parse().unwrap());
    EventFact {
        reason: reason.as_str().into(),
        is_warning: true,
        message: "the cloud's words".into(),
        source: "service-controller".into(),
        count: 1,
        first: at,
        last: at,
    }
}

/// Returns the explanation of an object that is in this state.
fn explained(state: State) -> Vec<Cause> {
    let well = Situation::well;
    let class = |name: &'static str| {
        move |situation: &mut Situation| {
            situation.service["spec"]["loadBalancerClass"] = json!(name);
        }
    };
    let foreign = || {
        Balancers::Described(vec![balancer(Ownership::Foreign(
            "it is marked for another cluster".into(),
        ))])
    };
    let none = Balancers::Described(Vec::new());
    match state {
        State::NobodyLeads => {
            let unseen = well().condition(Reason::EnsureFailed);
            unseen
                .with(|situation| situation.facts.leader = Leader::Nobody("held by nobody".into()))
                .service()
        }
        State::ControllerOff => well()
            .with(|situation| situation.facts.runs.service = false)
            .service(),
        State::CapabilityMissing => well()
            .with(|situation| situation.services.offers = false)
            .service(),
        State::CloudUnreachable => well()
            .with(|situation| situation.services.balancers = Balancers::Failed("503".into()))
            .service(),
        State::NotALoadBalancer => {
            let plain = |situation: &mut Situation| {
                situation.service["spec"]["type"] = json!("ClusterIP");
                situation.service["metadata"]["finalizers"] = json!([]);
            };
            well().with(plain).service()
        }
        State::OtherClass => well().with(class("other")).service(),
        State::LeftOnOtherClass => well().with(class("other")).service(),
        State::ImplementedElsewhere => well()
            .with(|situation| situation.facts.plan.notes.push(RUN_ELSEWHERE.into()))
            .service(),
        State::NotWorkedOnYet => well()
            .with(|situation| situation.service["metadata"]["finalizers"] = json!([]))
            .service(),
        State::NoNodes => well()
            .with(|situation| situation.services.targets = 0)
            .service(),
        State::LoadBalancerMissing => {
            let what = "load balancer".to_owned();
            let step = PlanStep {
                action: PlanAction::Create,
                what,
                detail: String::new(),
            };
            well()
                .with(|situation| {
                    situation.facts.plan.steps.push(Step {
                        side: Side::Cloud,
                        step,
                    });
                })
                .service()
        }
        State::EnsureFailed => well().condition(Reason::EnsureFailed).service(),
        State::DeletionFailed => well().deleted().condition(Reason::DeletionFailed).service(),
        State::CloudIsBusy => well().condition(Reason::Waiting).service(),
        State::DeletionIsBusy => well().deleted().condition(Reason::Deleting).service(),
        State::DeletionBlocked => well()
            .deleted()
            .condition(Reason::DeletionBlocked)
            .service(),
        State::Protected => well().condition(Reason::Protected).service(),
        State::Unauthorized => well().condition(Reason::Unauthorized).service(),
        State::QuotaExceeded => well().condition(Reason::QuotaExceeded).service(),
        State::Invalid => well().condition(Reason::Invalid).service(),
        State::SyncFailed => well().event(EventReason::SyncFailed).service(),
        State::ForeignOwner => well()
            .with(|situation| situation.services.balancers = foreign())
            .service(),
        State::TargetsNotUpdated => well().event(EventReason::UpdateFailed).service(),
        State::TargetsUnhealthy => {
            let sick = TargetHealth {
                is_healthy: false,
                detail: "timeout".into(),
            };
            let target = TargetDescription {
                target: "m-1".into(),
                node: None,
                health: Some(sick),
            };
            let balancer = LoadBalancerDescription {
                targets: vec![target],
                ..balancer(Ownership::Own)
            };
            well()
                .with(|situation| {
                    situation.services.balancers = Balancers::Described(vec![balancer]);
                })
                .service()
        }
        State::FinalizerHeld => well().deleted().service(),
        State::OtherFinalizers => well()
            .deleted()
            .with(|situation| {
                situation.service["metadata"]["finalizers"] = json!(["example.com/other"]);
            })
            .service(),
        State::ForeignFinalizer => {
            let foreign = well()
                .deleted()
                .with(class("other"))
                .with(|situation| situation.services.balancers = none);
            foreign
                .with(|situation| situation.services.options.classes = vec!["ours".into()])
                .service()
        }
        State::Abandoning => {
            let abandon = json!({"ccm-rs/abandon-load-balancer": "true"});
            well()
                .deleted()
                .with(|situation| situation.service["metadata"]["annotations"] = abandon)
                .service()
        }
        State::Abandoned => well().gone().event(EventReason::Abandoned).service(),
        State::Drifted => well()
            .event(EventReason::Drift)
            .planned(Side::Cloud)
            .service(),
        State::ServiceVanished => well()
            .gone()
            .event(EventReason::BalancerDeletionHeld)
            .service(),
        State::RemovalFailed => well().gone().event(EventReason::DeleteFailed).service(),
        State::Uninitialized => well().unidentified().node(),
        State::InitializationFailed => well()
            .unidentified()
            .event(EventReason::InitializationFailed)
            .node(),
        State::MetadataMissing => {
            let bare = Machine::Present {
                shutdown: None,
                metadata: None,
            };
            well()
                .unidentified()
                .with(|situation| situation.nodes.machine = bare)
                .node()
        }
        State::NoSuchMachine => well().unidentified().lost().node(),
        State::ProviderIdMismatch => well()
            .lost()
            .with(|situation| situation.nodes.named = Some("acme://2".into()))
            .node(),
        State::AmbiguousIdentity => {
            let several =
                Machine::Ambiguous("several machines are named \"worker-1\" (1, 2)".into());
            well()
                .unidentified()
                .with(|situation| situation.nodes.machine = several)
                .node()
        }
        State::NoProviderId => well()
            .with(|situation| situation.nodes.is_unidentified = true)
            .node(),
        State::NotManaged => well()
            .lost()
            .with(|situation| situation.nodes.is_unidentified = true)
            .node(),
        State::AllNodesForeign => {
            let foreign = |situation: &mut Situation| {
                (situation.nodes.is_ours, situation.nodes.all_foreign) = (false, true);
            };
            well().with(foreign).node()
        }
        State::OtherProvider => well()
            .with(|situation| situation.nodes.is_ours = false)
            .node(),
        State::MachineMissing => well().lost().node(),
        State::DeletionAhead => well()
            .unready()
            .lost()
            .with(|situation| situation.nodes.preview = LifecyclePreview::Delete)
            .node(),
        State::DeletionHeld => well()
            .unready()
            .lost()
            .event(EventReason::DeletionHeld)
            .node(),
        State::DeletionRefused => well()
            .unready()
            .lost()
            .event(EventReason::DeletingNodeFailed)
            .node(),
        State::ShutDown => well()
            .unready()
            .taint(TAINT_SHUTDOWN)
            .event(EventReason::ShutdownTaintSet)
            .node(),
        State::ShutdownTaintStays => well()
            .taint(TAINT_SHUTDOWN)
            .with(|situation| situation.nodes.preview = LifecyclePreview::Untaint)
            .node(),
        State::NotReady => well().unready().node(),
        State::Terminating => well().deleted().node(),
        State::NodeVanished => well().gone().event(EventReason::NodeVanished).node(),
        State::LabelsLeftOut => well().event(EventReason::LabelsLeftOut).node(),
        State::SharedProviderId => well().event(EventReason::SharedProviderId).node(),
        State::ExcludedFromLifecycle => well().label(LABEL_EXCLUDE_LIFECYCLE).node(),
        State::ExcludedFromLoadBalancers => well().label(LABEL_EXCLUDE_BALANCER).node(),
        State::AutoscalerRemoves => well().taint(TAINT_TO_BE_DELETED).node(),
        State::NoNetworkForTargets => well()
            .unrouted("NoRouteCreated")
            .with(|situation| situation.nodes.waits_for_network = true)
            .node(),
        State::NoPodCidr => well()
            .with(|situation| situation.node["spec"]["podCIDRs"] = json!([]))
            .node(),
        State::RouteWaits => well().unidentified().node(),
        State::RouteMissing => well().unrouted("NoRouteCreated").node(),
        State::RouteFailed => well()
            .unrouted("NoRouteCreated")
            .event(EventReason::FailedToCreateRoute)
            .node(),
        State::RouteStays => well()
            .planned(Side::Cloud)
            .event(EventReason::FailedToDeleteRoute)
            .node(),
        State::RouteContested => well().event(EventReason::RouteFlapping).node(),
        State::PodCidrOutside => well().event(EventReason::PodCidrOutside).node(),
        State::PodCidrRefused => well().event(EventReason::PodCidrRefused).node(),
        State::RoutesUnknown => well()
            .with(|situation| situation.nodes.route_error = Some("cannot list".into()))
            .node(),
        State::NetworkUnavailable => well().unrouted("CalicoIsDown").node(),
    }
}

fn states(causes: &[Cause]) -> Vec<State> {
    causes.iter().map(|cause| cause.state).collect()
}

#[test]
fn node_that_no_manager_ever_managed_has_one_cause() {
    let never = Situation::well()
        .unready()
        .lost()
        .with(|situation| situation.nodes.is_unidentified = true)
        .node();
    assert_eq!(states(&never), [State::NotManaged]);
    assert_eq!(
        never[0].detail,
        "the cloud has no instance with id \"acme://1\""
    );
}

#[test]
fn every_state_of_the_controllers_is_named_in_a_situation() {
    assert_eq!(
        (
            states(&Situation::well().service()),
            states(&Situation::well().node())
        ),
        (vec![], vec![])
    );
    for state in State::ALL {
        let causes = explained(*state);
        assert!(
            states(&causes).contains(state),
            "{state:?} is not among {causes:?}"
        );
        assert!(
            state.meaning().ends_with('.') && !state.meaning().contains('\n'),
            "{state:?}"
        );
        assert!(
            state.advice().is_empty() || state.advice().ends_with('.'),
            "{state:?}"
        );
    }
}

#[test]
fn every_condition_and_warning_of_the_controllers_leads_to_a_state() {
    for reason in Reason::ALL {
        assert_eq!(
            State::of_reason(reason).is_none(),
            reason == Reason::Ensured,
            "{reason:?}"
        );
        if let Some(state) = State::of_reason(reason) {
            let causes = Situation::well().condition(reason).service();
            assert_eq!(causes[0].detail, "the cloud's words", "{reason:?}");
            assert_eq!(
                (causes[0].state, causes[0].since),
                (state, Some(THEN.parse().unwrap())),
                "{reason:?}"
            );
        }
    }
    let reported: Vec<State> = EventReason::ALL
        .iter()
        .filter_map(|reason| Some(State::of_event(*reason)?.0))
        .collect();
    assert_eq!(
        reported.len(),
        20,
        "the reasons that report a state: {reported:?}"
    );
}

/// Returns the next cause by which a deletion is held; ends with the last one.
fn next_held(held: &NodeHoldReason) -> Option<NodeHoldReason> {
    let delay = Duration::from_secs(300);
    Some(match held {
        NodeHoldReason::NoWitness => NodeHoldReason::Landslide {
            gone: 5,
            of: 8,
            deleted: 0,
            delay,
        },
        NodeHoldReason::Landslide { .. } => NodeHoldReason::NeverManaged,
        NodeHoldReason::NeverManaged => NodeHoldReason::NeverIdentified { delay },
        NodeHoldReason::NeverIdentified { .. } => NodeHoldReason::Unconfirmed("503".into()),
        NodeHoldReason::Unconfirmed(_) => NodeHoldReason::Contradicted,
        NodeHoldReason::Contradicted => NodeHoldReason::Unsettled,
        NodeHoldReason::Unsettled => NodeHoldReason::Unknown("401".into()),
        NodeHoldReason::Unknown(_) => NodeHoldReason::DryRun,
        NodeHoldReason::DryRun => NodeHoldReason::Off,
        NodeHoldReason::Off => return None,
    })
}

#[test]
fn every_cause_that_holds_a_deletion_is_told_now_and_from_the_event() {
    let mut all = vec![NodeHoldReason::NoWitness];
    while let Some(next) = next_held(all.last().unwrap()) {
        all.push(next);
    }
    assert_eq!(all.len(), 10);
    for held in all {
        let sentence = held.to_string();
        let now = Situation::well()
            .unready()
            .lost()
            .with(|situation| situation.nodes.preview = LifecyclePreview::Held(held.clone()))
            .node();
        assert!(
            now.iter()
                .any(|cause| cause.state == State::DeletionHeld && cause.detail == sentence),
            "{now:?}"
        );
        // The plan's single read cannot know this; the event does, with the time of its first report.
        let told = EventFact {
            message: format!("Keeping node worker-1: {sentence}"),
            ..event(EventReason::DeletionHeld, THEN)
        };
        let then = Situation::well().unready().with(|situation| {
            situation.nodes.machine = Machine::Failed("503".into());
            situation.facts.events = vec![told];
        });
        let then = then.node();
        let cause = then
            .iter()
            .find(|cause| cause.state == State::DeletionHeld)
            .unwrap();
        assert!(
            cause.detail.contains(&sentence) && cause.since == Some(THEN.parse().unwrap()),
            "{then:?}"
        );
    }
}

#[test]
fn a_state_is_over_once_a_later_event_ended_it() {
    let later = |situation: Situation, reason| {
        situation.with(|situation| {
            situation.facts.events.push(EventFact {
                is_warning: false,
                ..event(reason, NOW)
            });
        })
    };
    let held = || {
        Situation::well()
            .unready()
            .lost()
            .event(EventReason::DeletionHeld)
    };
    assert!(states(&held().node()).contains(&State::DeletionHeld));
    let averted = later(held(), EventReason::DeletionAverted);
    let has_error = |facts: &Facts| !last_errors(&[], None, facts).is_empty();
    assert!(
        has_error(&held().facts) && !has_error(&averted.facts),
        "an averted hold is no error"
    );
    assert!(!states(&averted.node()).contains(&State::DeletionHeld));
    // Events have whole seconds.
    let at_once = held().with(|situation| {
        situation.facts.events.push(EventFact {
            is_warning: false,
            ..event(EventReason::DeletionAverted, THEN)
        });
    });
    assert!(
        !has_error(&at_once.facts),
        "a hold that was averted within a second"
    );
    let failed = || Situation::well().event(EventReason::UpdateFailed);
    assert_eq!(states(&failed().service()), [State::TargetsNotUpdated]);
    assert_eq!(
        states(&later(failed(), EventReason::TargetsUpdated).service()),
        []
    );
    let found = held().with(|situation| {
        situation.nodes.machine = Machine::Present {
            shutdown: Some(false),
            metadata: None,
        }
    });
    assert_eq!(
        states(&found.node()),
        [State::NotReady],
        "the cloud has its machine again"
    );
}

#[test]
fn missing_leader_is_the_first_cause_of_a_pending_object() {
    let nobody = |situation: &mut Situation| {
        situation.facts.leader = Leader::Nobody("held by nobody".into());
    };
    assert_eq!(states(&Situation::well().with(nobody).service()), []);
    let waits = Situation::well()
        .condition(Reason::QuotaExceeded)
        .with(nobody)
        .service();
    assert_eq!(states(&waits), [State::NobodyLeads, State::QuotaExceeded]);
    let planned = Situation::well()
        .planned(Side::Cloud)
        .with(nobody)
        .service();
    assert_eq!(states(&planned), [State::NobodyLeads]);
}

#[test]
fn no_line_is_wider_than_80_columns_unless_one_word_is() {
    for state in State::ALL {
        let causes = explained(*state);
        let explanation = Explanation {
            subject: Subject::Node("worker-1".into()),
            provider: "acme".into(),
            cluster: Cluster {
                name: "kubernetes".into(),
                id: None,
            },
            now: NOW.parse().unwrap(),
            exists: true,
            similar: Vec::new(),
            causes,
            kubernetes: Vec::new(),
            cloud: Vec::new(),
            balancers: vec![balancer(Ownership::Own)],
            claims: Vec::new(),
            plan: ObjectPlan::default(),
            last_errors: Vec::new(),
            events: vec![event(EventReason::SyncFailed, THEN)],
            leader: facts().leader,
            unknown: Vec::new(),
            errors: Vec::new(),
        };
        let text = text(&explanation);
        let long: Vec<&str> = text
            .lines()
            .filter(|line| line.chars().count() > 80)
            .collect();
        assert!(
            long.iter().all(|line| !line.trim().contains(' ')),
            "{state:?}: {long:?}"
        );
        let waits = explanation
            .causes
            .iter()
            .any(|cause| cause.state.weight() == Weight::Waits);
        assert_eq!(
            explanation.outcome().code(),
            if waits { 2 } else { 0 },
            "{state:?}"
        );
    }
}
