//! The log line of a change in the cloud, the same for all clouds.

use std::time::Duration;

use cloud_provider::{Service, excerpt};

use super::change::Step;
use super::model::{ObservedLoadBalancer, Shared};
use super::plan::{Operation, steps};

/// Logs a change of a Service's load balancer. `before` is the load balancer before the change; `step` tells how many
/// of the planned `operations` were carried out.
pub(super) fn log_change(
    service: &Service,
    before: Option<&ObservedLoadBalancer>,
    step: &Step<Shared>,
    operations: &[Operation],
    took: Duration,
) {
    let (done, after) = match step {
        Step::Done(count, after) => (
            &operations[..(*count).min(operations.len())],
            Some(&**after),
        ),
        Step::PlanAgain(after) => (operations, Some(&**after)),
        Step::Gone | Step::Removed | Step::ReadAgain => (operations, None),
        Step::Protected => return,
    };
    let Some(shown) = after.or(before) else {
        return;
    };
    let metadata = &service.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let service = format!(
        "{namespace}/{}",
        metadata.name.as_deref().unwrap_or_default()
    );
    tracing::info!(
        service,
        id = shown.id,
        name = shown.shown_name(),
        changes = changes(done, shown.shown_name()),
        took = ?Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        "{}",
        event(before.is_some(), after.is_some())
    );
}

fn event(was_there: bool, is_there: bool) -> &'static str {
    match (was_there, is_there) {
        (false, _) => "load balancer created",
        (true, true) => "load balancer changed",
        (true, false) => "load balancer deleted",
    }
}

/// Returns the steps as text for people, cut so that a thousand listeners do not make a line of a megabyte.
fn changes(operations: &[Operation], name: &str) -> String {
    let steps: Vec<_> = steps(operations, name)
        .steps
        .iter()
        .map(ToString::to_string)
        .collect();
    excerpt(steps.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancers::{ResourceKey, Targets};

    #[test]
    fn log_line_names_the_event_and_each_change() {
        assert_eq!(event(false, true), "load balancer created");
        assert_eq!(event(true, true), "load balancer changed");
        assert_eq!(event(true, false), "load balancer deleted");
        let targets: Targets = ["m-1", "m-2"].into_iter().collect();
        let operations = [
            Operation::AddTargets {
                pool: "main".into(),
                targets,
            },
            Operation::Delete {
                resource: ResourceKey::Balancer,
            },
        ];
        let text = changes(&operations, "web");
        assert!(
            text.contains("m-1") && text.contains("; delete load balancer"),
            "{text}"
        );
        let listeners: Vec<_> = (0..1000)
            .map(|n| Operation::Delete {
                resource: ResourceKey::Pool(format!("pool-{n}")),
            })
            .collect();
        assert!(changes(&listeners, "web").len() < 1100);
    }
}
