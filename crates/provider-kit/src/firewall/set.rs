//! A set of rules that several owners change: as it was read and as it is to be, and its text form.

use std::collections::BTreeSet;

use cloud_provider::Result;

use super::{Rule, normalized};

/// Separator of a rule's text and its owner.
const BY: &str = " by ";

/// Rules of a security group or firewall that several owners share: as they were read, and as they are to be. A rule
/// that somebody else has written counts for everybody who wants the same traffic.
///
/// ```
/// use provider_kit::firewall::{Rule, RuleSet};
///
/// let rule = |text: &str| text.parse::<Rule>();
/// let (mine, theirs) = (rule("ingress IPv4 tcp 80 0.0.0.0/0")?.owned_by("web"), rule("ingress IPv4 tcp 22 10.0.0.0/8")?);
/// let mut set = RuleSet::of([mine.clone(), theirs.clone()]);
/// set.replace(&[rule("ingress IPv4 tcp 443 0.0.0.0/0")?.owned_by("web")], |rule| rule.owner.as_deref() == Some("web"));
/// assert_eq!(set.removed(), [&mine]);
/// assert_eq!(set.added()[0].ports.first, 443);
/// assert!(set.iter().any(|rule| *rule == theirs));
/// # Ok::<(), provider_kit::firewall::RuleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    before: BTreeSet<Rule>,
    rules: BTreeSet<Rule>,
}

impl RuleSet {
    /// Returns a set as it was read.
    #[must_use]
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        let before: BTreeSet<_> = rules.into_iter().collect();
        Self {
            rules: before.clone(),
            before,
        }
    }

    /// Returns the rules as they are to be.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Replaces the rules for which `is_own` holds. A rule that is there already stays as it is.
    pub fn replace(&mut self, wanted: &[Rule], is_own: impl Fn(&Rule) -> bool) {
        self.rules.retain(|rule| {
            !is_own(rule) || wanted.iter().any(|other_rule| other_rule.admits_same(rule))
        });
        let is_new = |rule: &&Rule| {
            !self
                .rules
                .iter()
                .any(|other_rule| other_rule.admits_same(rule))
        };
        let new: Vec<Rule> = wanted.iter().filter(is_new).cloned().collect();
        self.rules.extend(new);
    }

    /// Returns the rules that the cloud lacks.
    #[must_use]
    pub fn added(&self) -> Vec<&Rule> {
        self.rules.difference(&self.before).collect()
    }

    /// Returns the rules that go.
    #[must_use]
    pub fn removed(&self) -> Vec<&Rule> {
        self.before.difference(&self.rules).collect()
    }

    /// Writes the changes: what is new is admitted first, so that no wanted traffic is refused in between. In a set that is
    /// at its limit, rules are removed first.
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn write<A, R>(
        &self,
        admit: impl Fn(Vec<Rule>) -> A,
        remove: impl Fn(Vec<Rule>) -> R,
    ) -> Result<()>
    where
        A: Future<Output = Result<()>>,
        R: Future<Output = Result<()>>,
    {
        let owned = |rules: Vec<&Rule>| rules.into_iter().cloned().collect::<Vec<_>>();
        let new = owned(self.added());
        let old = owned(self.removed());
        match admit(new.clone()).await {
            Err(error) if error.is_quota() && !old.is_empty() => {
                remove(old).await?;
                admit(new).await
            }
            Err(error) => Err(error),
            Ok(()) => remove(old).await,
        }
    }
}

/// Returns rules as texts that can be compared, sorted, with their owners: adjacent ports are one range.
#[must_use]
pub fn texts<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Vec<String> {
    let rules: Vec<Rule> = rules.into_iter().cloned().collect();
    let text = |rule: &Rule| match &rule.owner {
        Some(owner) => format!("{rule}{BY}{owner}"),
        None => rule.to_string(),
    };
    normalized(&rules)
        .iter()
        .map(text)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Returns the rules of such [`texts`]; a text that is no rule is left out.
///
/// ```
/// use provider_kit::firewall::{of_texts, texts};
///
/// let all = ["ingress IPv4 tcp 80-81 10.0.0.0/8 by web", "ingress IPv4 udp 53 0.0.0.0/0"];
/// assert_eq!(texts(&of_texts(all)), all);
/// ```
pub fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Rule> {
    let read = |text: &str| match text.split_once(BY) {
        Some((rule, owner)) => rule.parse().ok().map(|rule: Rule| rule.owned_by(owner)),
        None => text.parse().ok(),
    };
    texts.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use cloud_provider::Error;

    use super::*;

    async fn written(is_full: bool) -> Vec<&'static str> {
        let [old, new] = ["tcp 80", "tcp 81"].map(|text| {
            format!("ingress IPv4 {text} 10.0.0.0/8")
                .parse::<Rule>()
                .unwrap()
        });
        let mut set = RuleSet::of([old]);
        set.replace(&[new], |_| true);
        let log = RefCell::new(Vec::new());
        let tries = RefCell::new(0);
        let admit = |_| async {
            log.borrow_mut().push("admit");
            let tried = tries.replace_with(|tries| *tries + 1);
            if is_full && tried == 0 {
                Err(Error::quota("full"))
            } else {
                Ok(())
            }
        };
        let remove = |_| async {
            log.borrow_mut().push("remove");
            Ok(())
        };
        set.write(admit, remove).await.unwrap();
        log.into_inner()
    }

    #[tokio::test]
    async fn rules_are_admitted_before_others_go_unless_the_set_is_full() {
        assert_eq!(written(false).await, ["admit", "remove"]);
        assert_eq!(written(true).await, ["admit", "remove", "admit"]);
    }

    #[test]
    fn rule_that_somebody_else_has_written_is_not_written_again() {
        let theirs = of_texts(["ingress IPv4 any any group sg-1 by terraform"]);
        let mut set = RuleSet::of(theirs.clone());
        set.replace(&of_texts(["ingress IPv4 any any group sg-1"]), |rule| {
            rule.owner.is_none()
        });
        assert_eq!((set.added(), set.removed()), (Vec::new(), Vec::new()));
        assert!(set.iter().eq(&theirs));
    }
}
