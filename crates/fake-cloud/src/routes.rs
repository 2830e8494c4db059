//! Which handler answers what.

use crate::asked::{Asked, Reply};
use crate::cloud::Cloud;

/// Carries a request out.
pub type Handler<C> = fn(&mut C, &Asked<<C as Cloud>::Service>) -> Result<Reply, <C as Cloud>::Refusal>;

/// Method, path template after the prefix, handler.
pub type Route<C> = (&'static str, &'static str, Handler<C>);

/// The routes under one beginning of the path.
pub struct Routes<C: Cloud> {
    /// What the paths begin with, a version for example. It is no part of a route's name.
    pub prefix: &'static str,
    /// The service that answers.
    pub service: C::Service,
    /// Its routes.
    pub table: &'static [Route<C>],
}

/// Where a request goes.
pub(crate) struct Target<C: Cloud> {
    pub(crate) service: C::Service,
    /// `GET /servers/{id}`.
    pub(crate) name: String,
    pub(crate) ids: Vec<String>,
    /// `None`: there is no such path, or not with this method.
    pub(crate) handler: Option<Handler<C>>,
}

impl<C: Cloud> Target<C> {
    /// Where this request goes; `None`: there is no such service.
    pub(crate) fn of(method: &str, path: &str) -> Option<Self> {
        let under = || C::ROUTES.iter().filter_map(|it| Some((it, path.strip_prefix(it.prefix)?)));
        for (Routes { service, table, .. }, rest) in under() {
            for (_, template, handler) in table.iter().filter(|(wanted, ..)| *wanted == method) {
                if let Some(ids) = captures(template, rest) {
                    let name = format!("{method} {template}");
                    return Some(Self { service: *service, name, ids, handler: Some(*handler) });
                }
            }
        }
        let (routes, rest) = under().next()?;
        let (service, name) = (routes.service, format!("{method} {rest}"));
        Some(Self { service, name, ids: Vec::new(), handler: None })
    }
}

/// What stands in `path` for the placeholders of `template`, if they match.
fn captures(template: &str, path: &str) -> Option<Vec<String>> {
    let (mut wanted, mut given) = (template.trim_end_matches('/').split('/'), path.trim_end_matches('/').split('/'));
    let mut ids = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(ids),
            (Some(hole), Some(id)) if hole.starts_with('{') && !id.is_empty() => ids.push(id.to_owned()),
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return None,
        }
    }
}
