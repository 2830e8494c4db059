//! The program is killed at every request of one Service's life, again and again, and ends as undisturbed.
//!
//! A real cloud takes seconds to create a load balancer, so each one is used for many crashes: every run of the program
//! ends at the first request at which none ended before. Reads change nothing in the cloud: the next run comes as far,
//! and further. Each change has two crash points: before it, and after it was carried out without a response. A run's
//! errors with the state of the last one are visible in the end: another load balancer, a rule, an address.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use ccm_conformance::fault_injector::{Moment, Passed, Side};
use ccm_tests::wait::until_every;
use futures::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use crate::cloud::text;
use crate::environment::Environment;
use crate::project::Project;
use crate::scene::{LOOK, Listener, SOON, Scene, Settings};
use crate::services::{EVERYTHING, rules};
use crate::snapshot::Snapshot;

/// The name of the cluster: the same in all projects.
const LABEL: &str = "crash";
/// Time without requests before the end is judged: longer than the first pauses between two polls of a load balancer.
const SILENCE: Duration = Duration::from_millis(1700);
/// Time-out of an operation with all its restarts.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Number of crash points for the same read of the cloud in one run; for Kubernetes, it is one.
const REPETITIONS: usize = 2;
/// Number of crash points at changes of one kind in an operation: a change that is repeated after each crash would
/// otherwise never be passed.
const OF_A_KIND: usize = 3;
/// Only this act is cut off.
const ONLY: &str = "CCM_TEST_OPENSTACK_ACT";
/// Variable with which every read is a crash point again after each change: ten times the crash points.
const THOROUGH: &str = "CCM_TEST_OPENSTACK_THOROUGH";

/// Variable with which only one of so many new reads is a crash point, and every change.
const ONE_LOOK_OF: &str = "CCM_TEST_OPENSTACK_ONE_LOOK_OF";

/// Operation on the Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Create,
    Change,
    Delete,
}

const ACTS: [Act; 3] = [Act::Create, Act::Change, Act::Delete];

async fn act(scene: &Scene, act: Act) -> Result<()> {
    match act {
        Act::Create => {
            let ranges = json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}});
            scene
                .create_service("web", &[(80, 30080), (443, 30443)], ranges)
                .await;
        }
        Act::Change => {
            let change = json!({
                "metadata": {"annotations": {"loadbalancer.openstack.org/health-monitor-delay": "9"}},
                "spec": {
                    "loadBalancerSourceRanges": ["198.51.100.0/24"],
                    "ports": [
                        {"$patch": "replace"},
                        {"name": "p443", "port": 443, "nodePort": 30443, "protocol": "TCP", "targetPort": 8080},
                        {"name": "p8080", "port": 8080, "nodePort": 30081, "protocol": "TCP", "targetPort": 8080},
                    ],
                },
            });
            scene.change_service("web", change).await?;
        }
        Act::Delete => ensure!(
            scene.user.delete_service("web").await,
            "there is no Service"
        ),
    }
    Ok(())
}

/// Returns a request without generated values.
fn read(request: &Passed) -> String {
    let path = request.target.split('?').next().unwrap_or_default();
    let is_id = |text: &str| {
        text.len() >= 32
            && text
                .chars()
                .all(|character| character.is_ascii_hexdigit() || character == '-')
    };
    let words: Vec<&str> = path
        .split('/')
        .map(|part| if is_id(part) { "*" } else { part })
        .collect();
    format!("{:?} {} {}", request.side, request.method, words.join("/"))
}

/// Requests of an operation at which runs ended. Clones share them.
#[derive(Clone, Default)]
struct Points(Arc<Mutex<Reached>>);

#[derive(Default)]
struct Reached {
    points: BTreeSet<String>,
    /// Changes that were carried out so far.
    changes: usize,
    /// Crash points after changes, by kind.
    kinds: BTreeMap<String, usize>,
    /// Looks in the present life.
    looks: BTreeMap<String, usize>,
    /// Reads at which a run ended or could have ended.
    seen: BTreeSet<String>,
    last: String,
}

impl Points {
    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.0.lock()
    }

    /// Returns the chooser of the next run's crash point.
    fn chooser(&self) -> impl FnMut(&Passed) -> Option<Moment> + Send + 'static {
        let points = self.clone();
        let thorough = std::env::var_os(THOROUGH).is_some();
        let one_of = std::env::var(ONE_LOOK_OF)
            .ok()
            .and_then(|var| var.parse().ok())
            .unwrap_or(1)
            .max(1);
        points.reached().looks.clear();
        move |request| points.reached().choose(request, thorough, one_of)
    }
}

impl Reached {
    fn choose(&mut self, request: &Passed, thorough: bool, one_look_of: usize) -> Option<Moment> {
        let what = read(request);
        if request.target.starts_with("/identity") {
            return None;
        }
        if request.is_mutation() {
            let number = self.changes;
            if self
                .kinds
                .get(&what)
                .is_some_and(|count| *count >= OF_A_KIND)
            {
                return None;
            }
            for (moment, name) in [(Moment::Before, "before"), (Moment::After, "after")] {
                if self.reach(format!("{name} change {number}: {what}")) {
                    self.changes += usize::from(moment == Moment::After);
                    *self.kinds.entry(what).or_default() += usize::from(moment == Moment::After);
                    return Some(moment);
                }
            }
            return None;
        }
        let most = if request.side == Side::Cloud {
            REPETITIONS
        } else {
            1
        };
        let count = self.looks.entry(what.clone()).or_default();
        *count += 1;
        let count = *count;
        let since = if thorough {
            format!("after change {}: ", self.changes)
        } else {
            String::new()
        };
        let point = format!("{since}look {count}: {what}");
        if count > most || self.points.contains(&point) || !self.seen.insert(point.clone()) {
            return None;
        }
        // Only points at which a run ended are counted.
        let is_chosen = self.seen.len().is_multiple_of(one_look_of);
        (is_chosen && self.reach(point)).then_some(Moment::Before)
    }

    fn reach(&mut self, point: String) -> bool {
        self.last.clone_from(&point);
        self.points.insert(point)
    }
}

/// Returns the objects in the project and on the Service, comparable between projects.
fn words(scene: &Scene, now: &Snapshot) -> BTreeSet<String> {
    let Project {
        name,
        id,
        user,
        network,
        subnet,
        router,
        servers,
        ..
    } = &scene.project;
    let named = [
        (name, "project"),
        (id, "project id"),
        (user, "user"),
        (network, "network"),
        (subnet, "subnet"),
        (router, "router"),
    ];
    let mut aliases: Vec<(String, String)> = named
        .into_iter()
        .map(|(value, alias)| (value.clone(), format!("<{alias}>")))
        .collect();
    for server in servers {
        aliases.push((server.id.clone(), format!("<{}>", server.name)));
        aliases.push((
            server.address.clone(),
            format!("<address of {}>", server.name),
        ));
    }
    let service = scene.service("web").unwrap_or_default();
    aliases.push((
        text(&service["metadata"], "uid").to_owned(),
        "<uid>".to_owned(),
    ));
    let cluster = scene
        .api
        .get("namespaces", None, "kube-system")
        .unwrap_or_default();
    aliases.push((
        text(&cluster["metadata"], "uid").to_owned(),
        "<cluster>".to_owned(),
    ));
    let mut with_service = now.clone();
    if !service.is_null() {
        let kept = json!({"annotations": service["metadata"]["annotations"], "status": service["status"]["loadBalancer"],
            "finalizers": service["metadata"]["finalizers"]});
        with_service.0.insert("service web".to_owned(), kept);
    }
    with_service.comparable(&aliases)
}

/// Returns `true` if the Service, or its objects in the cloud, show the end of an operation.
async fn is_shown(scene: &Scene, act: Act) -> Result<bool> {
    let service = scene.service("web");
    Ok(match act {
        Act::Delete => service.is_err(),
        Act::Create => service
            .is_ok_and(|service| service["status"]["loadBalancer"]["ingress"][0]["ip"].is_string()),
        Act::Change => {
            let listeners = scene.listeners("web").await?;
            let is_changed = |listener: &Listener| {
                listener.listener["allowed_cidrs"] == json!(["198.51.100.0/24"])
                    && listener.monitor["delay"] == 9
                    && listener.members.len() == 2
            };
            let now = scene.snapshot().await?;
            let is_busy = now
                .all("load balancer")
                .any(|object| object["provisioning_status"] != "ACTIVE");
            let ports = rules(&now).into_iter().map(|(port, _)| port);
            listeners.keys().copied().eq([443, 8080])
                && listeners.values().all(is_changed)
                && now.all("pool").count() == 2
                && ports.eq([30081, 30443])
                && !is_busy
        }
    })
}

/// Waits until no further request follows and the end of the operation shows.
async fn is_silent(scene: &Scene, act: Act) {
    loop {
        let count = scene.injector.count();
        tokio::time::sleep(SILENCE).await;
        if scene.injector.count() == count
            && is_shown(scene, act).await.unwrap_or(false)
            && scene.injector.count() == count
        {
            return;
        }
    }
}

/// Waits until everything is as undisturbed.
async fn ends_as(scene: &Scene, act: Act, wanted: &BTreeSet<String>) -> Result<()> {
    until_every(
        LOOK,
        &format!("{act:?} ends as undisturbed"),
        SOON,
        async || {
            is_silent(scene, act).await;
            let words = words(scene, &scene.snapshot().await?);
            let (missing, more): (Vec<_>, Vec<_>) = (
                wanted.difference(&words).collect(),
                words.difference(wanted).collect(),
            );
            ensure!(
                words == *wanted,
                "missing: {missing:#?}\ntoo many: {more:#?}"
            );
            Ok(())
        },
    )
    .await
}

/// Creates a cluster with two Nodes in a project of its own.
async fn stage(environment: &Environment) -> Result<Scene> {
    let project = environment.pool.take(environment).await?;
    let flags: &[&str] = &["--node-monitor-period=60s", "--concurrent-service-syncs=1"];
    let settings = Settings {
        label: LABEL,
        balancers: EVERYTHING,
        flags,
        ..Settings::default()
    };
    let mut scene = Scene::set(environment, project, settings).await?;
    scene.start()?;
    scene.join(&["worker-1", "worker-2"]).await?;
    tokio::time::sleep(SILENCE).await;
    Ok(scene)
}

/// Checks that the project is as before, and releases it.
async fn strike(environment: &Environment, mut scene: Scene) -> Result<()> {
    scene.end().await?;
    scene.is_as_before().await?;
    environment.pool.give_back(scene.project.clone());
    Ok(())
}

/// Requests and end state of an undisturbed operation.
struct Reference {
    requests: Vec<Passed>,
    end: BTreeSet<String>,
}

async fn undisturbed(environment: &Environment) -> Result<BTreeMap<Act, Reference>> {
    let scene = stage(environment).await?;
    let mut references = BTreeMap::new();
    for object in ACTS {
        let before = scene.injector.passed().len();
        act(&scene, object).await?;
        if tokio::time::timeout(PATIENCE, is_silent(&scene, object))
            .await
            .is_err()
        {
            return Err(anyhow!(
                "{object:?}, undisturbed, has no end\n{}",
                scene.explain()
            ));
        }
        let mut requests = scene.injector.passed().split_off(before);
        requests.retain(|request| !request.target.starts_with("/identity"));
        references.insert(
            object,
            Reference {
                requests,
                end: words(&scene, &scene.snapshot().await?),
            },
        );
    }
    strike(environment, scene).await?;
    Ok(references)
}

/// Runs an operation during which the program is killed again and again, until a run completes; returns the number of
/// runs.
async fn lives(scene: &mut Scene, object: Act, points: &Points) -> Result<usize> {
    scene.injector.kill_when(points.chooser());
    act(scene, object).await?;
    for count in 1.. {
        tokio::select! {
            () = scene.injector.died() => {}
            () = is_silent(scene, object) => {
                scene.injector.revive();
                return Ok(count);
            }
        }
        scene.kill().await?;
        scene.start()?;
        scene.injector.kill_when(points.chooser());
    }
    Ok(0)
}

/// Runs a Service's lifetime in which one operation is interrupted at every request.
async fn cut_off(
    environment: &Environment,
    chosen: Act,
    references: impl Future<Output = Result<Arc<BTreeMap<Act, Reference>>, String>>,
) -> Result<String> {
    let mut scene = stage(environment).await?;
    let points = Points::default();
    let mut count = 0;
    let start = Instant::now();
    let played = async {
        for object in ACTS {
            let work = async {
                if object == chosen {
                    count = lives(&mut scene, object, &points).await?;
                } else {
                    act(&scene, object).await?;
                    is_silent(&scene, object).await;
                }
                Ok::<_, anyhow::Error>(())
            };
            let ended = tokio::time::timeout(PATIENCE, work).await;
            ended.map_err(|_| {
                anyhow!(
                    "{object:?} has no end; the last crash: {}",
                    points.reached().last
                )
            })??;
            if object == chosen {
                break;
            }
        }
        let references = references.await.map_err(|error| anyhow!("{error}"))?;
        let reference = &references[&chosen];
        ends_as(&scene, chosen, &reference.end).await?;
        if chosen != Act::Delete {
            scene.delete_service("web").await?;
        }
        Ok::<_, anyhow::Error>(report(
            chosen,
            reference,
            &points.reached().points,
            count,
            start.elapsed(),
        ))
    }
    .await;
    match played {
        Ok(report) => strike(environment, scene).await.map(|()| report),
        Err(error) => Err(anyhow!("{error:#}\n{}", scene.explain())),
    }
}

fn report(
    act: Act,
    reference: &Reference,
    points: &BTreeSet<String>,
    lives: usize,
    took: Duration,
) -> String {
    let all: BTreeSet<String> = reference.requests.iter().map(read).collect();
    let changes = reference
        .requests
        .iter()
        .filter(|request| request.is_mutation())
        .count();
    let missed: Vec<_> = all
        .iter()
        .filter(|text| !points.iter().any(|point| point.ends_with(&***text)))
        .collect();
    let met = points
        .iter()
        .filter(|point| point.contains("change ") && point.contains("after"))
        .count();
    format!(
        "    {act:?}: {} requests undisturbed, {changes} of them changes; {} crash points ({met} of them changes whose \
         answer was lost) in {lives} lives and {:.0} s{}",
        reference.requests.len(),
        points.len(),
        took.as_secs_f64(),
        if missed.is_empty() {
            String::new()
        } else {
            format!("; never at {missed:?}")
        },
    )
}

pub(crate) async fn killed_at_every_request_of_a_service_it_ends_as_undisturbed(
    environment: &Environment,
) -> Result<()> {
    let _peace = environment.peace.read().await;
    let references = async {
        let references = undisturbed(environment).await;
        references
            .map(Arc::new)
            .map_err(|error| format!("the undisturbed life: {error:#}"))
    };
    let references = references.boxed_local().shared();
    let only = std::env::var(ONLY).unwrap_or_default();
    let chosen = ACTS
        .into_iter()
        .filter(|act| format!("{act:?}").contains(&only));
    let acts = chosen.map(|act| cut_off(environment, act, references.clone()));
    let outcomes = futures::future::join_all(acts).await;
    let mut failures = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(report) => println!("{report}"),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}
