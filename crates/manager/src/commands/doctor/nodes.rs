//! Nodes without an instance in the cloud, and Nodes that are not initialized.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::names::{NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, TAINT_UNINITIALIZED};
use cloud_provider::{
    CloudProvider, ConditionStatus, Finding, InstanceState, LookupRequest, NO_INSTANCES, Node,
    Result, counted,
};
use controllers::look_up::look_up;
use controllers::node_identity::{
    NodeIdentity, REMEDY_ALL_FOREIGN, REMEDY_MISSING, all_are_foreign,
};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::Subject;
use super::report::Findings;
use crate::commands::list;
use crate::commands::seconds;

/// Age from which an uninitialized Node is reported (DEP-95).
const LONG: Duration = Duration::from_secs(5 * 60);
/// Number of lookups that makes a provider list all servers, unless the list has very many pages; then there are enough
/// Nodes.
const WORTH_A_LIST: usize = 12;
/// Maximum number of findings of one kind; further ones are only counted.
pub(super) const SHOWN: usize = 10;
/// Maximum number of Node names in a finding about several Nodes.
const NAMED: usize = 3;

/// Checks the Nodes. `has_failed` is `true` if a check of the cloud failed before.
pub(super) async fn check(
    subject: &Subject<'_>,
    client: &Client,
    now: Timestamp,
    has_failed: bool,
    report: &mut Findings<'_>,
) {
    let wanted = [NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER]
        .into_iter()
        .any(|names| subject.settings.wants(names));
    let Ok(provider) = &subject.provider else {
        return;
    };
    if !wanted || provider.instances().is_none() {
        return;
    }
    let all = match list::<Node>(client).await {
        Ok(nodes) => nodes,
        Err(error) => {
            report.add(Finding::failure(
                "nodes",
                error,
                "see the permissions above",
            ));
            return;
        }
    };
    let count = all.len();
    let nodes: Vec<_> = all
        .iter()
        .filter(|node| !node.terminating && provider.owns_node(node))
        .cloned()
        .map(Arc::new)
        .collect();
    let mut answers = look_up(
        &**provider,
        &nodes,
        LookupRequest::EXISTENCE.and_shutdown().fresh(),
        NO_INSTANCES,
    )
    .await;
    find_closest_names(&**provider, &nodes, &mut answers).await;
    let mut findings = unanswered(&nodes, &answers, has_failed);
    findings.extend(without_id(subject, &**provider, &nodes));
    if all_are_foreign(&**provider, &all) {
        let example = all
            .first()
            .map(|node| &*node.provider_id)
            .unwrap_or_default();
        let text = format!(
            "all {count} Nodes have the provider ID of another cloud, such as {example:?}, so they are left alone and are no \
             targets of load balancers"
        );
        findings.push(Finding::warning("nodes", text, REMEDY_ALL_FOREIGN));
    }
    findings.extend(
        nodes
            .iter()
            .zip(&answers)
            .filter_map(|(node, answer)| judge(node, answer.as_ref().ok()?, now)),
    );
    if findings.is_empty() {
        let waiting = nodes.iter().filter(|node| node.is_uninitialized()).count();
        report.add(Finding::ok(
            "nodes",
            all_well(nodes.len(), waiting, count - nodes.len()),
        ));
    }
    add_some(findings, "Node", report);
}

/// Returns the text about Nodes that have no problem: `own` are this provider's, of which `waiting` are not initialized
/// yet, and `others` are left alone.
fn all_well(own_count: usize, waiting: usize, others: usize) -> String {
    let all = own_count + others;
    let initialized = own_count - waiting;
    let parts = [
        (own_count > 0).then(|| format!("{initialized} of {all} have a machine and are initialised")),
        (waiting > 0).then(|| {
            format!("{waiting} of {all} have a machine and are not initialised yet (taint {TAINT_UNINITIALIZED})")
        }),
        (others > 0).then(|| format!("{others} of {all} belong to another provider, or are being deleted")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "the cluster has no Nodes".to_owned()
    } else {
        parts.join("; ")
    }
}

/// Returns one finding for all Nodes without a provider ID that no controller initializes (P-8).
fn without_id(
    subject: &Subject<'_>,
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
) -> Option<Finding> {
    if subject.settings.options.node.adopt && subject.settings.wants(NODE_CONTROLLER) {
        return None;
    }
    let is_missing = |node: &&Arc<Node>| NodeIdentity::of(provider, node) == NodeIdentity::Missing;
    let names: Vec<&str> = nodes
        .iter()
        .filter(is_missing)
        .map(|node| &*node.name)
        .collect();
    let text = format!(
        "{}: neither a provider ID nor the taint {TAINT_UNINITIALIZED}, so nobody initialises the Node, and it is no target of \
         load balancers",
        whose(&names)
    );
    (!names.is_empty()).then(|| Finding::warning("nodes", text, REMEDY_MISSING))
}

/// Returns the names of Nodes in a finding.
fn whose(names: &[&str]) -> String {
    match names.split_at_checked(NAMED) {
        Some((some, more)) if !more.is_empty() => {
            format!("{} and {} more", some.join(", "), more.len())
        }
        _ => names.join(", "),
    }
}

/// Repeats lookups of Nodes without an instance until the provider has listed all machines, because only that list
/// tells which names are similar. A provider lists all machines when single reads would cost more requests: with few
/// Nodes, one unmatched Node is looked up often enough to cause the list, then all unmatched Nodes are looked up again
/// at no further cost.
async fn find_closest_names(
    provider: &dyn CloudProvider,
    nodes: &[Arc<Node>],
    answers: &mut [Result<InstanceState>],
) {
    let unmatched: Vec<usize> = (0..nodes.len())
        .filter(|index| {
            matches!(answers[*index], Ok(InstanceState::Gone(_)))
                && nodes[*index].provider_id().is_none()
        })
        .collect();
    let Some(first) = unmatched.first() else {
        return;
    };
    let often = vec![Arc::clone(&nodes[*first]); WORTH_A_LIST];
    look_up(
        provider,
        &often,
        LookupRequest::EXISTENCE.fresh(),
        NO_INSTANCES,
    )
    .await;
    let again: Vec<_> = unmatched
        .iter()
        .map(|index| Arc::clone(&nodes[*index]))
        .collect();
    let better = look_up(
        provider,
        &again,
        LookupRequest::EXISTENCE.fresh(),
        NO_INSTANCES,
    )
    .await;
    for (index, answer) in unmatched.into_iter().zip(better) {
        answers[index] = answer;
    }
}

/// Returns findings for Nodes that the cloud did not answer for, one for all Nodes with the same error.
fn unanswered(
    nodes: &[Arc<Node>],
    answers: &[Result<InstanceState>],
    has_failed: bool,
) -> Vec<Finding> {
    let mut by_error = BTreeMap::<(bool, String), Vec<&str>>::new();
    for (node, answer) in nodes.iter().zip(answers) {
        if let Err(error) = answer {
            let silence = error.is_unanswered();
            // The cloud's own checks report why the cloud does not answer.
            let text = if silence && has_failed {
                String::new()
            } else {
                error.to_string()
            };
            by_error
                .entry((silence, text))
                .or_default()
                .push(&node.name);
        }
    }
    let finding = |((silence, error), names): ((bool, String), Vec<&str>)| {
        let whose = whose(&names);
        let remedy = match has_failed {
            true => "see the cloud's findings above",
            false => "remove the cause that the error names, and run doctor again",
        };
        match silence {
            true if has_failed => Finding::warning(
                "nodes",
                format!("{whose}: not checked, because the cloud does not answer"),
                remedy,
            ),
            true => Finding::failure(
                "nodes",
                format!("{whose}: the lookup in the cloud failed: {error}"),
                remedy,
            ),
            false => Finding::failure("nodes", format!("{whose}: {error}"), remedy),
        }
    };
    by_error.into_iter().map(finding).collect()
}

/// Returns the problem of a Node; `None` if the Node has no problem.
fn judge(node: &Node, state: &InstanceState, now: Timestamp) -> Option<Finding> {
    let name = &*node.name;
    let age = node
        .created
        .map(|created| Duration::try_from(now.duration_since(created)).unwrap_or_default());
    match state {
        InstanceState::Gone(gone) if node.provider_id().is_none() => Some(Finding::failure(
            "nodes",
            format!("{name} matches no machine: {}", gone.reason()),
            "make the kubelet's --hostname-override and the machine's name the same, or set the kubelet's --provider-id; \
             check that the credential is for the project that the machine is in",
        )),
        InstanceState::Gone(gone) => Some(Finding::warning(
            "nodes",
            format!("{name}: {}", gone.reason()),
            "if the machine is really gone, the manager removes the Node once it is not ready; if not, check the credential's \
             project",
        )),
        InstanceState::Present { .. } if node.is_uninitialized() => age.filter(|age| *age > LONG).map(|age| {
            Finding::warning(
                "nodes",
                format!(
                    "{name} has a machine, but waits for its initialisation for {} (taint {TAINT_UNINITIALIZED})",
                    seconds(age)
                ),
                "check that a manager leads (lease) and runs cloud-node-controller, and read the Node's events",
            )
        }),
        InstanceState::Present { shutdown: Some(true), .. } => Some(Finding::warning(
            "nodes",
            format!("{name}: the cloud reports its instance as shut down"),
            "start the instance, or delete it and the Node if it is not needed any more",
        )),
        InstanceState::Present { .. } if node.ready != ConditionStatus::True => Some(Finding::warning(
            "nodes",
            format!("{name} is not ready although the cloud has its instance"),
            "look at the kubelet and the network of that machine: kubectl describe node shows the condition",
        )),
        InstanceState::Present { .. } => None,
    }
}

/// Adds the worst findings, and a line with the number of those left out.
pub(super) fn add_some(mut findings: Vec<Finding>, noun: &str, report: &mut Findings<'_>) {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let more = findings.len().saturating_sub(SHOWN);
    let check = findings
        .first()
        .map(|finding| finding.check.clone())
        .unwrap_or_default();
    let severity = findings.get(SHOWN).map(|finding| finding.severity);
    findings.truncate(SHOWN);
    report.extend(findings);
    if let Some(severity) = severity {
        let has = if more == 1 { "has" } else { "have" };
        let rest = Finding::warning(
            check,
            format!("{} {has} problems", counted(more, &format!("more {noun}"))),
            "fix these first",
        );
        report.add(Finding { severity, ..rest });
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::{Error, Gone, Severity, Taint};

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn node(minutes_old: i64, uninitialized: bool, provider_id: &str) -> Node {
        let created = NOW.parse::<Timestamp>().unwrap()
            - k8s_openapi::jiff::SignedDuration::from_mins(minutes_old);
        let taint = Taint::new(TAINT_UNINITIALIZED, "NoSchedule");
        Node {
            name: "worker-1".into(),
            created: Some(created),
            provider_id: provider_id.into(),
            ready: ConditionStatus::True,
            taints: if uninitialized {
                [taint].into()
            } else {
                [].into()
            },
            ..Node::default()
        }
    }

    fn severity(node: &Node, state: &InstanceState) -> Option<Severity> {
        judge(node, state, NOW.parse().unwrap()).map(|finding| finding.severity)
    }

    #[test]
    fn node_without_a_machine_fails_and_one_that_waits_long_warns() {
        let present = InstanceState::Present {
            shutdown: None,
            metadata: None,
        };
        let gone =
            InstanceState::Gone(Gone::no_such_name("worker-1").with_hint("closest: \"worker-01\""));
        let shut_down = InstanceState::Present {
            shutdown: Some(true),
            metadata: None,
        };
        let not_ready = Node {
            ready: ConditionStatus::Unknown,
            ..node(60, false, "x://1")
        };
        assert_eq!(severity(&node(60, false, "x://1"), &present), None);
        assert_eq!(severity(&not_ready, &present), Some(Severity::Warning));
        assert_eq!(severity(&not_ready, &shut_down), Some(Severity::Warning));
        assert_eq!(severity(&node(4, true, ""), &present), None);
        assert_eq!(
            severity(&node(6, true, ""), &present),
            Some(Severity::Warning)
        );
        assert_eq!(severity(&node(1, true, ""), &gone), Some(Severity::Failure));
        assert_eq!(
            severity(&node(1, false, "x://1"), &gone),
            Some(Severity::Warning)
        );
        let text = judge(&node(1, true, ""), &gone, NOW.parse().unwrap())
            .unwrap()
            .text;
        assert!(text.contains("closest: \"worker-01\""), "{text}");
    }

    #[test]
    fn nodes_are_counted_once_by_what_becomes_of_them() {
        let table = [
            ((0, 0, 0), "the cluster has no Nodes"),
            ((5, 0, 0), "5 of 5 have a machine and are initialised"),
            (
                (0, 0, 5),
                "5 of 5 belong to another provider, or are being deleted",
            ),
            (
                (3, 0, 2),
                "3 of 5 have a machine and are initialised; 2 of 5 belong to another provider, or are being deleted",
            ),
            (
                (2, 2, 0),
                "0 of 2 have a machine and are initialised; 2 of 2 have a machine and are not initialised yet (taint \
                 node.cloudprovider.kubernetes.io/uninitialized)",
            ),
        ];
        for ((own, waiting, others), expected) in table {
            assert_eq!(all_well(own, waiting, others), expected);
        }
    }

    #[test]
    fn findings_of_the_cloud_are_cited_only_if_one_of_them_failed() {
        let nodes = [Arc::new(node(60, false, ""))];
        let answers = [Err(Error::other("503"))];
        let remedy = |has_failed| {
            unanswered(&nodes, &answers, has_failed)[0]
                .remedy
                .clone()
                .unwrap()
        };
        assert_eq!(remedy(true), "see the cloud's findings above");
        assert!(!remedy(false).contains("above"), "{}", remedy(false));
    }

    #[test]
    fn nodes_that_the_same_error_hides_are_one_finding() {
        let named = |name: &str| {
            Arc::new(Node {
                name: name.into(),
                ..node(60, false, "")
            })
        };
        let nodes: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().map(named).collect();
        let fails = |text: &str| Err(Error::other(text.to_owned()));
        let silent = || Err(Error::unanswered("GET / was not answered: timed out"));
        let present = Ok(InstanceState::Present {
            shutdown: None,
            metadata: None,
        });
        let answers = [fails("503"), fails("503"), silent(), present, fails("503")];
        let told = |answers: &[Result<InstanceState>], has_failed| -> Vec<_> {
            unanswered(&nodes, answers, has_failed)
                .into_iter()
                .map(|finding| (finding.severity, finding.text))
                .collect()
        };
        let lost =
            "c: the lookup in the cloud failed: GET / was not answered: timed out".to_owned();
        let failed = (Severity::Failure, "a, b, e: 503".to_owned());
        assert_eq!(
            told(&answers, false),
            [failed.clone(), (Severity::Failure, lost)]
        );
        let unchecked = "c: not checked, because the cloud does not answer".to_owned();
        assert_eq!(
            told(&answers, true),
            [failed, (Severity::Warning, unchecked)]
        );
        let all = [0; 5].map(|_| fails("503"));
        assert_eq!(
            told(&all, false),
            [(Severity::Failure, "a, b, c and 2 more: 503".to_owned())]
        );
    }

    #[test]
    fn worst_findings_are_shown_and_the_rest_is_counted() {
        let mut ignore = |_: &Finding| ();
        let mut report = Findings::new(&mut ignore);
        let mut findings: Vec<_> = (0..12)
            .map(|n| Finding::warning("nodes", format!("w{n}"), ""))
            .collect();
        findings.push(Finding::failure("nodes", "the one", ""));
        add_some(findings, "Node", &mut report);
        let report = report.into_report();
        assert_eq!(report.findings.len(), SHOWN + 1);
        assert_eq!(report.findings[0].text, "the one");
        assert_eq!(report.findings[SHOWN].text, "3 more Nodes have problems");
    }
}
