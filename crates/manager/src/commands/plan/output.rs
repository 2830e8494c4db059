//! The report of `plan`, as text and as JSON.

use cloud_provider::counted;
use serde_json::{Value, json};

use super::report::{Key, ObjectPlan, Outcome, Report};
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
///   "objects": [{                      objects that there is something to say of, sorted
///     "kind": "Node", "Route", "Service" or "PersistentVolume",
///     "namespace": "" or a name,
///     "name": "worker-1",
///     "steps": [{                      in the order in which they would be taken
///       "side": "kubernetes" or "cloud",
///       "action": "create", "update" or "delete",
///       "what": "label topology.kubernetes.io/zone",
///       "detail": "" or from what to what
///     }],
///     "notes": ["…"], "errors": ["…"]
///   }],
///   "notes": ["…"], "errors": ["…"],   what concerns no single object
///   "summary": {
///     "lookedAt": {"Node": 3, …},
///     "create": 1, "update": 2, "delete": 0,
///     "objects": 1,                    with at least one step
///     "errors": 0,
///     "exitCode": 0 nothing to do, 2 changes, 1 something could not be found out
///   }
/// }
/// ```
#[must_use]
pub fn json(report: &Report) -> Value {
    let totals = report.totals();
    let looked_at: serde_json::Map<String, Value> = report
        .looked_at
        .iter()
        .map(|(kind, count)| (kind.to_string(), json!(count)))
        .collect();
    json!({
        "version": JSON_VERSION,
        "provider": report.provider,
        "cluster": {"name": report.cluster.name, "id": report.cluster.id},
        "objects": report.objects.iter().map(|(key, plan)| object(key, plan)).collect::<Vec<_>>(),
        "notes": report.notes,
        "errors": report.errors,
        "summary": {
            "lookedAt": looked_at,
            "create": totals.create,
            "update": totals.update,
            "delete": totals.delete,
            "objects": totals.objects,
            "errors": totals.errors,
            "exitCode": report.outcome().code(),
        },
    })
}

fn object(key: &Key, plan: &ObjectPlan) -> Value {
    let step = |step: &super::report::Step| {
        json!({
            "side": step.side.to_string(),
            "action": step.step.action.to_string(),
            "what": step.step.what,
            "detail": step.step.detail,
        })
    };
    json!({
        "kind": key.kind.to_string(),
        "namespace": key.namespace,
        "name": key.name,
        "steps": plan.steps.iter().map(step).collect::<Vec<_>>(),
        "notes": plan.notes,
        "errors": plan.errors,
    })
}

/// Returns the report as text: each object with its steps, the notes that concern all objects, and a summary line.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = Lines::default();
    for (key, plan) in &report.objects {
        out.line(format_args!("{key}"));
        let width = plan
            .steps
            .iter()
            .map(|step| step.step.what.chars().count())
            .max()
            .unwrap_or_default();
        for step in &plan.steps {
            let action = step.step.action.to_string();
            let what = &step.step.what;
            let detail = &step.step.detail;
            out.line(format_args!(
                "  {:<10}  {action:<6}  {what:<width$}  {detail}",
                step.side
            ));
        }
        plan.notes
            .iter()
            .for_each(|note| out.line(format_args!("  note        {note}")));
        plan.errors
            .iter()
            .for_each(|error| out.line(format_args!("  error       {error}")));
        out.blank();
    }
    report
        .notes
        .iter()
        .for_each(|note| out.line(format_args!("Note: {note}")));
    report
        .errors
        .iter()
        .for_each(|error| out.line(format_args!("Error: {error}")));
    out.line(format_args!("{}", summary(report)));
    out.into_text()
}

fn summary(report: &Report) -> String {
    let totals = report.totals();
    let looked_at: Vec<String> = report
        .looked_at
        .iter()
        .map(|(kind, count)| counted(*count, &kind.to_string()))
        .collect();
    let looked_at = looked_at.join(", ");
    let errors = counted(totals.errors, "error");
    let objects = counted(totals.objects, "object");
    let changes = format!(
        "{} to create, {} to update, {} to delete, for {objects} (looked at {looked_at})",
        totals.create, totals.update, totals.delete
    );
    match report.outcome() {
        Outcome::Nothing => format!("Nothing to do: {looked_at}."),
        Outcome::Changes => format!("Plan: {changes}. Nothing was changed."),
        Outcome::Incomplete => {
            format!("Plan, incomplete because of {errors}: {changes}. Nothing was changed.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cloud_provider::{Cluster, PlanAction, PlanStep};

    use crate::commands::plan::Kind;

    fn report() -> Report {
        let mut report = Report::new(
            "acme",
            &Cluster {
                name: "kubernetes".into(),
                id: Some("u".into()),
            },
        );
        report.looked_at.insert(Kind::Node, 2);
        report.looked_at.insert(Kind::Service, 1);
        let node = report.object(Kind::Node, "", "worker-1");
        node.kubernetes(PlanAction::Update, "provider id", "acme://1");
        node.kubernetes(PlanAction::Delete, "taint x", "");
        report
            .object(Kind::Node, "", "worker-2")
            .notes
            .push("kept".into());
        report.object(Kind::Service, "shop", "web").cloud(PlanStep {
            action: PlanAction::Create,
            what: "load balancer \"a\"".into(),
            detail: "2 targets".into(),
        });
        report
    }

    #[test]
    fn people_read_objects_and_a_line_of_numbers() {
        assert_eq!(
            text(&report()),
            "\
Node worker-1
  kubernetes  update  provider id  acme://1
  kubernetes  delete  taint x

Node worker-2
  note        kept

Service shop/web
  cloud       create  load balancer \"a\"  2 targets

Plan: 1 to create, 1 to update, 1 to delete, for 2 objects (looked at 2 Nodes, 1 Service). Nothing was changed.
"
        );
        assert_eq!(report().outcome(), Outcome::Changes);
    }

    #[test]
    fn text_of_others_is_no_line_of_its_own() {
        let mut report = report();
        let hostile = "x\n\nNothing to do: 0 Services.";
        let service = report.object(Kind::Service, "shop", "web");
        service.kubernetes(PlanAction::Update, hostile, hostile);
        service.notes.push(hostile.into());
        service.errors.push(hostile.into());
        report.notes.push(hostile.into());
        report.errors.push(hostile.into());
        let text = text(&report);
        assert!(
            !text.lines().any(|line| line.starts_with("Nothing")),
            "{text}"
        );
        assert_eq!(text.matches(r"x\n\nNothing").count(), 6, "{text}");
    }

    #[test]
    fn an_error_makes_it_incomplete_and_nothing_is_nothing() {
        let mut broken = report();
        broken
            .object(Kind::Service, "shop", "api")
            .errors
            .push("the cloud did not answer".into());
        assert!(
            text(&broken).contains("Service shop/api\n  error       the cloud did not answer\n")
        );
        assert!(text(&broken).contains("Plan, incomplete because of 1 error: 1 to create"));
        assert_eq!(broken.outcome().code(), 1);
        let mut one = report();
        one.objects.retain(|key, _| key.name == "worker-1");
        assert!(
            text(&one).contains(", for 1 object (looked at 2 Nodes, 1 Service)."),
            "{}",
            text(&one)
        );
        let mut nothing = report();
        nothing.objects.clear();
        assert_eq!(text(&nothing), "Nothing to do: 2 Nodes, 1 Service.\n");
        assert_eq!(nothing.outcome().code(), 0);
    }

    #[test]
    fn programs_read_a_documented_shape() {
        let value = json(&report());
        assert_eq!(
            value["objects"][0],
            json!({"kind": "Node", "namespace": "", "name": "worker-1", "notes": [], "errors": [], "steps": [
                {"side": "kubernetes", "action": "update", "what": "provider id", "detail": "acme://1"},
                {"side": "kubernetes", "action": "delete", "what": "taint x", "detail": ""},
            ]})
        );
        assert_eq!(
            (&value["version"], &value["cluster"]),
            (&json!(1), &json!({"name": "kubernetes", "id": "u"}))
        );
        assert_eq!(
            value["summary"],
            json!({"lookedAt": {"Node": 2, "Service": 1}, "create": 1, "update": 1, "delete": 1, "objects": 2,
                "errors": 0, "exitCode": 2})
        );
    }
}
