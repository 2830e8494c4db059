//! The causes of an object's state.

use k8s_openapi::jiff::Timestamp;

use super::facts::{EventFact, Facts, Leader};
use super::state::{State, Weight};

/// A state of the object, with the details that are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// State that the object is in.
    pub state: State,
    /// Details in the words of the cloud or of the controller; may be empty.
    pub detail: String,
    /// Time since when the object has been in the state, if known.
    pub since: Option<Timestamp>,
}

impl Cause {
    pub(super) fn new(state: State, detail: impl Into<String>) -> Self {
        Self {
            state,
            detail: detail.into(),
            since: None,
        }
    }

    pub(super) fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    pub(super) fn reported(state: State, event: &EventFact) -> Self {
        Self::new(state, event.message.clone()).since(event.first)
    }
}

/// A collector of causes. Of two causes with the same state the first is kept, with the time of the second if its own
/// is not known.
#[derive(Default)]
pub(super) struct Causes(Vec<Cause>);

impl Causes {
    pub(super) fn add(&mut self, cause: Cause) {
        match self.0.iter_mut().find(|known| known.state == cause.state) {
            Some(known) => known.since = known.since.or(cause.since),
            None => self.0.push(cause),
        }
    }

    pub(super) fn note(&mut self, state: State, detail: impl Into<String>) {
        self.add(Cause::new(state, detail));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, state: State) -> bool {
        self.0.iter().any(|cause| cause.state == state)
    }

    /// Returns the causes; those that make the object wait come first. A missing leader precedes all others if anything
    /// waits or is planned.
    pub(super) fn finish(mut self, facts: &Facts) -> Vec<Cause> {
        if let Some(error) = &facts.cloud_error {
            self.note(State::CloudUnreachable, error.clone());
        }
        self.0.sort_by_key(|cause| cause.state.weight());
        let is_pending = !facts.plan.steps.is_empty()
            || self
                .0
                .iter()
                .any(|cause| cause.state.weight() == Weight::Waits);
        if let (Leader::Nobody(why), true) = (&facts.leader, is_pending) {
            self.0
                .insert(0, Cause::new(State::NobodyLeads, why.clone()));
        }
        self.0
    }
}
