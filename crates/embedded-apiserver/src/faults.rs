//! Fault injection: rules that make requests fail, wait or lose their response. Rules can be changed while the server
//! runs, with [`Faults`] or over HTTP (`/_faults`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::requests::LoggedRequest;

/// Effect of a fault rule on a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// The request is not carried out and answered with an error.
    Status {
        /// Status code of the response.
        code: u16,
        /// Reason of the Status object (`TooManyRequests`).
        #[serde(default)]
        reason: String,
        /// Message of the Status object.
        #[serde(default)]
        message: String,
        /// Value of `Retry-After` in seconds.
        #[serde(
            default,
            rename = "retryAfterSeconds",
            skip_serializing_if = "Option::is_none"
        )]
        retry_after_seconds: Option<u32>,
    },
    /// The request is answered with this body instead: a whole Status object, or anything else.
    Body {
        /// Status code of the response.
        code: u16,
        /// Body of the response, as JSON.
        body: Value,
    },
    /// The request is carried out after this time. Further rules still apply.
    Latency {
        /// Latency in milliseconds, added to the request.
        millis: u64,
    },
    /// Watches are cut: open watches at once, later ones after their first events.
    DropWatch,
    /// The request is never answered.
    Hang,
    /// The request is carried out, but the connection is cut before the response.
    AnswerLost,
    /// The connection is cut before the request is carried out.
    Refused,
}

/// Requests that a rule applies to. A missing field matches everything. An empty string matches requests without that
/// part; in `verb` and `path` it matches everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Matcher {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; several are separated by
    /// commas; `write` stands for all verbs that change objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// Plural name of the resource (`nodes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Subresource, such as `status`; an empty string matches requests without a subresource only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Namespace of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Prefix of the path, for what is no resource (`/version`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Maximum number of matches to which the rule applies, from the first on; without this field there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The rule applies only to every `every`th match: with 3, to the third, the sixth and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
}

impl Matcher {
    /// Returns a matcher of every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Restricts the rule to this verb (or a list, or `write`).
    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Restricts the rule to this resource (`nodes`), or to this subresource of it (`nodes/status`).
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        match resource.split_once('/') {
            Some((resource, subresource)) => {
                self.resource = Some(resource.to_owned());
                self.subresource = Some(subresource.to_owned());
            }
            None => self.resource = Some(resource.to_owned()),
        }
        self
    }

    /// Restricts the rule to objects with this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Restricts the rule to the first `count` matches.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Restricts the rule to every `period`th match.
    #[must_use]
    pub fn every(mut self, period: u64) -> Self {
        self.every = Some(period);
        self
    }

    fn matches(&self, request: &LoggedRequest) -> bool {
        let same = |wanted: &Option<String>, got: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == got)
        };
        let verb = self.verb.as_deref().is_none_or(|verbs| {
            verbs.is_empty()
                || verbs
                    .split(',')
                    .any(|verb| verb == request.verb || (verb == "write" && request.is_write()))
        });
        verb && same(&self.resource, &request.resource)
            && same(&self.subresource, &request.subresource)
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && self
                .path
                .as_deref()
                .is_none_or(|prefix| request.path.starts_with(prefix))
    }
}

/// A fault rule with its counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// ID of the rule.
    #[serde(default)]
    pub id: u64,
    /// Requests that the rule applies to.
    #[serde(rename = "match", default)]
    pub matcher: Matcher,
    /// Effect on these requests.
    pub action: Action,
    /// Number of requests that matched so far.
    #[serde(default)]
    pub seen: u64,
    /// Number of requests that the rule was applied to so far.
    #[serde(default)]
    pub applied: u64,
}

impl Rule {
    fn take(&mut self) -> bool {
        if self
            .matcher
            .times
            .is_some_and(|times| self.applied >= times)
        {
            return false;
        }
        self.seen += 1;
        if self
            .matcher
            .every
            .is_some_and(|every| every > 1 && !self.seen.is_multiple_of(every))
        {
            return false;
        }
        self.applied += 1;
        true
    }
}

/// The rules. Clones share them.
#[derive(Debug, Clone)]
pub struct Faults {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Mutex<(u64, Vec<Rule>)>,
    changed: watch::Sender<u64>,
}

/// Combined effect of the rules on a request.
#[derive(Debug, Default)]
pub(crate) struct FaultEffect {
    pub(crate) delay: Duration,
    pub(crate) action: Option<Action>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            inner: Arc::new(Inner {
                rules: Mutex::default(),
                changed: watch::Sender::new(0),
            }),
        }
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Rule>)> {
        self.inner.rules.lock()
    }

    /// Adds a rule and returns its ID. The first rule that matches a request is applied (a latency rule does not end
    /// the search).
    pub fn add(&self, matcher: Matcher, action: Action) -> u64 {
        let id = {
            let mut rules = self.lock();
            rules.0 += 1;
            let id = rules.0;
            rules.1.push(Rule {
                id,
                matcher,
                action,
                seen: 0,
                applied: 0,
            });
            id
        };
        self.inner.changed.send_replace(id);
        id
    }

    /// Removes a rule. Returns `false` if there is no rule with this ID.
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.lock();
        let before = rules.1.len();
        rules.1.retain(|rule| rule.id != id);
        rules.1.len() < before
    }

    /// Removes all rules at once.
    pub fn clear(&self) {
        self.lock().1.clear();
    }

    /// Returns the rules with their counts.
    #[must_use]
    pub fn list(&self) -> Vec<Rule> {
        self.lock().1.clone()
    }

    /// Cuts all watches that are open now.
    pub fn drop_watches(&self) {
        // Number 0 is no rule: every open watch takes it as meant for it.
        self.inner.changed.send_replace(0);
    }

    pub(crate) fn effect_of(&self, request: &LoggedRequest) -> FaultEffect {
        let mut effect = FaultEffect::default();
        let mut rules = self.lock();
        for rule in rules
            .1
            .iter_mut()
            .filter(|rule| rule.matcher.matches(request) && rule.action != Action::DropWatch)
        {
            if !rule.take() {
                continue;
            }
            if let Action::Latency { millis } = rule.action {
                effect.delay += Duration::from_millis(millis);
                continue;
            }
            effect.action = Some(rule.action.clone());
            break;
        }
        effect
    }

    /// Returns `true` if this watch is to be cut now.
    pub(crate) fn drops(&self, request: &LoggedRequest) -> bool {
        let mut rules = self.lock();
        rules.1.iter_mut().any(|rule| {
            rule.action == Action::DropWatch && rule.matcher.matches(request) && rule.take()
        })
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(name: &str) -> LoggedRequest {
        LoggedRequest {
            verb: "patch",
            resource: "nodes".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: name.to_owned(),
            path: String::new(),
            query: String::new(),
            content_type: String::new(),
            user_agent: String::new(),
            body: bytes::Bytes::new(),
            status: 0,
        }
    }

    #[test]
    fn a_rule_applies_as_often_as_it_says() {
        let faults = Faults::default();
        faults.add(
            Matcher::any()
                .verb("write")
                .resource("nodes")
                .times(2)
                .every(2),
            Action::Refused,
        );
        let applied: Vec<bool> = (0..6)
            .map(|_| faults.effect_of(&patch("a")).action.is_some())
            .collect();
        assert_eq!(applied, [false, true, false, true, false, false]);
    }

    #[test]
    fn latency_adds_up_and_lets_further_rules_apply() {
        let faults = Faults::default();
        faults.add(Matcher::any(), Action::Latency { millis: 100 });
        faults.add(Matcher::any().name("b"), Action::Hang);
        let effect = faults.effect_of(&patch("b"));
        assert_eq!(
            (effect.delay, effect.action),
            (Duration::from_millis(100), Some(Action::Hang))
        );
        assert_eq!(faults.effect_of(&patch("a")).action, None);
    }

    #[test]
    fn a_rule_reads_from_json() {
        let rule: Rule = serde_json::from_str(
            r#"{"match":{"verb":"patch","times":3},"action":{"status":{"code":503}}}"#,
        )
        .unwrap();
        assert!(matches!(rule.action, Action::Status { code: 503, .. }));
        let rule: Rule = serde_json::from_str(r#"{"action":"dropWatch"}"#).unwrap();
        assert_eq!(rule.action, Action::DropWatch);
    }
}
