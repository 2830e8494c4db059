//! The trait by which a fake describes its cloud, and the server that runs it.

use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::fault::Refused;
use crate::fault_injector::{FaultInjector, Recorded};
use crate::request::{ApiRequest, Reply};
use crate::routes::{Handler, Routes, Target};

/// A cloud's model, with the conventions of its APIs.
pub trait Cloud: Sized + Send + 'static {
    /// Type that distinguishes the cloud's APIs; `()` if there is one.
    type Service: Copy + Send + Sync + 'static;
    /// Reason why a request is not carried out: [`Refused`], or a type of the API.
    type Refusal: From<Refused>;
    /// Routes with their handlers. If several prefixes fit, the first one with a matching route counts.
    const ROUTES: &'static [Routes<Self>];

    /// Advances the model to this time, so that due operations end.
    fn advance(&mut self, _now: Instant) {}

    /// Checks if a request may be carried out (credentials, limits), and sets its [`project`](ApiRequest::project).
    ///
    /// # Errors
    /// The reason why the request may not be carried out.
    fn admit(&mut self, request: &mut ApiRequest<Self::Service>) -> Result<(), Self::Refusal>;

    /// Converts a refusal into the API's own type.
    fn refusal(_request: &ApiRequest<Self::Service>, refused: Refused) -> Self::Refusal {
        refused.into()
    }

    /// Writes a refusal in the API's form.
    fn render_refusal(request: &ApiRequest<Self::Service>, refusal: Self::Refusal) -> Reply;

    /// Returns the refusal for a path that does not exist, or not with this method.
    fn unknown(request: &ApiRequest<Self::Service>) -> Self::Refusal {
        Self::refusal(
            request,
            Refused::new(404, "not_found", "there is no such path"),
        )
    }

    /// Returns `true` if a request on this route changes nothing: also for requests for a token, and reads that are
    /// sent as `POST`.
    fn is_read(route: &str) -> bool {
        route.starts_with("GET ")
    }
}

/// A fake cloud that is served. Clones share their state.
pub struct Handle<C>(Arc<Shared<C>>);

struct Shared<C> {
    fault_injector: FaultInjector,
    cloud: Mutex<C>,
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The maximum size of a body in bytes: enough for a pool with thousands of members.
const MOST: usize = 8 << 20;

impl<C: Cloud> Handle<C> {
    /// Returns a handle to this cloud.
    #[must_use]
    pub fn new(cloud: C) -> Self {
        Self(Arc::new(Shared {
            fault_injector: FaultInjector::default(),
            cloud: Mutex::new(cloud),
        }))
    }

    /// Locks the cloud's model, for controls of a test.
    pub fn lock(&self) -> MutexGuard<'_, C> {
        self.0.cloud.lock()
    }

    /// Returns the recorder that all requests pass.
    #[must_use]
    pub fn fault_injector(&self) -> &FaultInjector {
        &self.0.fault_injector
    }

    /// Returns a router for all services, for any host.
    pub fn router(&self) -> Router {
        Router::new().fallback(serve::<C>).with_state(self.clone())
    }
}

async fn serve<C: Cloud>(State(handle): State<Handle<C>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, MOST).await.unwrap_or_default();
    let Some(target) = Target::<C>::of(head.method.as_str(), head.uri.path()) else {
        return (StatusCode::NOT_FOUND, "there is no such service").into_response();
    };
    let recorded = Recorded {
        at: Instant::now(),
        is_mutation: !C::is_read(&target.name),
        route: target.name,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        status: 0,
    };
    let passing = handle.fault_injector().admit(recorded.clone());
    passing.effects.hold().await;
    let mut request = ApiRequest {
        service: target.service,
        route: recorded.route,
        path: recorded.path,
        ids: target.ids,
        query: Query::try_from_uri(&head.uri)
            .map(|Query(entry)| entry)
            .unwrap_or_default(),
        headers: head.headers,
        bytes,
        body: recorded.body,
        project: String::new(),
        effects: passing.effects.clone(),
        now: Instant::now(),
        on_answer: Vec::new(),
    };
    let reply = answer(&mut *handle.lock(), target.handler, &mut request);
    passing.answer(reply.into_response()).await
}

fn answer<C: Cloud>(
    cloud: &mut C,
    handler: Option<Handler<C>>,
    request: &mut ApiRequest<C::Service>,
) -> Reply {
    cloud.advance(request.now);
    let admitted = cloud.admit(request);
    if let (Ok(()), Some(status)) = (&admitted, request.effects.foreign()) {
        return Reply::text(
            status,
            "text/html",
            "<html>something between you and the API</html>",
        );
    }
    let refused = request.effects.refused();
    let retry_after = refused.as_ref().and_then(|entry| entry.retry_after);
    let done = admitted.and_then(|()| match (refused, handler) {
        (Some(refused), _) => Err(C::refusal(request, refused)),
        (None, Some(handler)) => handler(cloud, request),
        (None, None) => Err(C::unknown(request)),
    });
    let mut reply = done.unwrap_or_else(|refusal| C::render_refusal(request, refusal));
    reply.headers.append(&mut request.on_answer);
    reply
        .headers
        .extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    reply
}

/// Declares the fake of a cloud over a model with `Model::new(options)`. The fake dereferences to its
/// [`FaultInjector`](crate::FaultInjector). Clones share their state.
///
/// ```ignore
/// fake_cloud::fake!(Fake(Model, Options));
/// ```
#[macro_export]
macro_rules! fake {
    ($name:ident($model:ty, $options:ty)) => {
        /// The fake of a cloud, which dereferences to its [`FaultInjector`]. Clones share their state.
        #[derive(Clone)]
        pub struct $name($crate::Handle<$model>);

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$options>::default())
            }
        }

        impl std::ops::Deref for $name {
            type Target = $crate::FaultInjector;

            fn deref(&self) -> &$crate::FaultInjector {
                self.0.fault_injector()
            }
        }

        impl $name {
            /// Returns an empty cloud.
            #[must_use]
            pub fn new(options: $options) -> Self {
                Self($crate::Handle::new(<$model>::new(options)))
            }

            /// Returns a router for all APIs, for any host and under their real paths.
            pub fn router(&self) -> axum::Router {
                self.0.router()
            }

            fn model(&self) -> impl std::ops::DerefMut<Target = $model> {
                self.0.lock()
            }
        }
    };
}
