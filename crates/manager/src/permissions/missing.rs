//! Missing permissions, and the RBAC rules that grant them.

use std::collections::BTreeSet;
use std::fmt;

use super::{Grant, Identity, Rule, Scope};

/// The order in which rules list verbs.
const VERBS: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// A missing RBAC rule. `Display` writes one line with the YAML that adds the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The rule, reduced to the permissions that are missing.
    pub rule: Rule,
    /// Reasons why the permissions are needed.
    pub reasons: Vec<&'static str>,
}

impl Missing {
    /// Returns the denied permissions as few rules as possible, in the order of `rules`.
    pub(super) fn of(rules: &[Rule], denied: &BTreeSet<Grant>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for rule in rules {
            for verb in &rule.verbs {
                let of_verb: Vec<Grant> = rule
                    .grants()
                    .filter(|grant| grant.verb == *verb && denied.contains(grant))
                    .collect();
                if of_verb.is_empty() {
                    continue;
                }
                let names: Vec<_> = of_verb
                    .into_iter()
                    .map(|grant| grant.name)
                    .filter(|name| !name.is_empty())
                    .collect();
                let part = Rule {
                    verbs: vec![*verb],
                    names,
                    ..rule.clone()
                };
                match all.iter_mut().find(|missing| is_like(&missing.rule, &part)) {
                    Some(missing) => missing.add(part),
                    None => all.push(Self {
                        reasons: vec![part.why],
                        rule: part,
                    }),
                }
            }
        }
        all
    }

    fn add(&mut self, part: Rule) {
        if !self.reasons.contains(&part.why) {
            self.reasons.push(part.why);
        }
        self.rule.verbs.extend(part.verbs);
        self.rule
            .verbs
            .sort_unstable_by_key(|verb| VERBS.iter().position(|known| known == verb));
        self.rule.verbs.dedup();
    }

    /// Returns the instruction that grants the missing permissions.
    #[must_use]
    pub fn remedy(&self) -> String {
        let rule = &self.rule;
        let role = match rule.scope {
            Scope::Cluster | Scope::NonResource => "its ClusterRole".to_owned(),
            Scope::KubeSystem | Scope::LeaseNamespace => format!("its Role in {}", rule.namespace),
        };
        let (who, text) = match rule.identity {
            Identity::Process => (String::new(), "this identity"),
            account @ Identity::Controller(_) => (format!("{account} needs it: "), "it"),
        };
        match rule.granted_by {
            Some(bootstrap) => format!(
                "{who}bind {bootstrap} to {text}, or add to {role}: {}",
                yaml_rule(rule)
            ),
            None => format!("{who}add to {role}: {}", yaml_rule(rule)),
        }
    }

    /// Returns the verbs, the resource and the object names, such as `delete nodes`.
    #[must_use]
    pub fn what(&self) -> String {
        let Rule {
            verbs,
            resource,
            names,
            ..
        } = &self.rule;
        let names: Vec<_> = names.iter().map(|name| format!(" {name:?}")).collect();
        format!("{} {resource}{}", verbs.join(", "), names.join(","))
    }
}

/// Returns `true` if two rules differ only in their verbs and reasons.
fn is_like(a: &Rule, b: &Rule) -> bool {
    let place = |rule: &Rule| (rule.identity, rule.scope, rule.group, rule.resource);
    let weight = |rule: &Rule| (rule.vital, rule.optional);
    place(a) == place(b)
        && weight(a) == weight(b)
        && a.namespace == b.namespace
        && a.names == b.names
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; {}",
            self.what(),
            self.reasons.join("; "),
            self.remedy()
        )
    }
}

/// Returns a rule as an item of a Role's `rules`, on one line.
///
/// ```
/// use manager::permissions::{Features, needed, yaml_rule};
///
/// let rules = needed(&Features::default());
/// assert_eq!(yaml_rule(&rules[0]), "- {apiGroups: [\"\"], resources: [nodes], verbs: [list, watch]}");
/// ```
#[must_use]
pub fn yaml_rule(rule: &Rule) -> String {
    let verbs = rule.verbs.join(", ");
    if rule.scope == Scope::NonResource {
        return format!(
            "- {{nonResourceURLs: [{}], verbs: [{verbs}]}}",
            rule.resource
        );
    }
    let group = if rule.group.is_empty() {
        "\"\""
    } else {
        rule.group
    };
    let names = if rule.names.is_empty() {
        String::new()
    } else {
        format!("resourceNames: [{}], ", rule.names.join(", "))
    };
    format!(
        "- {{apiGroups: [{group}], resources: [{}], {names}verbs: [{verbs}]}}",
        rule.resource
    )
}
