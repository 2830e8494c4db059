//! The whole suite: which servers, which scenarios, what is compared with what, and the report.

use crate::answers::{self, Answers};
use crate::diff::differences;
use crate::mask::mask;
use crate::real;
use crate::runner::{self, Transcript};
use crate::scenario::{Group, Need, Scenario, directory, load};
use anyhow::{Context, Result, bail};
use embedded_apiserver::ApiServer;
use futures::StreamExt;
use kube::Client;
use serde_json::Value;
use std::collections::BTreeMap;

/// Attempts at a real server whose responses differ from the recorded ones: on a busy machine, its watches may end
/// before they have reported every event. A true difference shows in every attempt.
const ATTEMPTS: usize = 3;
/// Differences shown for one scenario.
const SHOWN: usize = 25;

#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    list: bool,
    print: bool,
    print_answers: bool,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Self {
        let mut arguments = Self::default();
        for word in words {
            match word.as_str() {
                "--list" => arguments.list = true,
                "--print" => arguments.print = true,
                "--answers" => arguments.print_answers = true,
                // Flags of the standard test harness are ignored.
                flag if flag.starts_with('-') => {}
                _ => arguments.words.push(word),
            }
        }
        arguments
    }

    fn select(&self, group: &Group, scenario: &Scenario) -> bool {
        let name = format!("{}/{}", group.semantics, scenario.id);
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }
}

/// Runs the suite; true if nothing failed.
pub(crate) fn main(words: impl Iterator<Item = String>) -> Result<bool> {
    let arguments = Arguments::parse(words);
    if arguments.list {
        for (semantics, scenario) in selected(&arguments, "eq-")? {
            println!("{semantics}/{}: test", scenario.id);
        }
        return Ok(true);
    }
    let kubeconfig = std::env::var("CCM_TEST_KUBECONFIG")
        .ok()
        .filter(|path| !path.is_empty());
    if std::env::var_os("CCM_RECORD_ANSWERS").is_some() {
        let kubeconfig = kubeconfig
            .context("CCM_RECORD_ANSWERS needs CCM_TEST_KUBECONFIG: answers are a real server's")?;
        return record(&arguments, &kubeconfig);
    }
    compare(&arguments, kubeconfig.as_deref())
}

fn selected(arguments: &Arguments, tag: &str) -> Result<Vec<(String, Scenario)>> {
    let groups = load(&directory(), tag)?;
    let chosen = groups.iter().flat_map(|group| {
        let scenarios = group
            .scenarios
            .iter()
            .filter(|scenario| arguments.select(group, scenario));
        scenarios.map(|scenario| (group.semantics.clone(), scenario.clone()))
    });
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        bail!("no scenario is called like {:?}", arguments.words);
    }
    Ok(chosen)
}

/// A scenario's masked answers, or why there are none.
type Outcome = Result<Value, String>;

/// The outcomes of one server, by scenario.
type Outcomes = BTreeMap<String, Outcome>;

async fn outcome(client: &Client, scenario: &Scenario, tag: &str, clean: bool) -> Outcome {
    match runner::run(client, scenario, tag, clean).await {
        Ok(Transcript { answers, generated }) => {
            Ok(mask(answers, generated, &scenario.literals, tag))
        }
        Err(error) => Err(format!("{error:#}")),
    }
}

/// Runs every scenario on a server of its own, under a clock that skips idle time.
fn ask_embedded(arguments: &Arguments) -> Result<Outcomes> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()?;
    let mut outcomes = Outcomes::new();
    for (_, scenario) in selected(arguments, "eq-")? {
        let outcome = runtime.block_on(async {
            let server = ApiServer::new();
            if scenario.needs == Some(Need::Compacted) {
                server.compact();
            }
            let client = Client::new(server.service(), "default");
            outcome(&client, &scenario, "eq-", false).await
        });
        outcomes.insert(scenario.id, outcome);
    }
    Ok(outcomes)
}

/// Runs the scenarios, or only the `wanted` ones, on one server; names contain the tag of the run and the attempt.
fn ask_real(
    arguments: &Arguments,
    kubeconfig: &str,
    attempt: usize,
    wanted: impl Fn(&str) -> bool,
) -> Result<Outcomes> {
    let tag = format!("eq{}{}-", letters(std::process::id()), "x".repeat(attempt));
    let mut scenarios = selected(arguments, &tag)?;
    scenarios.retain(|(_, scenario)| wanted(&scenario.id));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = real::client(kubeconfig).await?;
        if scenarios
            .iter()
            .any(|(_, scenario)| scenario.needs == Some(Need::Compacted))
        {
            prepare(&client).await?;
        }
        let asked = scenarios.iter().map(|(_, scenario)| async {
            (
                scenario.id.clone(),
                outcome(&client, scenario, &tag, true).await,
            )
        });
        Ok(futures::stream::iter(asked)
            .buffer_unordered(8)
            .collect()
            .await)
    })
}

async fn prepare(client: &Client) -> Result<()> {
    if real::is_compacted(client).await? {
        return Ok(());
    }
    match std::env::var("CCM_TEST_FAULTS") {
        Ok(script) => real::compact(client, &script).await,
        Err(_) => bail!(
            "the real server still remembers revision 1, but some scenarios need a server with a past: \
             run the test bed's `fault.sh compact` and `fault.sh restart`, or set CCM_TEST_FAULTS to its path"
        ),
    }
}

/// Returns a short tag of lower-case letters.
fn letters(mut number: u32) -> String {
    let mut text = String::new();
    while number > 0 {
        text.extend(char::from_digit(number % 26 + 10, 36));
        number /= 26;
    }
    text
}

fn record(arguments: &Arguments, kubeconfig: &str) -> Result<bool> {
    let outcomes = ask_real(arguments, kubeconfig, 0, |_| true)?;
    let mut failed = 0;
    for group in load(&directory(), "eq-")? {
        let old = answers::read(&directory(), &group.semantics)?;
        let mut recorded = Answers::new();
        for scenario in &group.scenarios {
            match outcomes.get(&scenario.id) {
                Some(Ok(answer)) if answer.to_string().contains(r#""end":"timeout""#) => {
                    failed += 1;
                    println!(
                        "{}/{}: a watch gave less than expected: {answer:#}",
                        group.semantics, scenario.id
                    );
                }
                Some(Ok(answer)) => {
                    recorded.insert(scenario.id.clone(), answer.clone());
                }
                Some(Err(error)) => {
                    failed += 1;
                    println!("{}/{}: {error}", group.semantics, scenario.id);
                }
                None => recorded.extend(
                    old.get(&scenario.id)
                        .map(|answer| (scenario.id.clone(), answer.clone())),
                ),
            }
        }
        answers::write(&directory(), &group.semantics, &recorded)?;
        println!("{}: {} scenarios recorded", group.semantics, recorded.len());
    }
    println!("{} recorded, {failed} failed", outcomes.len() - failed);
    Ok(failed == 0)
}

/// Numbers of passed and failed scenarios.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: usize,
    failed: usize,
}

impl Count {
    fn add(&mut self, good: bool) {
        if good {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    fn of(self) -> usize {
        self.passed + self.failed
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The counts of one semantics: each server against the record, and the servers against each other.
#[derive(Clone, Copy, Default)]
struct Counts {
    embedded: Count,
    real: Count,
    alike: Count,
}

/// Returns the responses of a real server; those that differ from the record are requested again.
fn ask_patiently(arguments: &Arguments, kubeconfig: &str, recorded: &Answers) -> Result<Outcomes> {
    let mut outcomes = ask_real(arguments, kubeconfig, 0, |_| true)?;
    for attempt in 1..ATTEMPTS {
        let is_other =
            |id: &str| outcomes.get(id).and_then(|id| id.as_ref().ok()) != recorded.get(id);
        let others: Vec<String> = outcomes.keys().filter(|id| is_other(id)).cloned().collect();
        if others.is_empty() {
            break;
        }
        println!("not as recorded, asked again: {}", others.join(", "));
        outcomes.extend(ask_real(arguments, kubeconfig, attempt, |id| {
            others.iter().any(|other| other == id)
        })?);
    }
    Ok(outcomes)
}

fn compare(arguments: &Arguments, kubeconfig: Option<&str>) -> Result<bool> {
    let embedded = ask_embedded(arguments)?;
    let mut recorded = Answers::new();
    for group in load(&directory(), "eq-")? {
        recorded.extend(answers::read(&directory(), &group.semantics)?);
    }
    let real = kubeconfig
        .map(|kubeconfig| ask_patiently(arguments, kubeconfig, &recorded))
        .transpose()?;
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for (semantics, scenario) in selected(arguments, "eq-")? {
        let expected = recorded.get(&scenario.id);
        let count = counts.entry(semantics.clone()).or_default();
        let name = format!("{semantics}/{} ({})", scenario.id, scenario.title);
        let ours = embedded.get(&scenario.id);
        if arguments.print {
            println!("{name}: {}", pretty(ours));
        }
        if arguments.print_answers {
            println!("{name}, recorded: {:#}", expected.unwrap_or(&Value::Null));
        }
        count.embedded.add(report(
            &name,
            "embedded server, expected as recorded",
            expected,
            ours,
        ));
        if let Some(real) = &real {
            let theirs = real.get(&scenario.id);
            let as_recorded = report(&name, "real server, expected as recorded", expected, theirs);
            count.real.add(as_recorded);
            // Differences of both from the record were reported above.
            let answer = theirs.and_then(|outcome| outcome.as_ref().ok());
            count.alike.add(if as_recorded {
                answer == ours.and_then(|outcome| outcome.as_ref().ok())
            } else {
                report(
                    &name,
                    "embedded server, expected as the real one",
                    answer,
                    ours,
                )
            });
        }
    }
    Ok(summary(&counts, real.is_some()) && (!arguments.words.is_empty() || is_whole(&counts)))
}

/// Returns `true` if the suite has the promised size; prints a message otherwise.
fn is_whole(counts: &BTreeMap<String, Counts>) -> bool {
    let sizes = counts
        .iter()
        .map(|(semantics, counts)| (semantics, counts.embedded.of()));
    let small: Vec<_> = sizes
        .clone()
        .filter(|(_, size)| *size < 3)
        .map(|(semantics, _)| semantics.as_str())
        .collect();
    let total: usize = sizes.map(|(_, size)| size).sum();
    if !small.is_empty() || total < 80 {
        println!(
            "FAILED: {total} scenarios (80 are wanted); fewer than three of: {}",
            small.join(", ")
        );
    }
    small.is_empty() && total >= 80
}

fn pretty(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Ok(answer)) => format!("{answer:#}"),
        Some(Err(error)) => error.clone(),
        None => "not run".to_owned(),
    }
}

/// Prints how the answers of one server differ from the recorded ones; true if they do not.
fn report(name: &str, server: &str, expected: Option<&Value>, got: Option<&Outcome>) -> bool {
    let lines = match (expected, got) {
        (None, _) => vec!["no answers are recorded; see tests/equal-answers/README.md".to_owned()],
        (_, None) => vec!["was not run".to_owned()],
        (_, Some(Err(error))) => vec![error.clone()],
        (Some(expected), Some(Ok(got))) => step_differences(expected, got),
    };
    if lines.is_empty() {
        return true;
    }
    println!("FAILED {name}: {server}");
    lines
        .iter()
        .take(SHOWN)
        .for_each(|line| println!("    {line}"));
    if lines.len() > SHOWN {
        println!("    … and {} more", lines.len() - SHOWN);
    }
    false
}

fn step_differences(expected: &Value, got: &Value) -> Vec<String> {
    let empty = Vec::new();
    let steps = expected.as_array().unwrap_or(&empty);
    let others = got.as_array().unwrap_or(&empty);
    let mut lines = Vec::new();
    for index in 0..steps.len().max(others.len()) {
        let step = steps.get(index).unwrap_or(&Value::Null);
        let other = others.get(index).unwrap_or(&Value::Null);
        let found = differences(step, other);
        if !found.is_empty() {
            lines.push(format!(
                "step {}: {}",
                index + 1,
                step["step"].as_str().unwrap_or("(not recorded)")
            ));
            lines.extend(found.into_iter().map(|line| format!("  {line}")));
        }
    }
    lines
}

/// Prints the counts; true if nothing failed.
fn summary(counts: &BTreeMap<String, Counts>, real: bool) -> bool {
    let mut total = Counts::default();
    for (semantics, count) in counts {
        print!(
            "semantics {semantics}: {} scenarios; embedded: {}",
            count.embedded.of(),
            count.embedded
        );
        println!(
            "{}",
            if real {
                format!("; real: {}", count.real)
            } else {
                String::new()
            }
        );
        total.embedded += count.embedded;
        total.real += count.real;
        total.alike += count.alike;
    }
    println!("embedded server as recorded: {}", total.embedded);
    if real {
        println!("real kube-apiserver as recorded: {}", total.real);
        println!("embedded server as the real one: {}", total.alike);
    } else {
        println!(
            "real kube-apiserver: {} ignored, CCM_TEST_KUBECONFIG is not set",
            total.embedded.of()
        );
    }
    let mut all = total.embedded;
    all += total.real;
    all += total.alike;
    println!("{all}");
    all.failed == 0
}
