//! State of the cloud: objects, accounts and tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_cloud::{Bucket, Cloud, Next, Operations, Page, Refused, Reply, Route, Routes};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    ACCOUNT, Droplet, Options, REGION, TOKEN, catalog, droplets, firewalls, load_balancers, tags,
};

/// A request as handlers see it.
pub(crate) type ApiRequest = fake_cloud::ApiRequest<()>;
/// Result of a request handler.
pub(crate) type Answer = Result<Reply, Refused>;

/// An object of an account.
#[derive(Clone, Debug)]
pub(crate) struct Owned<T = Value> {
    pub(crate) account: String,
    pub(crate) object: T,
}

/// Objects by their ids.
pub(crate) type All<T = Value> = BTreeMap<String, Owned<T>>;

pub(crate) struct Model {
    pub(crate) options: Options,
    pub(crate) tokens: BTreeMap<String, String>,
    pub(crate) read_only: BTreeSet<String>,
    pub(crate) buckets: BTreeMap<String, Bucket>,
    pub(crate) droplets: All<Droplet>,
    pub(crate) load_balancers: All,
    pub(crate) firewalls: All,
    pub(crate) certificates: All,
    pub(crate) tags: BTreeSet<(String, String)>,
    /// Load balancers with a background operation.
    pub(crate) running: Operations,
    pub(crate) busy: BTreeSet<String>,
    /// The times at which load balancers got their size.
    pub(crate) resized: BTreeMap<String, Instant>,
    made: u64,
}

const HOUR: Duration = Duration::from_secs(3600);
/// The creation time of every object.
pub(crate) const CREATED: &str = "2026-08-01T00:00:00Z";

impl Model {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            tokens: [(TOKEN.to_owned(), ACCOUNT.to_owned())].into(),
            read_only: BTreeSet::new(),
            buckets: BTreeMap::new(),
            droplets: BTreeMap::new(),
            load_balancers: BTreeMap::new(),
            firewalls: BTreeMap::new(),
            certificates: BTreeMap::new(),
            tags: BTreeSet::new(),
            running: Operations::default(),
            busy: BTreeSet::new(),
            resized: BTreeMap::new(),
            made: 0,
        }
    }

    /// Returns a number that no object has had before, from 1.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub(crate) fn set_level(&mut self, remaining: u32) {
        self.buckets.insert(
            ACCOUNT.to_owned(),
            Bucket::new(self.options.limit, HOUR, remaining),
        );
    }
}

/// Returns a UUID with this number in it.
pub(crate) fn uuid(kind: u16, number: u64) -> String {
    format!("{kind:04x}0000-0000-4000-8000-{number:012x}")
}

/// Returns the objects of the account that a request is about.
pub(crate) fn of<'a, T>(all: &'a All<T>, request: &'a ApiRequest) -> impl Iterator<Item = &'a T> {
    all.values()
        .filter(|object| object.account == request.project)
        .map(|object| &object.object)
}

/// Returns the object that a path names.
pub(crate) fn named<'a, T>(all: &'a All<T>, request: &ApiRequest) -> Result<&'a T, Refused> {
    let found = all
        .get(request.id())
        .filter(|object| object.account == request.project);
    found.map(|object| &object.object).ok_or_else(not_found)
}

pub(crate) fn not_found() -> Refused {
    Refused::new(
        404,
        "not_found",
        "The resource you requested could not be found.",
    )
}

/// Refuses a request whose content is wrong.
pub(crate) fn invalid(message: impl Into<String>) -> Refused {
    Refused::new(422, "unprocessable_entity", &message.into())
}

/// Answers 200 with this.
#[allow(clippy::unnecessary_wraps, reason = "it is what a handler returns")]
pub(crate) fn ok(body: Value) -> Answer {
    Ok(Reply::new(200, body))
}

/// Answers with a page of `items`, linked to the others by full URLs.
pub(crate) fn page<T>(
    request: &ApiRequest,
    key: &str,
    items: impl Iterator<Item = T>,
    json: impl Fn(T) -> Value,
) -> Answer {
    let number = |name, default| {
        request
            .query(name)
            .map_or(Some(default), |text| text.parse().ok())
    };
    let size = number("per_page", 20).filter(|per_page| (1..=200).contains(per_page));
    let (size, at) = size
        .zip(number("page", 1).filter(|page| *page > 0))
        .ok_or_else(|| invalid("page is out of range"))?;
    let Page {
        items,
        number,
        last,
        total,
        next,
    } = Page::numbered(items, at, size, &request.effects);
    let host = request.header("host").unwrap_or("api.digitalocean.com");
    let link = |page: usize| format!("https://{host}{}?page={page}&per_page={size}", request.path);
    let mut links = json!({});
    if number > 1 {
        links["pages"]["first"] = link(1).into();
        links["pages"]["prev"] = link(number - 1).into();
    }
    if next != Next::Nothing {
        links["pages"]["next"] = link(if next == Next::Itself {
            number
        } else {
            number + 1
        })
        .into();
        links["pages"]["last"] = link(last.max(number + 1)).into();
    }
    let items: Vec<Value> = items.into_iter().map(json).collect();
    ok(json!({key: items, "links": links, "meta": {"total": total}}))
}

const API: &[Route<Model>] = &[
    ("GET", "/account", catalog::account),
    ("GET", "/regions", catalog::regions),
    ("GET", "/vpcs/{id}", catalog::vpc),
    ("GET", "/droplets", droplets::list),
    ("GET", "/droplets/{id}", droplets::get),
    ("GET", "/load_balancers", load_balancers::list),
    ("POST", "/load_balancers", load_balancers::create),
    ("GET", "/load_balancers/{id}", load_balancers::get),
    ("PUT", "/load_balancers/{id}", load_balancers::update),
    ("DELETE", "/load_balancers/{id}", load_balancers::delete),
    (
        "DELETE",
        "/load_balancers/{id}/droplets",
        load_balancers::remove_droplets,
    ),
    ("GET", "/certificates", catalog::certificates),
    ("GET", "/certificates/{id}", catalog::certificate),
    ("POST", "/tags", tags::create),
    ("POST", "/tags/{tag}/resources", tags::add_resources),
    ("DELETE", "/tags/{tag}/resources", tags::remove_resources),
    ("GET", "/firewalls", firewalls::list),
    ("POST", "/firewalls", firewalls::create),
    ("GET", "/firewalls/{id}", firewalls::get),
    ("PUT", "/firewalls/{id}", firewalls::update),
];

const METADATA: &[Route<Model>] = &[("GET", "/metadata/v1/region", |_, _| {
    Ok(Reply::text(200, "text/plain; charset=utf-8", REGION))
})];

impl Cloud for Model {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/v2",
            service: (),
            table: API,
        },
        Routes {
            prefix: "",
            service: (),
            table: METADATA,
        },
    ];

    fn advance(&mut self, _now: Instant) {
        self.finish_operations();
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        if request.path.starts_with("/metadata") {
            return Ok(());
        }
        let token = request
            .header("authorization")
            .and_then(|header| header.strip_prefix("Bearer "))
            .unwrap_or_default();
        let is_forbidden = self.read_only.contains(token) && !request.route.starts_with("GET ");
        let account = self.tokens.get(token).cloned();
        request.project = account
            .ok_or_else(|| Refused::new(401, "unauthorized", "Unable to authenticate you"))?;
        let Options {
            limit, remaining, ..
        } = self.options;
        let bucket = self
            .buckets
            .entry(request.project.clone())
            .or_insert_with(|| Bucket::new(limit, HOUR, remaining));
        let allowance = bucket.take();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        request.on_answer.extend([
            ("ratelimit-limit", allowance.limit.to_string()),
            ("ratelimit-remaining", allowance.remaining.to_string()),
            (
                "ratelimit-reset",
                (now + allowance.full_in).as_secs().to_string(),
            ),
        ]);
        if allowance.is_exceeded {
            return Err(Refused::new(
                429,
                "too_many_requests",
                "API rate limit exceeded",
            ));
        }
        if is_forbidden {
            return Err(Refused::new(
                403,
                "forbidden",
                "You are not authorized to perform this operation",
            ));
        }
        if request.is_broken() {
            return Err(Refused::new(
                400,
                "bad_request",
                "The request body is no JSON",
            ));
        }
        Ok(())
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let status = refused.status.unwrap_or(match &*refused.code {
            "unauthorized" => 401,
            "forbidden" => 403,
            "not_found" => 404,
            "conflict" => 409,
            "too_many_requests" => 429,
            "server_error" => 500,
            "service_unavailable" => 503,
            _ => 422,
        });
        let code = if refused.code.is_empty() {
            "too_many_requests"
        } else {
            &refused.code
        };
        let request = uuid(0xffff, 1);
        Reply::new(
            status,
            json!({"id": code, "message": refused.message, "request_id": request}),
        )
    }
}
