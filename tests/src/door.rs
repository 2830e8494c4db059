//! A barrier in front of a cloud, at which requests or their responses wait until it is opened, so that a test can keep
//! work in progress for as long as it needs, however fast the machine is.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// Message that waits at the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The request, before it reaches the cloud.
    Request,
    /// The response, after the cloud has carried out the request.
    Answer,
}

/// The barrier. It is open until [`hold`](Self::hold). Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Door(Arc<Mutex<Holding>>);

#[derive(Debug, Default)]
struct Holding {
    rule: Option<Rule>,
    waiting: usize,
}

#[derive(Debug)]
struct Rule {
    what: Waits,
    route: String,
    left: usize,
    opened: CancellationToken,
}

impl Door {
    /// Lets `after` requests of a route (`POST /v1/load-balancers`) pass, and holds all later ones. Messages that
    /// waited
    /// before pass.
    pub fn hold(&self, what: Waits, route: &str, after: usize) {
        self.set(Some(Rule {
            what,
            route: route.to_owned(),
            left: after,
            opened: CancellationToken::new(),
        }));
    }

    /// Opens the barrier, and lets all waiting messages pass.
    pub fn open(&self) {
        self.set(None);
    }

    /// Returns the number of waiting messages. A message whose sender has gone away is not counted.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.holding().waiting
    }

    fn set(&self, rule: Option<Rule>) {
        if let Some(before) = std::mem::replace(&mut self.holding().rule, rule) {
            before.opened.cancel();
        }
    }

    fn holding(&self) -> MutexGuard<'_, Holding> {
        self.0.lock()
    }

    /// Returns the message of this request that has to wait, if any.
    fn stops(&self, route: &str) -> Option<(Waits, CancellationToken)> {
        let mut holding = self.holding();
        let rule = holding.rule.as_mut().filter(|rule| rule.route == route)?;
        match rule.left.checked_sub(1) {
            Some(left) => {
                rule.left = left;
                None
            }
            None => Some((rule.what, rule.opened.clone())),
        }
    }

    async fn wait(&self, opened: CancellationToken) {
        let _counted = Counted::one(self);
        opened.cancelled().await;
    }
}

/// A waiting message, counted until it passes or its sender goes away.
struct Counted<'a>(&'a Door);

impl<'a> Counted<'a> {
    fn one(door: &'a Door) -> Self {
        door.holding().waiting += 1;
        Self(door)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.holding().waiting -= 1;
    }
}

/// Holds requests or responses, as a middleware.
pub(crate) async fn pass(
    State(door): State<Door>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let stopped = door.stops(&format!("{} {}", request.method(), path.as_str()));
    let Some((what, opened)) = stopped else {
        return next.run(request).await;
    };
    if what == Waits::Request {
        door.wait(opened).await;
        return next.run(request).await;
    }
    let answer = next.run(request).await;
    door.wait(opened).await;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_and_who_waits_goes_on_with_the_next_rule() {
        let door = Door::default();
        assert!(door.stops("GET /a").is_none(), "it is open at first");
        door.hold(Waits::Answer, "GET /a", 1);
        assert!(door.stops("GET /b").is_none(), "another route");
        assert!(door.stops("GET /a").is_none(), "the one that passes");
        let (what, opened) = door.stops("GET /a").unwrap();
        assert_eq!((what, opened.is_cancelled()), (Waits::Answer, false));
        door.hold(Waits::Request, "GET /a", 0);
        assert!(opened.is_cancelled());
        let (what, opened) = door.stops("GET /a").unwrap();
        door.open();
        assert!(what == Waits::Request && opened.is_cancelled() && door.stops("GET /a").is_none());
    }
}
