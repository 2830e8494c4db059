//! The program is killed at every request of one Service's life, and started again: it ends as undisturbed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ccm_tests::gate::{Moment, Passed};
use serde_json::json;

use crate::cloud::text;
use crate::environment::Environment;
use crate::project::Project;
use crate::scene::{SOON, Scene, Settings};
use crate::services::EVERYTHING;
use crate::snapshot::Snapshot;

/// So many Services live at a time, each in a project of its own.
const LANES: usize = 6;
/// So long nothing is asked before the end is judged: longer than the first pauses between two looks at a load balancer.
const SILENCE: Duration = Duration::from_millis(1700);
/// The name of the cluster: the same in all projects.
const LABEL: &str = "crash";

/// What happens to the Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Create,
    Change,
    Delete,
}

const ACTS: [Act; 3] = [Act::Create, Act::Change, Act::Delete];

/// How a life of the Service looks undisturbed.
struct Reference {
    requests: Vec<Passed>,
    end: BTreeSet<String>,
}

/// A life that ends at a request of each act.
#[derive(Clone, Copy, Debug)]
struct Point {
    number: usize,
    moment: Moment,
}

async fn act(scene: &Scene, act: Act) -> Result<()> {
    match act {
        Act::Create => {
            let ranges = json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}});
            scene.create_service("web", &[(80, 30080), (443, 30443)], ranges).await;
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
        Act::Delete => ensure!(scene.user.delete_service("web").await, "there is no Service"),
    }
    Ok(())
}

/// What is in the project and what is written on the Service, comparable between projects.
fn words(scene: &Scene, now: &Snapshot) -> BTreeSet<String> {
    let Project { name, id, user, network, subnet, router, servers, .. } = &scene.project;
    let mut aliases: Vec<(String, String)> = [
        (name, "project"),
        (id, "project id"),
        (user, "user"),
        (network, "network"),
        (subnet, "subnet"),
        (router, "router"),
    ]
    .map(|(value, alias)| (value.clone(), format!("<{alias}>")))
    .into();
    for server in servers {
        aliases.push((server.id.clone(), format!("<{}>", server.name)));
        aliases.push((server.address.clone(), format!("<address of {}>", server.name)));
    }
    let service = scene.service("web").unwrap_or_default();
    aliases.push((text(&service["metadata"], "uid").to_owned(), "<uid>".to_owned()));
    let mut with_service = now.clone();
    if !service.is_null() {
        let kept = json!({"annotations": service["metadata"]["annotations"], "status": service["status"]["loadBalancer"],
            "finalizers": service["metadata"]["finalizers"]});
        with_service.0.insert("service web".to_owned(), kept);
    }
    with_service.comparable(&aliases)
}

/// Waits until everything is as in the reference, or, without one, until nothing is asked any more.
async fn settles(scene: &Scene, act: Act, reference: Option<&BTreeSet<String>>) -> Result<BTreeSet<String>> {
    let start = Instant::now();
    loop {
        let count = scene.gate.count();
        tokio::time::sleep(SILENCE).await;
        let is_over = start.elapsed() > SOON;
        if scene.gate.count() != count && !is_over {
            continue;
        }
        let is_done = match act {
            Act::Create => scene.service("web")?["status"]["loadBalancer"]["ingress"][0]["ip"].is_string(),
            Act::Change => true,
            Act::Delete => scene.service("web").is_err(),
        };
        if is_done || is_over {
            let words = words(scene, &scene.snapshot().await?);
            let Some(reference) = reference else { return Ok(words) };
            if words == *reference {
                return Ok(words);
            }
            if is_over {
                let missing: Vec<_> = reference.difference(&words).collect();
                let more: Vec<_> = words.difference(reference).collect();
                return Err(anyhow!("not as undisturbed; missing: {missing:#?}\ntoo many: {more:#?}"));
            }
        }
    }
}

/// A request without what the cloud made up.
fn read(request: &Passed) -> String {
    let path = request.target.split('?').next().unwrap_or_default();
    let is_id = |it: &str| it.len() >= 32 && it.chars().all(|it| it.is_ascii_hexdigit() || it == '-');
    let words: Vec<&str> = path.split('/').map(|it| if is_id(it) { "*" } else { it }).collect();
    format!("{:?} {} {}", request.side, request.method, words.join("/"))
}

/// One after the other, without looks that only repeat the last one.
fn without_repetitions(requests: &[Passed]) -> Vec<(usize, Passed)> {
    let mut kept: Vec<(usize, Passed)> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let next = requests.get(index + 1);
        let repeats = kept.last().is_some_and(|(_, last)| last == request) && next == Some(request);
        if !repeats || request.is_mutation() {
            kept.push((index + 1, request.clone()));
        }
    }
    kept
}

async fn stage(environment: &Environment) -> Result<Scene> {
    let project = environment.pool.take(environment).await?;
    let flags: &[&str] = &["--node-monitor-period=60s", "--concurrent-service-syncs=1"];
    let settings = Settings { label: LABEL, balancers: EVERYTHING, flags, ..Settings::default() };
    let mut scene = Scene::set(environment, project, settings).await?;
    scene.start()?;
    scene.join(&["worker-1", "worker-2"]).await?;
    tokio::time::sleep(SILENCE).await;
    Ok(scene)
}

/// The life of a Service, undisturbed.
async fn undisturbed(scene: &Scene) -> Result<BTreeMap<Act, Reference>> {
    let mut references = BTreeMap::new();
    for it in ACTS {
        let before = scene.gate.passed().len();
        act(scene, it).await?;
        let end = settles(scene, it, None).await?;
        let mut requests = scene.gate.passed().split_off(before);
        requests.retain(|it| !it.target.starts_with("/identity"));
        references.insert(it, Reference { requests, end });
    }
    Ok(references)
}

/// The life of a Service in which each act is cut off at a request; at which ones.
async fn killed(
    scene: &mut Scene,
    references: &BTreeMap<Act, Reference>,
    points: &BTreeMap<Act, Point>,
) -> Result<Vec<(Act, Passed)>> {
    let mut reached = Vec::new();
    for it in ACTS {
        let reference = &references[&it];
        if let Some(point) = points.get(&it) {
            scene.gate.kill_at(point.number, point.moment);
        }
        scene.gate.note(&format!("{it:?}, killed at {:?}", points.get(&it)));
        act(scene, it).await?;
        let outcome = tokio::select! {
            () = scene.gate.died() => None,
            outcome = settles(scene, it, Some(&reference.end)) => Some(outcome),
        };
        match outcome {
            Some(outcome) => {
                outcome.with_context(|| format!("{it:?}, undisturbed"))?;
            }
            None => {
                let last = scene.gate.last(1).pop().context("nothing was asked")?;
                scene.kill().await?;
                scene.start()?;
                let settled = settles(scene, it, Some(&reference.end)).await;
                settled.with_context(|| format!("{it:?}, killed {:?} {last}", points[&it].moment))?;
                reached.push((it, last));
            }
        }
        // What was not reached in this act must not strike in the next.
        scene.gate.revive();
    }
    Ok(reached)
}

/// The points of all acts, put together so that each life has one of each.
fn lives(references: &BTreeMap<Act, Reference>) -> VecDeque<BTreeMap<Act, Point>> {
    let mut lives: Vec<BTreeMap<Act, Point>> = Vec::new();
    for (act, reference) in references {
        let mut points = Vec::new();
        for (number, request) in without_repetitions(&reference.requests) {
            // Before a request is after the one before it: only the answers of changes can be lost to any effect.
            points.push(Point { number, moment: Moment::Before });
            if request.is_mutation() {
                points.push(Point { number, moment: Moment::After });
            }
        }
        for (index, point) in points.into_iter().enumerate() {
            if lives.len() <= index {
                lives.push(BTreeMap::new());
            }
            lives[index].insert(*act, point);
        }
    }
    lives.into()
}

#[derive(Default)]
struct Tally {
    points: usize,
    unreached: usize,
    requests: BTreeMap<Act, BTreeSet<String>>,
    failures: Vec<String>,
}

pub(crate) async fn killed_at_any_request_of_a_service_a_restart_ends_as_undisturbed(
    environment: &Environment,
) -> Result<()> {
    let _peace = environment.peace.read().await;
    let start = Instant::now();
    let first = stage(environment).await?;
    let references = match undisturbed(&first).await {
        Ok(references) => references,
        Err(error) => return Err(anyhow!("{error:#}\n{}", first.explain())),
    };
    let lives = lives(&references);
    println!(
        "  crash: the undisturbed life took {:.1} s; {} lives to come",
        start.elapsed().as_secs_f64(),
        lives.len()
    );
    let (queue, tally) = (Mutex::new(lives), Mutex::new(Tally::default()));
    let first = Mutex::new(Some(first));
    let lane = async |_: usize| -> Result<()> {
        let own = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut scene = match own {
            Some(scene) => scene,
            None => stage(environment).await?,
        };
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(points) = next else { break };
            let outcome = killed(&mut scene, &references, &points).await;
            let failure = outcome.as_ref().err().map(|error| format!("{error:#}\n{}", scene.explain()));
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            let reached = outcome.unwrap_or_default();
            tally.points += reached.len();
            if let Some(failure) = failure {
                tally.failures.push(failure);
                // The project is not as it was: this lane ends.
                return Ok(());
            }
            tally.unreached += points.len() - reached.len();
            for (act, request) in reached {
                tally.requests.entry(act).or_default().insert(read(&request));
            }
        }
        scene.end().await?;
        let differences = scene.before.differences(&scene.snapshot().await?);
        ensure!(differences.is_empty(), "not as before: {differences:#?}");
        environment.pool.give_back(scene.project.clone());
        Ok(())
    };
    let outcomes = futures::future::join_all((0..LANES).map(lane)).await;
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    print(&references, &tally, start.elapsed());
    outcomes.into_iter().collect::<Result<()>>()?;
    ensure!(tally.failures.is_empty(), "{} lives failed; the first: {}", tally.failures.len(), tally.failures[0]);
    ensure!(tally.unreached * 10 <= tally.points, "{} of {} points were not reached", tally.unreached, tally.points);
    Ok(())
}

fn print(references: &BTreeMap<Act, Reference>, tally: &Tally, took: Duration) {
    println!("  crash: {} crash points in {:.0} s, {} not reached", tally.points, took.as_secs_f64(), tally.unreached);
    for (act, reference) in references {
        let all: BTreeSet<String> = reference.requests.iter().map(read).collect();
        let changes = reference.requests.iter().filter(|it| it.is_mutation()).count();
        let empty = BTreeSet::new();
        let reached = tally.requests.get(act).unwrap_or(&empty);
        let missed: Vec<_> = all.difference(reached).collect();
        println!(
            "    {act:?}: {} requests, {changes} of them changes, {} kinds; killed at {} kinds{}",
            reference.requests.len(),
            all.len(),
            reached.len(),
            if missed.is_empty() { String::new() } else { format!(", never at {missed:?}") }
        );
    }
}
