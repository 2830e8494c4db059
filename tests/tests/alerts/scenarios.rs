//! Scenarios and the alerts that fire in each minute: exactly these.

use std::time::Duration;

use runtime::clock::ManualClock;

use crate::recording::Recording;
use crate::replica::{Replica, State};

pub(crate) const SCRAPES_PER_MINUTE: u32 = 1;

/// Minute in which a problem begins.
const FROM: u32 = 20;
/// Minute in which a problem ends.
const TO: u32 = 70;

/// Two replicas over some minutes.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// State of each replica in that minute; `None`: the replica is down.
    happens: fn(f64) -> [Option<State>; 2],
    /// Alerts that fire in each of these minutes, and no others.
    pub(crate) firing: &'static [(u32, &'static [&'static str])],
}

impl Scenario {
    /// Runs the scenario and records its series.
    pub(crate) fn record(&self, rules: &str) -> Recording {
        let clock = ManualClock::new("2026-01-01T00:00:00Z".parse().expect("a time"));
        let mut recording = Recording::for_rules(rules);
        let mut replicas = [None, None];
        let last = self
            .firing
            .iter()
            .map(|(minute, _)| *minute)
            .max()
            .unwrap_or_default();
        for scrape in 0..=last * SCRAPES_PER_MINUTE {
            let states = (self.happens)(f64::from(scrape) / f64::from(SCRAPES_PER_MINUTE));
            let scraped = replicas
                .iter_mut()
                .zip(&states)
                .map(|(replica, state)| match state {
                    Some(state) => Some(
                        replica
                            .get_or_insert_with(|| Replica::start(&clock))
                            .live(state),
                    ),
                    None => {
                        *replica = None;
                        None
                    }
                });
            recording.scrape(["a", "b"].into_iter().zip(scraped));
            clock.advance(Duration::from_secs(u64::from(60 / SCRAPES_PER_MINUTE)));
        }
        recording
    }
}

/// Returns a leader in this state while the problem lasts, and a healthy one before and after; the other replica stands
/// by.
fn while_wrong(minute: f64, wrong: impl FnOnce(&mut State, Duration)) -> [Option<State>; 2] {
    let mut leader = State::leader();
    if is_wrong(minute) {
        wrong(
            &mut leader,
            Duration::from_secs_f64((minute - f64::from(FROM)) * 60.0),
        );
    }
    [Some(leader), Some(State::standby())]
}

fn is_wrong(minute: f64) -> bool {
    (f64::from(FROM)..f64::from(TO)).contains(&minute)
}

fn without(controller: &str, state: &mut State) {
    state.controllers.retain(|name| *name != controller);
}

const NOBODY_WORKS: &[&str] = &[
    "CloudControllerManagerNoControllers",
    "CloudControllerManagerNodeControllerAbsent",
    "CloudControllerManagerNodeLifecycleControllerAbsent",
    "CloudControllerManagerServiceControllerAbsent",
];

/// The scenarios of the alerts' tests.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "all_is_well",
        happens: |minute| while_wrong(minute, |_, _| {}),
        firing: &[(1, &[]), (15, &[]), (45, &[]), (90, &[])],
    },
    Scenario {
        name: "hands_change_within_a_minute",
        happens: |minute| match minute {
            early if early < 30.0 => [Some(State::leader()), Some(State::standby())],
            30.0 => [None, Some(State::standby())],
            _ => [Some(State::standby()), Some(State::leader())],
        },
        firing: &[(30, &[]), (31, &[]), (35, &[]), (60, &[])],
    },
    Scenario {
        name: "a_replica_restarts_again_and_again",
        happens: |minute| {
            let standby = (minute % 5.0 != 0.0).then(State::standby);
            [Some(State::leader()), standby]
        },
        firing: &[(15, &[]), (30, &[]), (60, &[])],
    },
    Scenario {
        name: "all_replicas_are_down",
        happens: |minute| {
            if is_wrong(minute) {
                [None, None]
            } else {
                while_wrong(minute, |_, _| {})
            }
        },
        firing: &[
            (19, &[]),
            (24, &[]),
            (
                26,
                &[
                    "CloudControllerManagerDown",
                    "CloudControllerManagerNoControllers",
                ],
            ),
            (
                40,
                &[
                    "CloudControllerManagerDown",
                    "CloudControllerManagerNoControllers",
                    "CloudControllerManagerNodeControllerAbsent",
                    "CloudControllerManagerNodeLifecycleControllerAbsent",
                    "CloudControllerManagerServiceControllerAbsent",
                ],
            ),
            (85, &[]),
        ],
    },
    Scenario {
        name: "nobody_leads",
        happens: |minute| while_wrong(minute, |state, _| *state = State::standby()),
        firing: &[
            (19, &[]),
            (23, &["CloudControllerManagerLeaderCount"]),
            (
                26,
                &[
                    "CloudControllerManagerLeaderCount",
                    "CloudControllerManagerNoControllers",
                ],
            ),
            (
                40,
                &[
                    "CloudControllerManagerLeaderCount",
                    NOBODY_WORKS[0],
                    NOBODY_WORKS[1],
                    NOBODY_WORKS[2],
                    NOBODY_WORKS[3],
                ],
            ),
            (85, &[]),
        ],
    },
    Scenario {
        name: "two_lead",
        happens: |minute| {
            let second = if is_wrong(minute) {
                State::leader()
            } else {
                State::standby()
            };
            [Some(State::leader()), Some(second)]
        },
        firing: &[
            (19, &[]),
            (23, &["CloudControllerManagerLeaderCount"]),
            (85, &[]),
        ],
    },
    Scenario {
        name: "the_service_controller_ended",
        happens: |minute| while_wrong(minute, |state, _| without("service", state)),
        firing: &[
            (25, &[]),
            (35, &["CloudControllerManagerServiceControllerAbsent"]),
            (85, &[]),
        ],
    },
    Scenario {
        name: "the_node_controller_ended",
        happens: |minute| while_wrong(minute, |state, _| without("cloud-node", state)),
        firing: &[
            (25, &[]),
            (35, &["CloudControllerManagerNodeControllerAbsent"]),
            (85, &[]),
        ],
    },
    Scenario {
        name: "the_lifecycle_controller_ended",
        happens: |minute| while_wrong(minute, |state, _| without("cloud-node-lifecycle", state)),
        firing: &[
            (25, &[]),
            (35, &["CloudControllerManagerNodeLifecycleControllerAbsent"]),
            (85, &[]),
        ],
    },
    Scenario {
        name: "services_fail_again_and_again",
        happens: |minute| while_wrong(minute, |state, _| state.retries = 15),
        firing: &[
            (25, &[]),
            (45, &["CloudControllerManagerRetries"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "a_service_fails_now_and_then",
        happens: |minute| while_wrong(minute, |state, _| state.retries = 1),
        firing: &[(25, &[]), (60, &[])],
    },
    Scenario {
        name: "a_queue_grows",
        happens: |minute| {
            while_wrong(minute, |state, since| {
                state.depth = usize::try_from(since.as_secs() / 10).unwrap_or(0);
            })
        },
        firing: &[
            (30, &[]),
            (55, &["CloudControllerManagerQueueGrows"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "a_worker_never_comes_back",
        happens: |minute| while_wrong(minute, |state, since| state.longest = since),
        firing: &[
            (29, &[]),
            (35, &["CloudControllerManagerWorkerStuck"]),
            (80, &[]),
        ],
    },
    Scenario {
        name: "the_api_server_fails",
        happens: |minute| while_wrong(minute, |state, _| state.api.push((Some(503), 10))),
        firing: &[
            (25, &[]),
            (40, &["CloudControllerManagerAPIErrors"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "the_api_server_does_not_answer",
        happens: |minute| while_wrong(minute, |state, _| state.api = vec![(None, 10)]),
        firing: &[
            (25, &[]),
            (40, &["CloudControllerManagerAPIErrors"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "a_permission_is_missing",
        happens: |minute| while_wrong(minute, |state, _| state.api.push((Some(403), 2))),
        firing: &[
            (40, &[]),
            (65, &["CloudControllerManagerForbidden"]),
            (110, &[]),
        ],
    },
    Scenario {
        name: "nodes_are_initialised_slowly",
        happens: |minute| {
            while_wrong(minute, |state, _| {
                state.initialised_at = Some(Duration::from_secs(200));
            })
        },
        firing: &[
            (15, &[]),
            (40, &["CloudControllerManagerSlowNodeInitialisation"]),
            (110, &[]),
        ],
    },
    Scenario {
        name: "a_new_kubeconfig_cannot_be_used",
        happens: |minute| while_wrong(minute, |state, _| state.kubeconfig_changes = vec![false; 6]),
        firing: &[
            (19, &[]),
            (25, &["CloudControllerManagerCredentialNotReloaded"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "a_kubeconfig_is_read_amid_its_replacement",
        happens: |minute| {
            while_wrong(minute, |state, since| {
                if since.is_zero() {
                    state.kubeconfig_changes = vec![false, true];
                }
            })
        },
        firing: &[(19, &[]), (25, &[]), (95, &[])],
    },
    Scenario {
        name: "a_node_is_never_initialised",
        happens: |minute| while_wrong(minute, |state, since| state.node_waits = Some(since)),
        firing: &[
            (24, &[]),
            (30, &["CloudControllerManagerNodeUninitialised"]),
            (75, &[]),
        ],
    },
    Scenario {
        name: "a_health_check_fails",
        happens: |minute| while_wrong(minute, |state, _| state.is_well = false),
        firing: &[
            (23, &[]),
            (30, &["CloudControllerManagerUnhealthy"]),
            (75, &[]),
        ],
    },
    Scenario {
        name: "the_cloud_fails_now_and_then",
        happens: |minute| {
            while_wrong(minute, |state, _| {
                state.cloud.extend([(Some(500), 3), (None, 1)]);
            })
        },
        firing: &[
            (30, &[]),
            (50, &["CloudControllerManagerCloudErrors"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "the_credential_is_refused_for_two_minutes",
        happens: |minute| {
            while_wrong(minute, |state, since| {
                if since < Duration::from_secs(120) {
                    state.cloud = vec![(Some(401), 5)];
                }
            })
        },
        firing: &[(19, &[]), (23, &[]), (26, &[]), (30, &[])],
    },
    Scenario {
        name: "the_credential_is_refused",
        happens: |minute| while_wrong(minute, |state, _| state.cloud = vec![(Some(401), 5)]),
        firing: &[
            (19, &[]),
            (30, &["CloudControllerManagerCredentialRefused"]),
            (
                50,
                &[
                    "CloudControllerManagerCloudErrors",
                    "CloudControllerManagerCredentialRefused",
                ],
            ),
            (95, &[]),
        ],
    },
    Scenario {
        name: "the_cloud_throttles",
        happens: |minute| while_wrong(minute, |state, _| state.cloud.push((Some(429), 1))),
        firing: &[
            (30, &[]),
            (45, &["CloudControllerManagerCloudThrottled"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "deletions_are_held",
        happens: |minute| {
            while_wrong(minute, |state, since| {
                state.held = matches!(since.as_secs(), 0 | 2700);
            })
        },
        firing: &[
            (19, &[]),
            (22, &["CloudControllerManagerNodeDeletionHeld"]),
            (60, &[]),
            (67, &["CloudControllerManagerNodeDeletionHeld"]),
            (105, &[]),
        ],
    },
    Scenario {
        name: "a_load_balancer_never_comes",
        happens: |minute| {
            while_wrong(minute, |state, since| {
                state.load_balancer_waits = Some(since);
            })
        },
        firing: &[
            (29, &[]),
            (35, &["CloudControllerManagerLoadBalancerStuck"]),
            (75, &[]),
        ],
    },
    Scenario {
        name: "targets_cannot_be_moved",
        happens: |minute| while_wrong(minute, |state, _| state.target_errors = 1),
        firing: &[
            (30, &[]),
            (45, &["CloudControllerManagerLoadBalancerTargetsFail"]),
            (95, &[]),
        ],
    },
    Scenario {
        name: "services_vanish",
        happens: |minute| while_wrong(minute, |state, _| state.vanished = 7),
        firing: &[
            (18, &[]),
            (25, &["CloudControllerManagerObjectsVanished"]),
            (75, &[]),
        ],
    },
    Scenario {
        name: "load_balancers_are_left_behind",
        happens: |minute| while_wrong(minute, |state, _| state.orphans = 2),
        firing: &[
            (45, &[]),
            (55, &["CloudControllerManagerOrphans"]),
            (75, &[]),
        ],
    },
    Scenario {
        name: "routes_cannot_be_made",
        happens: |minute| while_wrong(minute, |state, _| state.failed_routes = 2),
        firing: &[
            (30, &[]),
            (40, &["CloudControllerManagerRoutesFail"]),
            (80, &[]),
        ],
    },
    Scenario {
        name: "routes_cannot_be_read",
        happens: |minute| while_wrong(minute, |state, _| state.routes_are_unread = true),
        firing: &[
            (30, &[]),
            (50, &["CloudControllerManagerRoutesUnread"]),
            (90, &[]),
        ],
    },
];
