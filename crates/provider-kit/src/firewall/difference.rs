//! The normal form of a set of rules, and the difference between two sets.

use super::rule::{Ports, Rule};

/// Returns the fewest rules that admit the same traffic: overlapping and adjacent ports become one range, and a rule
/// that another rule contains is left out. Rules of different owners are not merged.
///
/// ```
/// use provider_kit::firewall::{Rule, normalized};
///
/// let rules = ["ingress IPv4 tcp 80 10.0.0.0/8", "ingress IPv4 tcp 81-90 10.0.0.0/8", "ingress IPv4 tcp 85 10.1.0.0/16"];
/// let rules: Vec<Rule> = rules.iter().map(|it| it.parse()).collect::<Result<_, _>>()?;
/// let texts: Vec<String> = normalized(&rules).iter().map(ToString::to_string).collect();
/// assert_eq!(texts, ["ingress IPv4 tcp 80-90 10.0.0.0/8"]);
/// # Ok::<(), provider_kit::firewall::RuleError>(())
/// ```
#[must_use]
pub fn normalized(rules: &[Rule]) -> Vec<Rule> {
    let mut sorted: Vec<Rule> = rules.to_vec();
    sorted.sort_by(|a, b| order(a).cmp(&order(b)));
    let mut merged: Vec<Rule> = Vec::new();
    for rule in sorted {
        match merged.last_mut() {
            Some(last)
                if group(last) == group(&rule)
                    && rule.ports.first <= last.ports.last.saturating_add(1) =>
            {
                last.ports.last = last.ports.last.max(rule.ports.last);
            }
            _ => merged.push(rule),
        }
    }
    let is_redundant = |at: usize| {
        let contains = |(other, rule): (usize, &Rule)| {
            other != at && rule.owner == merged[at].owner && rule.contains(&merged[at])
        };
        merged.iter().enumerate().any(contains)
    };
    (0..merged.len())
        .filter(|at| !is_redundant(*at))
        .map(|at| merged[at].clone())
        .collect()
}

type Group<'a> = (
    &'a Option<String>,
    super::Direction,
    super::Family,
    &'a super::Protocol,
    &'a super::Peer,
);

fn group(rule: &Rule) -> Group<'_> {
    (
        &rule.owner,
        rule.direction,
        rule.family,
        &rule.protocol,
        &rule.peer,
    )
}

fn order(rule: &Rule) -> (Group<'_>, Ports) {
    (group(rule), rule.ports)
}

/// The rules to add and to remove. Add first, then remove: in between, more traffic is admitted than desired, and never
/// less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a, I> {
    /// Desired rules that the present ones do not cover.
    pub add: Vec<&'a Rule>,
    /// IDs of present rules that admit traffic that is not desired, or that other rules make superfluous.
    pub remove: Vec<&'a I>,
}

impl<I> Difference<'_, I> {
    /// Returns `true` if both sets admit the same traffic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Compares the rules of one owner. Present rules of other owners are ignored.
///
/// ```
/// use provider_kit::firewall::{Rule, difference};
///
/// let rule = |text: &str| text.parse::<Rule>();
/// let wanted = [rule("ingress IPv4 tcp 80 10.0.0.0/8")?, rule("ingress IPv4 tcp 443 10.0.0.0/8")?];
/// let present = [("r1", wanted[0].clone()), ("r2", rule("ingress IPv4 udp 53 10.0.0.0/8")?), ("r3", wanted[0].clone())];
/// let difference = difference(None, &wanted, &present);
/// assert_eq!((difference.add, difference.remove), (vec![&wanted[1]], vec![&"r2", &"r3"]));
/// # Ok::<(), provider_kit::firewall::RuleError>(())
/// ```
#[must_use]
pub fn difference<'a, I>(
    owner: Option<&str>,
    wanted: &'a [Rule],
    present: &'a [(I, Rule)],
) -> Difference<'a, I> {
    let is_own = |rule: &Rule| rule.owner.as_deref() == owner;
    let own_rules = present.iter().filter(|(_, rule)| is_own(rule));
    let wanted: Vec<&Rule> = wanted.iter().filter(|rule| is_own(rule)).collect();
    let allowed = normalized_of(&wanted);
    let (mut kept, surplus): (Vec<_>, Vec<_>) =
        own_rules.partition(|(_, rule)| is_covered(rule, &allowed));
    let mut add: Vec<&Rule> = Vec::new();
    let covered = normalized_of(&kept.iter().map(|(_, rule)| rule).collect::<Vec<_>>());
    for (at, rule) in wanted.iter().enumerate() {
        let is_left_to_another = |(other, other_rule): (usize, &&Rule)| {
            other_rule.contains(rule) && (other < at || !rule.contains(other_rule))
        };
        if !is_covered(rule, &covered) && !wanted.iter().enumerate().any(is_left_to_another) {
            add.push(rule);
        }
    }
    // A rule that another one contains is removed if the desired traffic is still covered without it; the last ones
    // first.
    let mut superfluous: Vec<&I> = Vec::new();
    for at in (0..kept.len()).rev() {
        let rest = || {
            kept.iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, (_, rule))| rule)
        };
        let rest = || rest().chain(add.iter().copied());
        if rest().any(|other| other.contains(&kept[at].1)) {
            let rest = normalized_of(&rest().collect::<Vec<_>>());
            if wanted.iter().all(|rule| is_covered(rule, &rest)) {
                superfluous.push(&kept.remove(at).0);
            }
        }
    }
    let is_gone = |id: &&'a I| {
        surplus.iter().any(|(other, _)| std::ptr::eq(other, *id))
            || superfluous.iter().any(|other| std::ptr::eq(*other, *id))
    };
    Difference {
        add,
        remove: present.iter().map(|(id, _)| id).filter(is_gone).collect(),
    }
}

fn normalized_of(rules: &[&Rule]) -> Vec<Rule> {
    normalized(&rules.iter().map(|rule| (*rule).clone()).collect::<Vec<_>>())
}

fn is_covered(rule: &Rule, by: &[Rule]) -> bool {
    by.iter().any(|other| other.contains(rule))
}
