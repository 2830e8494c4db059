//! The table of routes and their handlers.

use crate::cloud::Cloud;
use crate::request::{ApiRequest, Reply};

/// A function that carries out a request.
pub type Handler<C> =
    fn(&mut C, &ApiRequest<<C as Cloud>::Service>) -> Result<Reply, <C as Cloud>::Refusal>;

/// A route: method, path template after the prefix, handler. A template may end in `*`, which stands for any rest of the
/// path; then the route is named by the path.
pub type Route<C> = (&'static str, &'static str, Handler<C>);

/// The routes under one prefix of the path.
pub struct Routes<C: Cloud> {
    /// Prefix of the paths, a version for example. It is not part of a route's name.
    pub prefix: &'static str,
    /// Service that answers the requests.
    pub service: C::Service,
    /// Routes of the service.
    pub table: &'static [Route<C>],
}

/// The target of a request.
pub(crate) struct Target<C: Cloud> {
    pub(crate) service: C::Service,
    /// Name of the route, such as `GET /servers/{id}`.
    pub(crate) name: String,
    pub(crate) ids: Vec<String>,
    /// Handler; `None` if the path does not exist, or not with this method.
    pub(crate) handler: Option<Handler<C>>,
}

impl<C: Cloud> Target<C> {
    /// Returns the target of a request; `None` if there is no such service.
    pub(crate) fn of(method: &str, path: &str) -> Option<Self> {
        let under = || {
            C::ROUTES
                .iter()
                .filter_map(|routes| Some((routes, path.strip_prefix(routes.prefix)?)))
        };
        for (Routes { service, table, .. }, rest) in under() {
            for (_, template, handler) in table.iter().filter(|(wanted, ..)| *wanted == method) {
                if let Some(ids) = captures(template, rest) {
                    let name = format!(
                        "{method} {}",
                        if template.ends_with('*') {
                            rest
                        } else {
                            template
                        }
                    );
                    return Some(Self {
                        service: *service,
                        name,
                        ids,
                        handler: Some(*handler),
                    });
                }
            }
        }
        let (routes, rest) = under().next()?;
        let service = routes.service;
        let name = format!("{method} {rest}");
        Some(Self {
            service,
            name,
            ids: Vec::new(),
            handler: None,
        })
    }
}

/// Returns the values in `path` of the placeholders in `template`, if they match.
fn captures(template: &str, path: &str) -> Option<Vec<String>> {
    let mut wanted = template.trim_end_matches('/').split('/');
    let mut given = path.trim_end_matches('/').split('/');
    let mut ids = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) | (Some("*"), Some(_)) => return Some(ids),
            (Some(hole), Some(id)) if hole.starts_with('{') && !id.is_empty() => {
                ids.push(id.to_owned());
            }
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return None,
        }
    }
}
