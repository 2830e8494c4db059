//! INV-5: No secret in a log line, event, metric, error or `Debug`.
//!
//! A canary is given to every input that takes a secret, and searched for in every output. The servers are as rude as
//! can be: they repeat the credential in their refusals.

use std::fmt::Debug;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use ccm_conformance::Harness;
use ccm_conformance::fault_injector::{FaultInjector, Side};
use ccm_conformance::user::User;
use ccm_tests::profiles::SimulatedCloud;
use cloud_provider::{CloudMetrics, CloudProvider, ConfigFile, Fence, Registry, Setup};
use embedded_apiserver::ApiServer;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use manager::Manager;
use manager::flags::{Flags, Parsed};
use manager::logging::{self, Format, LoggingOptions};
use manager::plan::{json, text};
use parking_lot::Mutex;
use provider_kit::settings::YamlSettings;
use provider_kit::transport::{Call, Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_PROJECT};
use provider_simulated::provider::{Simulated, factory};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Recognisable, also as base64 and within other text.
const CANARY: &str = "c4n4ry-7f3a9b";
const CANARY_IN_BASE64: &str = "YzRuNHJ5LTdmM2E5Y";
/// Prefix of the service account tokens that this API server issues.
const ISSUED: &str = "embedded-";
/// Each form that the log can have.
const FORMATS: [Format; 2] = [Format::Text, Format::Json];

/// Outputs of the program. Clones share them.
#[derive(Clone, Default)]
struct Outputs(Arc<Mutex<Vec<u8>>>);

impl Outputs {
    fn say(&self, what: impl AsRef<str>) {
        self.0.lock().extend_from_slice(what.as_ref().as_bytes());
        self.0.lock().push(b'\n');
    }

    fn show(&self, what: &dyn Debug) {
        self.say(format!("{what:?} {what:#?}"));
    }

    /// Captures the log of this thread: the program's own, at the highest verbosity.
    fn listen(&self, format: Format) -> tracing::subscriber::DefaultGuard {
        let vmodule = "*=10,*::*=10,*/*=10".parse().unwrap();
        let options = LoggingOptions {
            format,
            verbosity: 10,
            vmodule,
            ..LoggingOptions::default()
        };
        let (log, _) = logging::subscriber(&options, self.clone(), self.clone());
        tracing::subscriber::set_default(log)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }

    /// Fails if the output contains this text.
    fn expect_none_of(&self, secret: &str) {
        let text = self.text();
        let found: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(secret))
            .take(10)
            .collect();
        assert!(found.is_empty(), "a token was told:\n{}", found.join("\n"));
    }

    /// Fails if the output contains a canary; also if there was too little output to conclude anything.
    fn expect_no_canary(&self, expected: &[&str]) {
        let text = self.text();
        for word in expected {
            assert!(text.contains(word), "nothing was said of {word:?}:\n{text}");
        }
        let lines = text
            .lines()
            .filter(|line| line.contains(CANARY) || line.contains(CANARY_IN_BASE64));
        let found: Vec<&str> = lines.take(10).collect();
        assert!(found.is_empty(), "a secret was told:\n{}", found.join("\n"));
    }
}

impl Write for Outputs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CloudMetrics for Outputs {
    fn finished(&self, route: &str, status: Option<u16>, took: Duration) {
        self.say(format!("metric {route} {status:?} {took:?}"));
    }
}

/// Returns a provider of the simulated cloud, which wants the canary as its token and, for every third request, repeats
/// it in a refusal.
fn rude_provider(
    cloud: &Cloud,
    injector: &FaultInjector,
    outputs: &Outputs,
) -> Arc<dyn CloudProvider> {
    let router = cloud.router();
    let requests = Arc::new(Mutex::new(0));
    let rude = tower::service_fn(
        move |request: Request<http_body_util::Full<bytes::Bytes>>| {
            let router = router.clone();
            let requests = Arc::clone(&requests);
            async move {
                let number = {
                    let mut requests = requests.lock();
                    *requests += 1;
                    *requests
                };
                let token = request.headers().get(header::AUTHORIZATION).cloned();
                let token = token
                    .as_ref()
                    .and_then(|header| header.to_str().ok())
                    .unwrap_or_default()
                    .to_owned();
                if number % 3 != 0 {
                    return router.oneshot(request).await;
                }
                let status = [400, 401, 403, 404, 409, 422, 500][number / 3 % 7];
                let body = format!(
                    r#"{{"error": {{"code": "rude", "message": "I do not like {token}, you said {token:?}"}}}}"#
                );
                Ok(Response::builder()
                    .status(status)
                    .header("x-token", token)
                    .body(Body::from(body))
                    .unwrap())
            }
        },
    );
    let transport = Transport::builder("http://simulated")
        .credential(Credential::token(CANARY))
        .metrics(Arc::new(outputs.clone()))
        .service(injector.before(Side::Cloud, rude))
        .build()
        .unwrap();
    outputs.show(&transport);
    Arc::new(Simulated::new(transport, None))
}

/// Adds all objects of the API that the program may have written: events, conditions, annotations.
fn say_all_objects(outputs: &Outputs, api: &ApiServer) {
    for kind in ["events", "nodes", "services"] {
        api.list(kind)
            .iter()
            .for_each(|object| outputs.say(object.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn inv_5_a_cloud_that_repeats_the_token_is_not_quoted() {
    for format in FORMATS {
        live_with_a_rude_cloud(format).await;
    }
}

async fn live_with_a_rude_cloud(format: Format) {
    let outputs = Outputs::default();
    let _log = outputs.listen(format);
    let cloud = Cloud::default();
    cloud.add_token(CANARY, DEFAULT_PROJECT);
    let told = outputs.clone();
    let simulated = cloud.clone();
    let harness = Harness::of(&SimulatedCloud(cloud)).routes();
    let harness = harness
        .provider(move |_, injector, _| rude_provider(&simulated, injector, &told))
        .build();
    harness.join(1..=3).await;
    let program = loop {
        match harness.start().await {
            Ok(program) => break program,
            Err(error) => outputs.say(format!("{error:?} {error:#}")),
        }
    };
    for name in ["web", "mail", "api"] {
        harness.user.create_service(name, &[80]).await;
    }
    tokio::time::sleep(Duration::from_secs(900)).await;
    harness.cloud.terminate("worker-3");
    harness.user.set_ready("worker-3", false).await;
    harness.user.delete_service("web").await;
    tokio::time::sleep(Duration::from_secs(1800)).await;

    let provider = harness.provider(&Fence::open());
    for _ in 0..4 {
        match manager::plan::plan(&harness.settings(), &*provider, &harness.cluster()).await {
            Ok(report) => outputs.say(format!("plan: {}\n{}", text(&report), json(&report))),
            Err(error) => outputs.say(format!("plan: {error:?} {error:#}")),
        }
    }
    program.stop().await;
    say_all_objects(&outputs, &harness.api);
    outputs.expect_no_canary(&[
        "I do not like",
        "SyncLoadBalancerFailed",
        "plan: ",
        "metric POST /v1/load-balancers",
    ]);
}

#[tokio::test(start_paused = true)]
async fn inv_5_neither_debug_nor_a_mistake_shows_what_is_secret() {
    let outputs = Outputs::default();
    let _log = outputs.listen(Format::Text);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, CANARY).unwrap();
    let credentials = [
        Credential::token(CANARY),
        Credential::file(&file).unwrap(),
        Credential::token(format!("{CANARY}\n")),
    ];
    for credential in credentials {
        outputs.show(&credential);
        let refuse = tower::service_fn(|_: Request<http_body_util::Full<bytes::Bytes>>| async {
            Ok::<_, std::convert::Infallible>(
                Response::builder()
                    .status(500)
                    .body(Body::from(CANARY))
                    .unwrap(),
            )
        });
        let transport = Transport::builder("http://simulated")
            .credential(credential)
            .service(refuse)
            .build()
            .unwrap();
        let error = transport
            .send(Call::get("/v1/machines", &[]))
            .await
            .unwrap_err();
        outputs.say(format!("{error} {error:?}"));
    }
    // Addresses may hold a user and a password.
    for url in [
        format!("ftp://user:{CANARY}@host"),
        format!("http://user:{CANARY}@127.0.0.1:9"),
        format!("{CANARY}://"),
    ] {
        match Transport::builder(url).build() {
            Ok(transport) => {
                outputs.show(&transport);
                let error = transport.send(Call::get("/", &[])).await.unwrap_err();
                outputs.say(format!("{error} {error:?}"));
            }
            Err(error) => outputs.say(format!("{error} {error:?}")),
        }
    }
    // Files with every mistake that one can make.
    for text in [
        format!("endpoint: http://127.0.0.1:9\ntoken: {CANARY}\n"),
        format!("endpoint: http://127.0.0.1:9\ntoken: {CANARY}\ntoken: {CANARY}\n"),
        format!("endpoint: 7\ntoken: [{CANARY}]\nunknown: x\n"),
        format!("endpoint: http://127.0.0.1:9\ntoken: {{a: {CANARY}}}\n"),
        format!("token: \"{CANARY}\n"),
        CANARY.to_owned(),
        format!("- {CANARY}\n"),
        format!(
            "endpoint: http://127.0.0.1:9\ntokenFile: {}\ntoken: {CANARY}\n",
            file.display()
        ),
        format!("\ttoken: {CANARY}\n"),
    ] {
        let setup = Setup::of(ConfigFile {
            path: "cloud.yaml".to_owned(),
            text,
        });
        outputs.show(&setup);
        if let Ok(mut settings) = YamlSettings::yaml(&setup) {
            outputs.show(&settings.credential());
            settings
                .finish()
                .err()
                .iter()
                .for_each(|error| outputs.say(format!("{error} {error:?}")));
        }
        factory(&setup)
            .err()
            .iter()
            .for_each(|error| outputs.say(format!("{error} {error:?}")));
    }
    outputs.expect_no_canary(&["redacted", "cloud.yaml", "answered 500"]);
}

/// Flags for a server on this port, with the canary as token of both sides.
fn flags(directory: &Path, api: &str, cloud: &str) -> Flags {
    let kubeconfig = directory.join("kubeconfig");
    let config = directory.join("cloud.yaml");
    std::fs::write(
        &kubeconfig,
        embedded_apiserver::kubeconfig(api, None, Some(CANARY)),
    )
    .unwrap();
    std::fs::write(&config, format!("endpoint: {cloud}\ntoken: {CANARY}\n")).unwrap();
    let arguments = [
        "cloud-controller-manager".to_owned(),
        "--cloud-provider=simulated".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--cloud-config={}", config.display()),
        "--configure-cloud-routes=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials".to_owned(),
        "--authentication-skip-lookup".to_owned(),
    ];
    match Flags::parse(arguments.map(Into::into)) {
        Parsed::Flags(flags) => *flags,
        other => panic!("{other:?}"),
    }
}

/// Runs the whole program from its files over the network; without a paused clock, and hence without long pauses.
#[tokio::test]
async fn inv_5_the_program_tells_nothing_of_its_files() {
    ccm_tests::install_crypto();
    for format in FORMATS {
        live_from_files(format).await;
    }
}

async fn live_from_files(format: Format) {
    let outputs = Outputs::default();
    let _log = outputs.listen(format);
    let directory = tempfile::tempdir().unwrap();
    let shutdown = CancellationToken::new();
    let _until_the_end = shutdown.clone().drop_guard();
    let users = [(CANARY.to_owned(), embedded_apiserver::User::admin())];
    let options = embedded_apiserver::Options {
        tokens: users.into(),
        require_token: true,
        ..Default::default()
    };
    let api = ApiServer::with_options(options);
    let cloud = Cloud::default();
    let for_api = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let for_cloud = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let flags = flags(directory.path(), &address(&for_api), &address(&for_cloud));
    let served_api = api.clone();
    let served_cloud = cloud.clone();
    let stop = shutdown.clone();
    tokio::spawn(async move { served_api.serve_tcp(for_api, stop).await });
    let stop = shutdown.clone();
    tokio::spawn(async move { served_cloud.serve(for_cloud, stop).await });

    let mut providers = Registry::new();
    providers.register("simulated", factory);
    outputs.show(&flags);
    outputs.show(&flags.configuration().options);
    logging::log_flags(flags.dump());
    let manager = Manager::new(&providers);
    let stop = shutdown.clone();
    // First the cloud does not know the token.
    let refused = match manager.prepare(&flags, &stop).await {
        Ok(process) => process.run().await.expect_err("the token is unknown"),
        Err(refused) => refused,
    };
    outputs.say(format!("{refused:?} {refused:#}"));
    cloud.add_token(CANARY, DEFAULT_PROJECT);
    cloud.create_machines("worker-", 1);
    let process = manager.prepare(&flags, &stop).await.unwrap();
    let router = process.router();
    let running =
        tokio::spawn(async move { process.run().await.map_err(|failure| failure.to_string()) });
    let node = ccm_conformance::node_object::registration("worker-1", 0, true);
    let user = User::of(&api);
    let request = user
        .request_as(
            CANARY,
            http::Method::POST,
            "/api/v1/nodes",
            "application/json",
            &node,
        )
        .await;
    assert_eq!(request.0, 201, "{}", request.1);
    ccm_tests::wait::until("an initialised Node", Duration::from_secs(30), async || {
        let node = api.get("nodes", None, "worker-1").unwrap_or_default();
        anyhow::ensure!(node["spec"]["providerID"].is_string(), "not yet");
        Ok(())
    })
    .await
    .unwrap();
    for path in [
        "/metrics",
        "/metrics/slis",
        "/configz",
        "/healthz?verbose",
        "/readyz?verbose",
        "/debug/flags/v",
        "/nothing",
    ] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let head = format!("{path} {} {:?}", answer.status(), answer.headers());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        outputs.say(format!("{head}\n{}", String::from_utf8_lossy(&body)));
    }
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert!(
        api.requests().count("create", "serviceaccounts/token") >= 1,
        "accounts of their own"
    );
    say_all_objects(&outputs, &api);
    let expected = [
        "401",
        "FLAG: --kubeconfig=",
        "node initialised",
        "Synced",
        "rest_client_requests_total",
        "/configz 200",
    ];
    outputs.expect_no_canary(&expected);
    outputs.expect_none_of(ISSUED);
}
