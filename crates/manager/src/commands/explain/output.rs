//! The output of `explain`, as text and as JSON.

use std::time::Duration;

use cloud_provider::{LoadBalancerDescription, Ownership, TargetDescription, visible};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::facts::{EventFact, Leader};
use super::report::{Explanation, is_same_error};
use super::rows::Row;
use crate::commands::plan::Step;
use crate::commands::seconds;
use crate::output::Lines;

/// Width of a line in columns. Longer words are on a line of their own.
const WIDTH: usize = 80;
/// Maximum number of events shown.
const EVENTS: usize = 5;
/// Maximum number of targets shown.
const TARGETS: usize = 20;

/// Version of the JSON form. The version increases when a field is removed or changes its meaning, not when a field is
/// added.
pub const JSON_VERSION: u32 = 1;

/// Returns the explanation as text.
#[must_use]
pub fn text(explanation: &Explanation) -> String {
    let mut page = Page::default();
    page.line(
        0,
        &format!(
            "{} ({}, cluster {})",
            explanation.subject,
            provider(explanation),
            explanation.cluster.name
        ),
    );
    why(explanation, &mut page);
    section(&mut page, "Kubernetes", &explanation.kubernetes);
    if !explanation.balancers.is_empty() || !explanation.cloud.is_empty() {
        section(&mut page, "Cloud", &explanation.cloud);
        if explanation.cloud.is_empty() {
            page.title("Cloud");
        }
        explanation
            .balancers
            .iter()
            .for_each(|balancer| describe(balancer, &mut page));
    }
    next(explanation, &mut page);
    let is_told = |text: &str| {
        explanation
            .causes
            .iter()
            .any(|cause| is_same_error(&cause.detail, text))
    };
    let errors: Vec<_> = explanation
        .last_errors
        .iter()
        .filter(|error| !is_told(&error.text))
        .collect();
    if !errors.is_empty() {
        page.title("Last errors");
        for error in errors {
            let at = error.at.map_or_else(
                || "now".to_owned(),
                |at| format!("{}, {}", error.source, ago(explanation.now, at)),
            );
            page.line(2, &format!("{at}:"));
            page.line(4, &error.text);
        }
    }
    page.title("Also claimed by");
    page.list(&explanation.claims, "nobody");
    if !explanation.events.is_empty() {
        page.title("Events");
        explanation
            .events
            .iter()
            .take(EVENTS)
            .for_each(|event| page.raw(&cut(&format!("  {}", shown(event, explanation.now)))));
        if let Some(more) = explanation.events.len().checked_sub(EVENTS + 1) {
            page.line(2, &format!("and {} more", more + 1));
        }
    }
    page.title("Leader");
    page.line(2, &leader(&explanation.leader));
    if !explanation.unknown.is_empty() {
        page.title("Not known");
        page.list(&explanation.unknown, "");
    }
    let unread: Vec<String> = explanation
        .errors
        .iter()
        .filter(|error| !is_told(error))
        .cloned()
        .collect();
    if !unread.is_empty() {
        page.title("Could not be read");
        page.list(&unread, "");
    }
    page.0.into_text()
}

fn provider(explanation: &Explanation) -> String {
    if explanation.provider.is_empty() {
        "cloud provider unavailable".to_owned()
    } else {
        format!("cloud provider {}", explanation.provider)
    }
}

fn why(explanation: &Explanation, page: &mut Page) {
    page.title("Why");
    if !explanation.exists {
        page.line(
            2,
            &format!("There is no {} in the API.", explanation.subject),
        );
        match explanation.similar.as_slice() {
            [] => {}
            [name] => page.line(4, &format!("The closest name is {name}.")),
            names => page.line(4, &format!("The closest names are {}.", names.join(", "))),
        }
    }
    if explanation.causes.is_empty() && explanation.exists && explanation.errors.is_empty() {
        page.line(2, "Nothing waits, and nothing is held.");
    }
    for cause in &explanation.causes {
        let since = cause
            .since
            .map(|since| format!(", since {}", age(explanation.now, since)))
            .unwrap_or_default();
        page.line(
            2,
            &format!("{}{since}: {}", cause.state.name(), cause.state.meaning()),
        );
        if !cause.detail.is_empty() {
            page.line(4, &cause.detail);
        }
        // The message of a condition includes the advice already.
        let is_said = cause.detail.contains(cause.state.advice())
            || cause.detail.contains("A person must act");
        if !is_said {
            page.line(4, &format!("To do: {}", cause.state.advice()));
        }
    }
}

fn section(page: &mut Page, title: &str, rows: &[Row]) {
    let rows: Vec<&Row> = rows.iter().filter(|row| !row.values.is_empty()).collect();
    if rows.is_empty() {
        return;
    }
    page.title(title);
    let width = rows
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or_default()
        + 2;
    for row in rows {
        for (number, value) in row.values.iter().enumerate() {
            let name = if number == 0 {
                format!("{}:", row.name)
            } else {
                String::new()
            };
            page.hanging(&format!("  {name:<width$}"), value);
        }
    }
}

fn describe(balancer: &LoadBalancerDescription, page: &mut Page) {
    let LoadBalancerDescription {
        id,
        name,
        ownership,
        state,
        owner_tags,
        addresses,
        listeners,
        targets,
        health_error,
    } = balancer;
    let whose = match ownership {
        Ownership::Own => "this Service's own",
        Ownership::Twin(_) => "has this Service's owner tags, is not used and stays",
        Ownership::Free => "nobody's, taken over by the next sync",
        Ownership::Foreign(_) => "another owner's",
    };
    page.hanging(
        "  ",
        &format!("Load balancer {name:?} ({id}): {whose}, {state}"),
    );
    let tags: Vec<String> = owner_tags
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let tags = if tags.is_empty() {
        vec!["none".to_owned()]
    } else {
        tags
    };
    for (title, values) in [
        ("Owner tags:", &tags),
        ("Addresses:", addresses),
        ("Listeners:", listeners),
    ] {
        for (number, value) in values.iter().enumerate() {
            page.hanging(
                &format!("    {:<13}", if number == 0 { title } else { "" }),
                value,
            );
        }
    }
    if let Some(error) = health_error {
        page.hanging("    Health:      ", &format!("not known: {error}"));
    }
    if targets.is_empty() {
        page.line(4, "Targets:     none");
        return;
    }
    table(targets, page);
}

fn table(targets: &[TargetDescription], page: &mut Page) {
    let rows: Vec<[String; 3]> = targets.iter().take(TARGETS).map(columns).collect();
    let width = |column: usize, title: &str| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
            .max(title.len())
            + 2
    };
    let first = width(0, "TARGET");
    let second = width(1, "NODE");
    page.raw(&format!(
        "    {:<first$}{:<second$}HEALTH",
        "TARGET", "NODE"
    ));
    for [target, node, health] in &rows {
        page.hanging(&format!("    {target:<first$}{node:<second$}"), health);
    }
    if let Some(more) = targets.len().checked_sub(TARGETS + 1) {
        let sick = targets.iter().skip(TARGETS).filter(|target| {
            target
                .health
                .as_ref()
                .is_some_and(|health| !health.is_healthy)
        });
        page.line(
            4,
            &format!("and {} more, {} of them unhealthy", more + 1, sick.count()),
        );
    }
}

fn columns(target: &TargetDescription) -> [String; 3] {
    let health = match &target.health {
        None => "not told by the cloud".to_owned(),
        Some(health) => {
            let word = if health.is_healthy {
                "healthy"
            } else {
                "unhealthy"
            };
            if health.detail.is_empty() {
                word.to_owned()
            } else {
                format!("{word}: {}", health.detail)
            }
        }
    };
    [
        target.target.clone(),
        target.node.clone().unwrap_or_else(|| "-".to_owned()),
        health,
    ]
}

fn next(explanation: &Explanation, page: &mut Page) {
    page.title("Next");
    for step in &explanation.plan.steps {
        let Step { side, step } = step;
        let detail = if step.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", step.detail)
        };
        page.hanging(
            &format!("  {side:<10}  {:<6}  ", step.action.to_string()),
            &format!("{}{detail}", step.what),
        );
    }
    if explanation.plan.steps.is_empty() {
        let known = explanation.plan.errors.is_empty() && explanation.errors.is_empty();
        page.line(
            2,
            if known {
                "nothing would change"
            } else {
                "not known, see the errors"
            },
        );
    }
    explanation
        .plan
        .notes
        .iter()
        .for_each(|note| page.hanging("  note        ", note));
}

fn leader(leader: &Leader) -> String {
    match leader {
        Leader::Leads { holder, renewed } => format!("{holder}, renewed {} ago", seconds(*renewed)),
        Leader::Nobody(why) => format!("nobody: {why}"),
        Leader::Unknown(why) => format!("not known: {why}"),
    }
}

fn shown(event: &EventFact, now: Timestamp) -> String {
    let at = event
        .last
        .map(|at| format!(", {}", ago(now, at)))
        .unwrap_or_default();
    let count = if event.count > 1 {
        format!(" ({} times)", event.count)
    } else {
        String::new()
    };
    format!("{}{at}{count}: {}", event.reason, event.message)
}

/// Cuts a line that is too long. The JSON form is never cut.
fn cut(line: &str) -> String {
    let line = line.replace('\n', " ");
    match line.char_indices().nth(WIDTH) {
        None => line,
        Some(_) => line.chars().take(WIDTH - 1).chain(['…']).collect(),
    }
}

fn elapsed(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

fn ago(now: Timestamp, then: Timestamp) -> String {
    format!("{} ago", seconds(elapsed(now, then)))
}

fn age(now: Timestamp, then: Timestamp) -> String {
    let whole = Timestamp::from_second(then.as_second()).unwrap_or(then);
    format!("{whole} ({})", seconds(elapsed(now, then)))
}

/// A builder of lines that are at most [`WIDTH`] columns wide where possible.
#[derive(Default)]
struct Page(Lines);

impl Page {
    fn raw(&mut self, line: &str) {
        self.0.line(format_args!("{line}"));
    }

    fn title(&mut self, title: &str) {
        self.raw("");
        self.raw(&format!("{title}:"));
    }

    fn line(&mut self, indent: usize, text: &str) {
        self.hanging(&" ".repeat(indent), text);
    }

    fn list(&mut self, texts: &[String], none: &str) {
        texts.iter().for_each(|text| self.line(2, text));
        if texts.is_empty() {
            self.line(2, none);
        }
    }

    /// Writes words after `prefix`, and continues below the first word where they do not fit. Line breaks in `text`
    /// count as spaces. Other characters that are not visible are escaped before the words are measured.
    fn hanging(&mut self, prefix: &str, text: &str) {
        let indent = prefix.chars().count();
        let mut line = prefix.to_owned();
        let mut used = indent;
        for word in text.split_whitespace().map(visible) {
            let length = word.chars().count();
            let is_first = used == indent;
            if !is_first && used + 1 + length > WIDTH {
                self.raw(&line);
                (line, used) = (" ".repeat(indent), indent);
            } else if !is_first {
                line.push(' ');
                used += 1;
            }
            line.push_str(&word);
            used += length;
        }
        self.raw(&line);
    }
}

/// Returns the explanation as one JSON object:
///
/// ```text
/// {
///   "version": 1,
///   "kind": "Node" or "Service", "namespace": "" or a name, "name": "web", "exists": true,
///   "similar": ["…"],                  names of others, if the object does not exist
///   "provider": "simulated",
///   "cluster": {"name": "kubernetes", "id": "4f2c…" or null},
///   "causes": [{                       causes that make the object wait come first
///     "state": "QuotaExceeded",        stable across releases
///     "waits": true,                   false: for information only
///     "since": "2026-01-01T00:00:00Z" or null,
///     "meaning": "…", "detail": "…", "advice": "…"
///   }],
///   "kubernetes": {"Type": ["LoadBalancer"], …}, "cloud": {"Machine": ["…"], …},
///   "loadBalancers": [{
///     "id", "name", "ownership": "own", "twin", "free" or "foreign", "state",
///     "ownerTags": {"…": "…"}, "addresses": ["…"], "listeners": ["443/TCP"],
///     "targets": [{"target", "node": name or null, "healthy": true, false or null, "detail"}], "healthError": null
///   }],
///   "claims": ["…"],
///   "plan": {"steps": [{"side", "action", "what", "detail"}], "notes": ["…"], "errors": ["…"]},
///   "lastErrors": [{"at": time or null, "source": "now", "condition" or an event's reason, "text"}],
///   "events": [{"reason", "warning", "message", "source", "count", "first", "last"}],
///   "leader": {"holder": name or null, "renewedSecondsAgo": 3 or null, "text": "…"},
///   "unknown": ["…"], "errors": ["…"],
///   "exitCode": 0 nothing waits or would change, 2 something does, 1 something could not be found out
/// }
/// ```
#[must_use]
pub fn json(explanation: &Explanation) -> Value {
    let cause = |cause: &super::Cause| {
        json!({
            "state": cause.state.name(),
            "waits": cause.state.weight() == super::Weight::Waits,
            "since": cause.since.map(|since| since.to_string()),
            "meaning": cause.state.meaning(),
            "detail": cause.detail,
            "advice": cause.state.advice(),
        })
    };
    let (holder, renewed) = match &explanation.leader {
        Leader::Leads { holder, renewed } => (Some(holder), Some(renewed.as_secs())),
        Leader::Nobody(_) | Leader::Unknown(_) => (None, None),
    };
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let step = |Step { side, step }: &Step| json!({"side": side.to_string(), "action": step.action.to_string(), "what": step.what, "detail": step.detail});
    json!({
        "version": JSON_VERSION,
        "kind": explanation.subject.kind(),
        "namespace": explanation.subject.namespace(),
        "name": explanation.subject.name(),
        "exists": explanation.exists,
        "similar": explanation.similar,
        "provider": explanation.provider,
        "cluster": {"name": explanation.cluster.name, "id": explanation.cluster.id},
        "causes": explanation.causes.iter().map(cause).collect::<Vec<_>>(),
        "kubernetes": object(&explanation.kubernetes),
        "cloud": object(&explanation.cloud),
        "loadBalancers": explanation.balancers.iter().map(balancer).collect::<Vec<_>>(),
        "claims": explanation.claims,
        "plan": {
            "steps": explanation.plan.steps.iter().map(step).collect::<Vec<_>>(),
            "notes": explanation.plan.notes,
            "errors": explanation.plan.errors,
        },
        "lastErrors": explanation.last_errors.iter().map(|error| {
            json!({"at": time(error.at), "source": error.source, "text": error.text})
        }).collect::<Vec<_>>(),
        "events": explanation.events.iter().map(|event| json!({
            "reason": event.reason, "warning": event.is_warning, "message": event.message, "source": event.source,
            "count": event.count, "first": time(event.first), "last": time(event.last),
        })).collect::<Vec<_>>(),
        "leader": {"holder": holder, "renewedSecondsAgo": renewed, "text": leader(&explanation.leader)},
        "unknown": explanation.unknown,
        "errors": explanation.errors,
        "exitCode": explanation.outcome().code(),
    })
}

fn object(rows: &[Row]) -> Value {
    let rows = rows.iter().filter(|row| !row.values.is_empty());
    Value::Object(
        rows.map(|row| (row.name.to_owned(), json!(row.values)))
            .collect::<Map<_, _>>(),
    )
}

fn balancer(object: &LoadBalancerDescription) -> Value {
    let ownership = match &object.ownership {
        Ownership::Own => "own",
        Ownership::Twin(_) => "twin",
        Ownership::Free => "free",
        Ownership::Foreign(_) => "foreign",
    };
    let tags: Map<String, Value> = object
        .owner_tags
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let target = |target: &TargetDescription| {
        json!({
            "target": target.target,
            "node": target.node,
            "healthy": target.health.as_ref().map(|health| health.is_healthy),
            "detail": target.health.as_ref().map(|health| &health.detail),
        })
    };
    json!({
        "id": object.id,
        "name": object.name,
        "ownership": ownership,
        "state": object.state,
        "ownerTags": tags,
        "addresses": object.addresses,
        "listeners": object.listeners,
        "targets": object.targets.iter().map(target).collect::<Vec<_>>(),
        "healthError": object.health_error,
    })
}

#[cfg(test)]
mod tests;
