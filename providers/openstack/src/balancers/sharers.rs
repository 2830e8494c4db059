//! Who has a part in a load balancer that failed, and that nobody can leave therefore.

use provider_kit::load_balancers::{Marks, State};
use serde_json::Value;

use super::octavia::{TAGS, state, text, texts};
use super::read::{Whole, is_pool_of};
use super::tags::{SIGN, View};

impl Whole {
    /// The marks of the other Services that share one in ERROR; `None` if anything of it is not known to be of a Service that is
    /// marked, or if it was not made for a Service.
    pub(super) fn sharers(&self, view: &View) -> Option<Vec<Marks>> {
        if !matches!(state(&self.balancer), Some(State::Failed(_))) || !text(&self.balancer, "name").starts_with(SIGN) {
            return None;
        }
        let all = View::all(&self.balancer);
        let signs: Vec<&str> = all.iter().filter_map(|it| it.sign.as_deref()).collect();
        let has_user = |listener: &Value| {
            let mut tags = texts(listener, TAGS).filter(|tag| tag.starts_with(SIGN)).peekable();
            tags.peek().is_some() && tags.all(|tag| signs.contains(&tag))
        };
        let is_left = |pool: &Value| signs.iter().any(|sign| is_pool_of(pool, sign));
        if !self.listeners.iter().all(has_user) || !self.unused_pools().all(is_left) {
            return None;
        }
        let others = all.iter().filter(|it| it.id != view.id);
        others.map(|it| it.marks.service.is_some().then(|| it.marks.clone())).collect()
    }
}
