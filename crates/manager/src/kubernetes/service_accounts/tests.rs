//! ServiceAccounts and tokens at an API server in this process, in virtual time.

use std::time::Duration;

use cloud_provider::Fence;
use cloud_provider::names::{CONTROLLERS, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER};
use embedded_apiserver::{Action, ApiServer, Matcher};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use runtime::api_error::api_error;
use runtime::client::NoRequestMetrics;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use super::*;

/// A wall clock that advances with tokio's clock.
struct VirtualClock(Timestamp, Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.0 + SignedDuration::try_from(self.1.elapsed()).unwrap()
    }
}

/// An API server, and the credentials that derived clients sent to it.
struct Stage {
    api: ApiServer,
    clients: ServiceAccountClients,
    credentials: Arc<Mutex<Vec<HeaderValue>>>,
}

impl Stage {
    fn new() -> Self {
        Self::with(SignedDuration::ZERO)
    }

    /// With a local clock that is fast by so much.
    fn with(fast: SignedDuration) -> Self {
        let api = ApiServer::new();
        let credentials = Arc::new(Mutex::new(Vec::new()));
        let server = api.service();
        let seen = Arc::clone(&credentials);
        let bare = tower::service_fn(move |request: Request<Body>| {
            seen.lock()
                .extend(request.headers().get(AUTHORIZATION).cloned());
            server.clone().oneshot(request)
        });
        let main = Client::new(api.service(), "default");
        let bare = Client::new(bare, "default");
        let clock = Arc::new(VirtualClock(Timestamp::now() + fast, Instant::now()));
        let clients = ServiceAccountClients::over(
            main,
            bare,
            ClientOptions::default(),
            Limits::default(),
            clock,
        );
        Self {
            api,
            clients,
            credentials,
        }
    }

    async fn client(&self, name: &str) -> Result<Client, ServiceAccountError> {
        self.clients.client(name, Arc::new(NoRequestMetrics)).await
    }

    /// Asks for something, as such a client.
    async fn ask(&self, client: &Client) -> Result<(), String> {
        let nodes: Api<Node> = Api::all(client.clone());
        nodes
            .list(&Default::default())
            .await
            .map(drop)
            .map_err(|error| api_error(&error).to_string())
    }

    fn last_credential(&self) -> HeaderValue {
        self.credentials.lock().last().cloned().unwrap()
    }

    /// Returns the user of the last credential, according to the server.
    async fn last_user(&self) -> String {
        let token = self
            .last_credential()
            .to_str()
            .unwrap()
            .strip_prefix("Bearer ")
            .unwrap()
            .to_owned();
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token),
                ..Default::default()
            },
            ..Default::default()
        };
        let reviews: Api<TokenReview> = Api::all(Client::new(self.api.service(), "default"));
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .unwrap();
        answer
            .status
            .unwrap()
            .user
            .unwrap()
            .username
            .unwrap_or_default()
    }

    /// Returns the requests for accounts, namespaces and tokens since the last call.
    fn requests(&self) -> Vec<String> {
        let log = self.api.requests();
        let entries = log.all();
        let of_accounts = entries
            .iter()
            .filter(|request| ["serviceaccounts", "namespaces"].contains(&&*request.resource));
        let said = of_accounts.map(|request| {
            let sub = if request.subresource.is_empty() {
                String::new()
            } else {
                format!("/{}", request.subresource)
            };
            format!(
                "{} {}{sub} {}",
                request.verb, request.resource, request.status
            )
        });
        let said = said.collect();
        log.clear();
        said
    }

    /// Answers the next request for Nodes with 401.
    fn refuse_once(&self) {
        self.fail("list", "nodes", 401, "Unauthorized", Some(1));
    }

    fn fail(&self, verb: &str, resource: &str, code: u16, reason: &str, times: Option<u64>) {
        let mut matcher = Matcher::any().verb(verb).resource(resource);
        matcher.times = times;
        let message = format!("{resource} say {reason}");
        let action = Action::Status {
            code,
            reason: reason.to_owned(),
            message,
            retry_after_seconds: None,
        };
        self.api.faults().add(matcher, action);
    }
}

const FETCH: [&str; 2] = [
    "get serviceaccounts 200",
    "create serviceaccounts/token 201",
];

#[tokio::test(start_paused = true)]
async fn the_first_client_makes_its_account_and_the_first_request_gets_its_token() {
    let stage = Stage::new();
    let client = stage.client("route-controller").await.unwrap();
    assert_eq!(
        stage.requests(),
        [
            "get serviceaccounts 404",
            "get namespaces 200",
            "create serviceaccounts 201"
        ],
        "no token before it is needed"
    );
    for _ in 0..3 {
        stage.ask(&client).await.unwrap();
    }
    assert_eq!(
        stage.last_user().await,
        "system:serviceaccount:kube-system:route-controller"
    );
    assert_eq!(stage.requests(), FETCH);
    let agents = stage.api.requests().all();
    assert!(agents.is_empty(), "they were taken");
    stage.ask(&client).await.unwrap();
    let entries = stage.api.requests().all();
    assert!(
        entries[0]
            .user_agent
            .ends_with("/system:serviceaccount:kube-system:route-controller"),
        "{}",
        entries[0].user_agent
    );
    // A later process finds the account.
    stage.client("route-controller").await.unwrap();
    assert_eq!(stage.requests(), ["get serviceaccounts 200"]);
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_name_share_one_token() {
    let stage = Stage::new();
    let names: std::collections::BTreeSet<_> = CONTROLLERS
        .iter()
        .map(|names| names.client_identity)
        .collect();
    assert_eq!(
        NODE_CONTROLLER.client_identity, NODE_LIFECYCLE_CONTROLLER.client_identity,
        "APP-20"
    );
    assert_eq!(names.len(), CONTROLLERS.len() - 1);
    let one = stage.client(NODE_CONTROLLER.client_identity).await.unwrap();
    let other = stage
        .clients
        .clone()
        .client(
            NODE_LIFECYCLE_CONTROLLER.client_identity,
            Arc::new(NoRequestMetrics),
        )
        .await
        .unwrap();
    stage.requests();
    let (first, second, third) = tokio::join!(stage.ask(&one), stage.ask(&other), stage.ask(&one));
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!(
        stage.requests(),
        FETCH,
        "even those that ask at the same time"
    );
    let third = stage.client("service-controller").await.unwrap();
    stage.requests();
    stage.ask(&third).await.unwrap();
    assert_eq!(stage.requests(), FETCH, "each name has its own");
    assert_eq!(
        stage.last_user().await,
        "system:serviceaccount:kube-system:service-controller"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_after_four_fifths_of_its_life() {
    for (fast, renewed_after) in [(0, 2880), (3590, 480), (7200, 480)] {
        let stage = Stage::with(SignedDuration::from_secs(fast));
        let client = stage.client("node-controller").await.unwrap();
        stage.requests();
        stage.ask(&client).await.unwrap();
        assert_eq!(stage.requests(), FETCH);
        let first = stage.last_credential();
        sleep(Duration::from_secs(renewed_after - 10)).await;
        stage.ask(&client).await.unwrap();
        assert_eq!(
            (stage.requests().len(), stage.last_credential()),
            (0, first.clone()),
            "clock fast by {fast} s"
        );
        sleep(Duration::from_secs(11)).await;
        stage.ask(&client).await.unwrap();
        assert_eq!(stage.requests(), FETCH, "clock fast by {fast} s");
        assert_ne!(stage.last_credential(), first);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_the_server_forgot_is_replaced_and_the_request_is_sent_again() {
    let stage = Stage::new();
    let client = stage.client("node-controller").await.unwrap();
    stage.ask(&client).await.unwrap();
    let first = stage.last_credential();
    sleep(Duration::from_secs(60)).await;
    stage.requests();
    stage.refuse_once();
    stage.ask(&client).await.unwrap();
    assert_eq!(stage.requests(), FETCH);
    assert_ne!(stage.last_credential(), first);
    // A token that was just issued is discarded too, but the request is not sent again.
    stage.refuse_once();
    assert_eq!(
        stage.ask(&client).await.unwrap_err(),
        "nodes say Unauthorized"
    );
    assert_eq!(stage.requests().len(), 0);
    stage.ask(&client).await.unwrap();
    assert_eq!(stage.requests(), FETCH);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_was_deleted_is_made_again_for_the_next_token() {
    let stage = Stage::new();
    let client = stage.client("node-controller").await.unwrap();
    stage.ask(&client).await.unwrap();
    let accounts: Api<ServiceAccount> =
        Api::namespaced(Client::new(stage.api.service(), "default"), NAMESPACE);
    accounts
        .delete("node-controller", &DeleteParams::default())
        .await
        .unwrap();
    sleep(Duration::from_secs(60)).await;
    stage.requests();
    stage.refuse_once();
    stage.ask(&client).await.unwrap();
    assert_eq!(
        stage.requests(),
        [
            "get serviceaccounts 404",
            "get namespaces 200",
            "create serviceaccounts 201",
            "create serviceaccounts/token 201"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_was_faster_is_no_error_and_a_namespace_that_cannot_be_made_is_only_said() {
    let stage = Stage::new();
    let created = stage.api.seed(
        serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "raced", "namespace": NAMESPACE}}),
    );
    created.unwrap();
    stage.fail("get", "serviceaccounts", 404, "NotFound", Some(1));
    stage.client("raced").await.unwrap();
    let expected = [
        "get serviceaccounts 404",
        "get namespaces 200",
        "create serviceaccounts 409",
        "get serviceaccounts 200",
    ];
    assert_eq!(stage.requests(), expected);
    stage.fail("get", "namespaces", 404, "NotFound", Some(1));
    stage.fail("create", "namespaces", 403, "Forbidden", Some(1));
    stage.client("other").await.unwrap();
    let expected = [
        "get serviceaccounts 404",
        "get namespaces 404",
        "create namespaces 403",
        "create serviceaccounts 201",
    ];
    assert_eq!(stage.requests(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_four_times_with_growing_pauses() {
    let stage = Stage::new();
    let client = stage.client("node-controller").await.unwrap();
    stage.requests();
    stage.fail(
        "create",
        "serviceaccounts/token",
        500,
        "InternalError",
        Some(3),
    );
    let start = Instant::now();
    stage.ask(&client).await.unwrap();
    assert_eq!(
        (start.elapsed().as_millis() / 100, stage.requests().len()),
        (35, 8)
    );

    let stage = Stage::new();
    let client = stage.client("node-controller").await.unwrap();
    stage.fail(
        "create",
        "serviceaccounts/token",
        500,
        "InternalError",
        None,
    );
    let start = Instant::now();
    let (first, second) = tokio::join!(stage.ask(&client), stage.ask(&client));
    assert_eq!(
        start.elapsed().as_millis() / 100,
        35,
        "who waited for the same is told the same"
    );
    let text = first.unwrap_err();
    assert!(
        text.ends_with("failed to get token for kube-system/node-controller: serviceaccounts/token say InternalError"),
        "{text}"
    );
    assert_eq!(second.unwrap_err(), text);
    // The next caller tries again.
    stage.api.faults().clear();
    stage.ask(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn old_token_is_used_until_it_expires_while_renewals_fail() {
    let stage = Stage::new();
    let client = stage.client("node-controller").await.unwrap();
    stage.ask(&client).await.unwrap();
    let first = stage.last_credential();
    stage.fail(
        "create",
        "serviceaccounts/token",
        500,
        "InternalError",
        None,
    );
    sleep(Duration::from_secs(3000)).await;
    stage.requests();
    for _ in 0..5 {
        stage.ask(&client).await.unwrap();
    }
    assert_eq!(
        (stage.requests().len(), stage.last_credential()),
        (8, first),
        "it was tried once, not for each request"
    );
    sleep(Duration::from_secs(700)).await;
    assert!(
        stage
            .ask(&client)
            .await
            .unwrap_err()
            .contains("failed to get token")
    );
}

#[tokio::test(start_paused = true)]
async fn forbidden_request_names_the_permission_to_grant() {
    let stage = Stage::new();
    stage.fail("get", "serviceaccounts", 403, "Forbidden", Some(1));
    let error = stage.client("node-controller").await.err().unwrap();
    assert!(matches!(
        error,
        ServiceAccountError::Account {
            forbidden: true,
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.contains("verbs get and create on serviceaccounts") && text.contains(NAMESPACE),
        "{text}"
    );
    stage.fail("create", "serviceaccounts", 403, "Forbidden", Some(1));
    let text = stage
        .client("node-controller")
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        text.contains("create the account node-controller yourself"),
        "{text}"
    );
    let client = stage.client("node-controller").await.unwrap();
    stage.fail("create", "serviceaccounts/token", 403, "Forbidden", None);
    let text = stage.ask(&client).await.unwrap_err();
    assert!(
        text.contains("verb create on serviceaccounts/token for the name node-controller"),
        "{text}"
    );
    stage.api.faults().clear();
    stage.fail("get", "serviceaccounts", 403, "Forbidden", None);
    let text = stage.ask(&client).await.unwrap_err();
    assert!(
        text.contains(
            "failed to get token for kube-system/node-controller: failed to get service account: "
        ) && text.contains("verbs get and create on serviceaccounts"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_usable_token_is_said_without_quoting_it() {
    let stage = Stage::new();
    let client = stage.client("node-controller").await.unwrap();
    let answers = [
        serde_json::json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": []},
            "status": {"token": "s3cret\nline", "expirationTimestamp": "2026-01-01T00:00:00Z"}}),
        serde_json::json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": []},
            "status": "s3cret"}),
        serde_json::json!("s3cret"),
    ];
    for body in answers {
        stage.api.faults().clear();
        stage.api.faults().add(
            Matcher::any().resource("serviceaccounts/token"),
            Action::Body { code: 201, body },
        );
        let text = stage.ask(&client).await.unwrap_err();
        assert!(
            text.contains("failed to get token") && !text.contains("s3cret"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_fence_that_closes_while_a_token_is_made_nothing_is_written() {
    let leads = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asked = Arc::clone(&leads);
    let fence = Fence::new(move || asked.load(std::sync::atomic::Ordering::SeqCst));
    let stage = Stage::new();
    let fenced = stage.clients.clone().with_fence(fence);
    let client = fenced
        .client("node-controller", Arc::new(NoRequestMetrics))
        .await
        .unwrap();
    stage.fail(
        "create",
        "serviceaccounts/token",
        500,
        "InternalError",
        Some(2),
    );
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let map = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some("a".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    let params = PostParams::default();
    let (written, ()) = tokio::join!(maps.create(&params, &map), async {
        sleep(Duration::from_secs(1)).await;
        leads.store(false, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(written.is_err());
    assert_eq!(
        stage.credentials.lock().len(),
        0,
        "not even with the token that came afterwards"
    );
}

#[test]
fn no_token_prints_itself() {
    let mut header = HeaderValue::from_static("Bearer s3cret");
    header.set_sensitive(true);
    assert!(!format!("{header:?}").contains("s3cret"));
}

#[tokio::test]
async fn over_the_network_the_processs_own_credential_is_left_out() {
    crate::install_crypto();
    let users = [("s3cret".to_owned(), embedded_apiserver::User::admin())];
    let options = embedded_apiserver::Options {
        tokens: users.into(),
        require_token: true,
        ..Default::default()
    };
    let api = ApiServer::with_options(options);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = tokio_util::sync::CancellationToken::new();
    let _until_the_end = shutdown.clone().drop_guard();
    let server = api.clone();
    tokio::spawn(async move { server.serve_tcp(listener, shutdown).await });
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        embedded_apiserver::kubeconfig(&address, None, Some("s3cret")),
    )
    .unwrap();
    let options = ClientOptions {
        kubeconfig: Some(kubeconfig),
        ..ClientOptions::default()
    };

    let metrics = || Arc::new(NoRequestMetrics);
    let list = async |client: Client| {
        Api::<Node>::all(client)
            .list(&Default::default())
            .await
            .map(drop)
    };
    let main = runtime::client::connect(&options, "main", metrics())
        .await
        .unwrap();
    list(main.clone()).await.unwrap();
    let none = connect_as(&options, "none", metrics(), Client::clone)
        .await
        .unwrap();
    assert_eq!(
        api_error(&list(none).await.unwrap_err()).to_string(),
        "Unauthorized"
    );
    let clients = ServiceAccountClients::new(main, options);
    list(clients.client("route-controller", metrics()).await.unwrap())
        .await
        .unwrap();
    assert_eq!(api.requests().count("create", "serviceaccounts/token"), 1);
}
