//! The alerts that we ship, evaluated by Prometheus' own `promtool` on series of our own: they fire when they should, and
//! are silent when not.
//!
//! Each scenario plays two replicas over minutes of virtual time: it calls the hooks of the metrics as the program does,
//! scrapes them every minute, and hands the series with the rules to `promtool test rules`.
//!
//! `CCM_PROMTOOL` names the program; by default, `promtool` in the `PATH`. Without it each scenario is ignored, with
//! that reason. `deploy/alerts/test.sh` downloads it.

mod recording;
mod replica;
mod scenarios;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::scenarios::{SCENARIOS, Scenario};

const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/alerts/ccm-rs.rules.yaml"
);

fn main() -> ExitCode {
    let rules = std::fs::read_to_string(RULES).expect(RULES);
    let mut trials = vec![Trial::test("every_alert_is_made_to_fire", {
        let rules = rules.clone();
        move || every_alert_is_made_to_fire(&rules)
    })];
    trials.push(Trial::ignorable_test("the_rules_are_well_formed", || {
        with_promtool(|promtool| run(promtool, &["check", "rules", RULES]))
    }));
    trials.extend(SCENARIOS.iter().map(|scenario| {
        let rules = rules.clone();
        Trial::ignorable_test(scenario.name, move || {
            with_promtool(|promtool| play(scenario, &rules, promtool))
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn every_alert_is_made_to_fire(rules: &str) -> Result<(), Failed> {
    let declared: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .map(str::trim)
        .collect();
    let expected: BTreeSet<&str> = SCENARIOS
        .iter()
        .flat_map(|scenario| scenario.firing)
        .flat_map(|(_, alerts)| alerts.iter().copied())
        .collect();
    if declared == expected {
        return Ok(());
    }
    let unplayed: Vec<_> = declared.difference(&expected).collect();
    let unknown: Vec<_> = expected.difference(&declared).collect();
    Err(format!(
        "alerts that no scenario makes fire: {unplayed:?}; alerts that no rule has: {unknown:?}"
    )
    .into())
}

fn with_promtool(test: impl FnOnce(&Path) -> Result<(), Failed>) -> Result<Completion, Failed> {
    let Some(promtool) = promtool() else {
        return Ok(Completion::ignored_with(
            "there is no promtool: see deploy/alerts/test.sh",
        ));
    };
    test(&promtool).map(|()| Completion::Completed)
}

fn promtool() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CCM_PROMTOOL").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("promtool"))
        .find(|candidate| candidate.is_file())
}

fn play(scenario: &Scenario, rules: &str, promtool: &Path) -> Result<(), Failed> {
    let recording = scenario.record(rules);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alerts");
    std::fs::create_dir_all(&directory)?;
    let file = directory.join(format!("{}.yaml", scenario.name));
    std::fs::write(&file, recording.test_file(RULES, scenario))?;
    run(promtool, &["test", "rules", &file.to_string_lossy()])
}

fn run(promtool: &Path, arguments: &[&str]) -> Result<(), Failed> {
    let output = Command::new(promtool).args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{}{}", said(&output.stdout), said(&output.stderr)).into())
}
