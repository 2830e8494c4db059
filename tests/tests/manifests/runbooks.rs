//! The runbook of each alert.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::documents::{deploy, parse, read};
use crate::helm::Helm;

/// Sections of a runbook, in this order.
const SECTIONS: [&str; 4] = ["## Meaning", "## Impact", "## Diagnosis", "## Mitigation"];

/// Returns the name of each alert among these groups, and its annotation `runbook_url`.
fn alerts(groups: &Value) -> Vec<(String, String)> {
    let rules = groups
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let text = |object: &Value| object.as_str().unwrap_or_default().to_owned();
    rules
        .map(|rule| {
            (
                text(&rule["alert"]),
                text(&rule["annotations"]["runbook_url"]),
            )
        })
        .collect()
}

pub(crate) fn each_alert_has_a_runbook_and_each_runbook_an_alert() -> Result<()> {
    let folder = deploy().join("../docs/runbooks");
    let documents = read(&["alerts/ccm-rs.rules.yaml"])?;
    let alerts = alerts(&documents[0]["groups"]);
    for (alert, url) in &alerts {
        ensure!(
            *url == format!("docs/runbooks/{alert}.md"),
            "{alert}: runbook_url is {url:?}"
        );
        let page = std::fs::read_to_string(folder.join(format!("{alert}.md")))
            .with_context(|| url.clone())?;
        ensure!(
            page.starts_with(&format!("# {alert}\n")),
            "{url} does not begin with the name of its alert"
        );
        let sections: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        ensure!(
            sections == SECTIONS,
            "{url} has the sections {sections:?}, not {SECTIONS:?}"
        );
        let diagnosis = page
            .split("## Diagnosis")
            .nth(1)
            .and_then(|rest| rest.split("\n## ").next())
            .unwrap_or_default();
        ensure!(
            diagnosis.lines().any(|line| line.starts_with("    ")),
            "{url}: the diagnosis has no command"
        );
    }
    let named: BTreeSet<String> = alerts.into_iter().map(|(alert, _)| alert).collect();
    let index =
        std::fs::read_to_string(folder.join("README.md")).context("docs/runbooks/README.md")?;
    for entry in std::fs::read_dir(&folder)? {
        let page = entry?.file_name().to_string_lossy().into_owned();
        let alert = page.trim_end_matches(".md");
        ensure!(
            page == "README.md" || named.contains(alert),
            "docs/runbooks/{page} is about no alert"
        );
        ensure!(
            page == "README.md" || index.contains(&format!("({page})")),
            "docs/runbooks/README.md lacks {page}"
        );
    }
    Ok(())
}

pub(crate) fn the_chart_puts_the_base_of_the_runbooks_into_each_alert(helm: &Helm) -> Result<()> {
    for (base, wanted) in [
        ("", "docs/runbooks"),
        (
            "https://git.example.com/runbooks",
            "https://git.example.com/runbooks",
        ),
    ] {
        let rule = json!({"enabled": true, "runbookUrl": base});
        let values = Map::from_iter([
            ("provider".to_owned(), json!("simulated")),
            ("prometheusRule".to_owned(), rule),
        ]);
        let documents = parse(&helm.rendered(&deploy().join("helm/ccm-rs"), &values)?)?;
        let rule = documents
            .iter()
            .find(|document| document["kind"] == "PrometheusRule")
            .context("no PrometheusRule")?;
        let alerts = alerts(&rule["spec"]["groups"]);
        ensure!(alerts.len() > 15, "{} alerts", alerts.len());
        for (alert, url) in alerts {
            ensure!(
                url == format!("{wanted}/{alert}.md"),
                "{alert}: {url:?} with the base {base:?}"
            );
        }
    }
    Ok(())
}

pub(crate) fn the_alerts_name_the_lease_and_the_namespace_of_the_release(
    helm: &Helm,
) -> Result<()> {
    let values =
        json!({"provider": "simulated", "name": "second", "prometheusRule": {"enabled": true}});
    let values = values.as_object().cloned().unwrap_or_default();
    let documents =
        parse(&helm.rendered_as(("two", "lb"), &deploy().join("helm/ccm-rs"), &values)?)?;
    let rule = documents
        .iter()
        .find(|document| document["kind"] == "PrometheusRule")
        .context("no PrometheusRule")?;
    let text = rule["spec"].to_string();
    for part in [
        r#"leader_election_master_status{name=\"second\"}"#,
        "kubectl -n lb get lease second -o yaml",
        "kubectl -n lb get pods -l app.kubernetes.io/name=second",
        // The job is a label of the ServiceMonitor, whatever the name is.
        r#"up{job=\"cloud-controller-manager\"}"#,
    ] {
        ensure!(text.contains(part), "the alerts lack {part}");
    }
    ensure!(
        !text.contains("kubectl -n kube-system"),
        "an alert has a command for kube-system"
    );
    Ok(())
}
