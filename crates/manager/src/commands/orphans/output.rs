//! The report of `orphans`, as text and as JSON.

use cloud_provider::{OwnedResource, Owner, counted};
use serde_json::{Map, Value, json};

use super::judge::age;
use super::report::{Orphan, OrphanReport, OrphanState};
use crate::commands::seconds;
use crate::output::Lines;

/// Version of the JSON form. The version increases when a field is removed or changes its meaning, not when a field is
/// added.
pub const JSON_VERSION: u32 = 1;

/// Returns the report as one JSON object:
///
/// ```text
/// {
///   "version": 1,
///   "provider": "simulated",
///   "cluster": {"name": "kubernetes", "id": "4f2c…" or null},
///   "orphans": [{
///     "kind": "load balancer" or "route",
///     "id": "lb-7", "name": "a0b1…",
///     "owner": {"kind": "Service", "uid": "0b1c…", "name": "shop/web" or null} or
///              {"kind": "Node", "podCIDR": "10.244.7.0/24"} or null,
///     "created": "2026-01-01T00:00:00Z" or null, "ageSeconds": 86400 or null,
///     "addresses": ["203.0.113.9"], "facts": {"type": "lb11", …}, "auxiliaries": ["security group …"],
///     "state": "deletable", "kept", "deleted", "released", "not found", "failed" or "not tried",
///     "reason": "…" or null           why it is kept, or could not be deleted
///   }],
///   "notes": ["…"], "errors": ["…"],
///   "summary": {"found": 2, "deletable": 0, "kept": 1, "removed": 1, "failed": 0, "exitCode": 2}
/// }
/// ```
#[must_use]
pub fn json(report: &OrphanReport) -> Value {
    let Counts {
        deletable,
        kept,
        removed,
        failed,
    } = Counts::of(report);
    json!({
        "version": JSON_VERSION,
        "provider": report.provider,
        "cluster": {"name": report.cluster.name, "id": report.cluster.id},
        "orphans": report.orphans.iter().map(|orphan| object(report, orphan)).collect::<Vec<_>>(),
        "notes": report.notes,
        "errors": report.errors,
        "summary": {
            "found": report.orphans.len(), "deletable": deletable, "kept": kept, "removed": removed, "failed": failed,
            "exitCode": report.exit_code(),
        },
    })
}

fn object(report: &OrphanReport, Orphan { resource, state }: &Orphan) -> Value {
    let owner = match &resource.owner {
        Owner::Unnamed => Value::Null,
        Owner::Service(uid) => json!({"kind": "Service", "uid": uid, "name": resource.owner_name}),
        Owner::PodCidr(cidr) => json!({"kind": "Node", "podCIDR": cidr}),
    };
    let (name, id) = resource
        .cloud_name_and_id
        .as_ref()
        .map_or((&resource.name, &resource.id), |(name, id)| (name, id));
    let facts: Map<String, Value> = resource
        .details
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    let (state, reason) = words(state);
    json!({
        "kind": resource.kind, "id": id, "name": name, "owner": owner,
        "created": resource.created.map(|time| time.to_string()),
        "ageSeconds": resource.created.map(|time| age(time, report.time).as_secs()),
        "addresses": resource.addresses, "facts": facts, "auxiliaries": resource.auxiliaries,
        "state": state, "reason": reason,
    })
}

fn words(state: &OrphanState) -> (&'static str, Option<&str>) {
    match state {
        OrphanState::Deletable => ("deletable", None),
        OrphanState::Kept(reason) => ("kept", Some(reason)),
        OrphanState::Deleted => ("deleted", None),
        OrphanState::Released => ("released", None),
        OrphanState::NotFound => ("not found", None),
        OrphanState::Failed(error) => ("failed", Some(error)),
        OrphanState::NotTried => ("not tried", None),
    }
}

struct Counts {
    deletable: usize,
    kept: usize,
    removed: usize,
    failed: usize,
}

impl Counts {
    fn of(report: &OrphanReport) -> Self {
        Self {
            deletable: report.count(|state| *state == OrphanState::Deletable),
            kept: report.count(|state| matches!(state, OrphanState::Kept(_))),
            removed: report.count(OrphanState::is_over),
            failed: report
                .count(|state| matches!(state, OrphanState::Failed(_) | OrphanState::NotTried)),
        }
    }
}

/// Returns the report as text: each orphan with its facts, then notes, errors and totals.
#[must_use]
pub fn text(report: &OrphanReport) -> String {
    let mut text = Lines::default();
    for orphan in &report.orphans {
        list_one(&mut text, report, orphan);
    }
    for note in &report.notes {
        text.line(format_args!("Note: {note}"));
    }
    for error in &report.errors {
        text.line(format_args!("Error: {error}"));
    }
    let Counts {
        deletable, kept, ..
    } = Counts::of(report);
    let cluster = &report.cluster.name;
    let provider = &report.provider;
    match report.orphans.len() {
        0 if !report.errors.is_empty() => text.line(format_args!("The list is not complete.")),
        0 => text.line(format_args!("No orphans of cluster {cluster:?} in cloud {provider:?}.")),
        found => text.line(format_args!(
            "{} of cluster {cluster:?} in cloud {provider:?}: {deletable} can be deleted, {kept} kept.",
            counted(found, "orphan")
        )),
    }
    text.into_text()
}

fn list_one(text: &mut Lines, report: &OrphanReport, Orphan { resource, state }: &Orphan) {
    let what = match state {
        OrphanState::Deletable if resource.is_adopted => {
            "can be released: it was adopted, and loses its owner tags".to_owned()
        }
        OrphanState::Deletable => "can be deleted".to_owned(),
        OrphanState::Kept(reason) => format!("kept: {reason}"),
        other => ended(other),
    };
    text.line(format_args!("{resource}: {what}"));
    let mut line = |name: &str, value: &str| text.line(format_args!("  {name:<18}{value}"));
    line("owner", &owner(resource));
    if let Some(created) = resource.created {
        line(
            "created",
            &format!("{created}, {} ago", seconds(age(created, report.time))),
        );
    }
    for (name, value) in &resource.details {
        line(name, value);
    }
    if !resource.addresses.is_empty() {
        line("addresses", &resource.addresses.join(", "));
    }
    if !resource.auxiliaries.is_empty() {
        line("auxiliaries", &resource.auxiliaries.join(", "));
    }
    text.blank();
}

fn owner(resource: &OwnedResource) -> String {
    match (&resource.owner, &resource.owner_name) {
        (Owner::Unnamed, _) => "not named in the owner tags".to_owned(),
        (Owner::Service(uid), Some(name)) => {
            format!("Service {name} with UID {uid}, which no longer exists")
        }
        (Owner::Service(uid), None) => format!("Service with UID {uid}, which no longer exists"),
        (Owner::PodCidr(cidr), _) => format!("Node with Pod CIDR {cidr}, which no longer exists"),
    }
}

/// Returns the result for an orphan, in words.
pub(super) fn ended(state: &OrphanState) -> String {
    match state {
        OrphanState::Deletable => "not deleted".to_owned(),
        OrphanState::Kept(reason) => format!("kept: {reason}"),
        OrphanState::Deleted => "deleted".to_owned(),
        OrphanState::Released => "released: its owner tags are removed".to_owned(),
        OrphanState::NotFound => "already deleted".to_owned(),
        OrphanState::Failed(error) => format!("not deleted: {error}"),
        OrphanState::NotTried => "not deleted: the run ended earlier".to_owned(),
    }
}

/// Returns the summary line after a deletion.
pub(super) fn totals(report: &OrphanReport) -> String {
    let Counts {
        deletable,
        kept,
        removed,
        failed,
    } = Counts::of(report);
    format!(
        "{removed} of {} removed, {kept} kept, {} not deleted.\n",
        counted(report.orphans.len(), "orphan"),
        failed + deletable
    )
}
