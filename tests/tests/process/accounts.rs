//! Accounts of their own for the controllers (APP-50), over the network and from a kubeconfig, as in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ccm_tests::wait::until;
use embedded_apiserver::{Action, ApiServer, Matcher, Options, User};
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use manager::flags::{Flags, Parsed};
use manager::{Failure, Manager};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::world::{self, World};

const TOKEN: &str = "token-of-the-process";
/// Time-out of everything in this test.
const SOON: Duration = Duration::from_secs(60);

/// Requests with their tokens: the token, and the request (`PATCH /api/v1/nodes/x`).
type Asked = Arc<Mutex<Vec<(String, String)>>>;

struct Cluster {
    world: World,
    asked: Asked,
    directory: tempfile::TempDir,
    over: CancellationToken,
}

impl Cluster {
    async fn new() -> Self {
        ccm_tests::install_crypto();
        let users = [(TOKEN.to_owned(), User::admin())].into();
        let options = Options {
            tokens: users,
            require_token: true,
            ..Options::default()
        };
        let world = World::at(ApiServer::with_options(options));
        let asked = Asked::default();
        let over = CancellationToken::new();
        let notes = Arc::clone(&asked);
        let router = world.api.router().layer(axum::middleware::map_request(
            move |request: axum::extract::Request| {
                let token = request
                    .headers()
                    .get(AUTHORIZATION)
                    .and_then(|value| value.to_str().ok())
                    .unwrap_or_default();
                let token = token.strip_prefix("Bearer ").unwrap_or_default().to_owned();
                let what = format!("{} {}", request.method(), request.uri().path());
                notes.lock().push((token, what));
                std::future::ready(request)
            },
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let end = over.clone().cancelled_owned();
        tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(end)
                .await
        });
        let directory = tempfile::tempdir().expect("a directory");
        let kubeconfig = embedded_apiserver::kubeconfig(&url, None, Some(TOKEN));
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig).expect("a file");
        Self {
            world,
            asked,
            directory,
            over,
        }
    }

    async fn start(&self) -> (JoinHandle<Result<(), Failure>>, CancellationToken) {
        let arguments = [
            "ccm".to_owned(),
            "--cloud-provider=simulated".to_owned(),
            "--secure-port=0".to_owned(),
            "--configure-cloud-routes=false".to_owned(),
            "--use-service-account-credentials".to_owned(),
            format!(
                "--kubeconfig={}",
                self.directory.path().join("kubeconfig").display()
            ),
        ];
        let Parsed::Flags(flags) = Flags::parse(arguments.map(Into::into)) else {
            panic!("flags that cannot be used")
        };
        let stop = CancellationToken::new();
        self.world.offer(false);
        let process = match Manager::new(&world::registry())
            .prepare(&flags, &stop)
            .await
        {
            Ok(process) => process,
            Err(failure) => panic!("{failure}"),
        };
        (tokio::spawn(process.run()), stop)
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().clone()
    }

    fn accounts_asked_for(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (_, what) in self.asked() {
            if let Some((_, name)) = what.split_once("/serviceaccounts/") {
                names.insert(name.split('/').next().unwrap_or_default().to_owned());
            }
        }
        names
    }

    async fn wait(&self, what: &str, is_this_match: impl Fn() -> bool) {
        let met = until(what, SOON, async || {
            anyhow::ensure!(is_this_match(), "not yet");
            Ok(())
        });
        met.await.expect("in time");
    }

    /// Returns the requests by the names of the users.
    async fn by_user(&self) -> BTreeMap<String, Vec<String>> {
        let server = self.world.api.service();
        let admin = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
            let value = format!("Bearer {TOKEN}").parse().expect("a header");
            request.headers_mut().insert(AUTHORIZATION, value);
            server.clone().oneshot(request)
        });
        let reviews: Api<TokenReview> = Api::all(Client::new(admin, "default"));
        let mut all = BTreeMap::<String, Vec<String>>::new();
        for (token, what) in self.asked() {
            let spec = TokenReviewSpec {
                token: Some(token),
                ..Default::default()
            };
            let review = TokenReview {
                spec,
                ..Default::default()
            };
            let answer = reviews
                .create(&PostParams::default(), &review)
                .await
                .expect("an answer");
            let user = answer
                .status
                .and_then(|status| status.user)
                .and_then(|user| user.username)
                .unwrap_or_default();
            all.entry(user).or_default().push(what);
        }
        all
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

fn free() -> serde_json::Value {
    world::lease("")
}

#[tokio::test]
async fn controllers_act_as_their_accounts_and_a_standby_asks_for_no_token() {
    let cluster = Cluster::new().await;
    cluster.world.hold_the_lease();
    let (running, stop) = cluster.start().await;
    let reads = |asked: &[(String, String)]| {
        asked
            .iter()
            .filter(|(_, what)| what.contains("/leases"))
            .count()
    };
    cluster
        .wait("a standby that has looked at the lease", || {
            reads(&cluster.asked()) >= 2
        })
        .await;
    assert_eq!(
        cluster.accounts_asked_for(),
        BTreeSet::new(),
        "it leads nothing"
    );
    cluster.world.api.seed(free()).unwrap();
    cluster
        .wait("work that is done", || {
            cluster.world.is_initialised() && cluster.world.cloud.load_balancers().len() == 1
        })
        .await;
    cluster
        .wait("a status", || {
            cluster
                .asked()
                .iter()
                .any(|(_, what)| what.contains("services/web/status"))
        })
        .await;
    stop.cancel();
    running.await.unwrap().unwrap();

    let accounts = cluster.accounts_asked_for();
    let expected = ["node-controller", "service-controller"];
    assert!(
        expected.iter().all(|name| accounts.contains(*name)),
        "{accounts:?}"
    );
    assert!(
        !accounts.contains("cloud-provider"),
        "the provider uses no client: {accounts:?}"
    );
    let by_user = cluster.by_user().await;
    let did = |user: &str, what: &str| {
        by_user
            .get(user)
            .is_some_and(|all| all.iter().any(|one| one.starts_with(what)))
    };
    let account = |name: &str| format!("system:serviceaccount:kube-system:{name}");
    assert!(
        did(&account("node-controller"), "PATCH /api/v1/nodes/worker-1"),
        "{by_user:#?}"
    );
    assert!(
        did(
            &account("service-controller"),
            "PATCH /api/v1/namespaces/default/services/web"
        ),
        "{by_user:#?}"
    );
    // The process itself elects, reads caches, and hands out tokens; it changes no object of the controllers.
    let own = &by_user["kubernetes-admin"];
    let changes = own.iter().filter(|what| {
        ["PATCH", "PUT", "POST", "DELETE"]
            .iter()
            .any(|verb| what.starts_with(verb))
    });
    let others = changes
        .filter(|what| {
            !["/leases", "/serviceaccounts", "/events", "reviews"]
                .iter()
                .any(|review| what.contains(review))
        })
        .collect::<Vec<_>>();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_an_account_that_nobody_answers_about() {
    let cluster = Cluster::new().await;
    cluster
        .world
        .api
        .faults()
        .add(Matcher::any().resource("serviceaccounts"), Action::Hang);
    let (running, stop) = cluster.start().await;
    cluster
        .wait("a question about an account", || {
            !cluster.accounts_asked_for().is_empty()
        })
        .await;
    stop.cancel();
    let ended = tokio::time::timeout(SOON, running).await.expect("it ends");
    assert!(ended.unwrap().is_ok());
    assert_eq!(
        cluster.world.holder(),
        "",
        "released: what is waited for, and left in the end, would have kept it"
    );
}
