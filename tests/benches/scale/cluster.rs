//! The API server, embedded or real, and the Nodes in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::serve::ListenerExt;
use ccm_conformance::node_object::{readiness, registration};
use ccm_tests::api_requests::{ApiRequest, ApiRequests};
use ccm_tests::wait::{until, until_every};
use cloud_provider::names::LABEL_EXCLUDE_BALANCER;
use embedded_apiserver::{ApiServer, Options};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, Node as ApiNode};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use runtime::node::NodeObject;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::arguments::Arguments;
use crate::counters::Counters;

/// Label of the objects of this program.
pub(crate) const OURS: &str = "example.com/scale";
/// Requests at the same time.
pub(crate) const CONCURRENT: usize = 16;

/// Names of Nodes and of their machines. Azure's Go program reads the number of an instance from the last six characters.
pub(crate) fn node_names(count: usize) -> Vec<String> {
    (1..=count)
        .map(|number| format!("scale-{number:06}"))
        .collect()
}

/// The cluster of a run.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    kubeconfig: PathBuf,
    counted: Counted,
}

/// Source of the counts of the controller's requests.
enum Counted {
    /// The controller's requests come through a port of their own.
    AtItsPort(ApiRequests),
    /// The server's own counters, less the requests of this program.
    ByTheServer { ours: Mutex<Counters> },
}

impl Cluster {
    /// Returns the real cluster of `CCM_TEST_KUBECONFIG`, or an embedded one.
    pub(crate) async fn from_environment(directory: &Path) -> Result<Self> {
        match std::env::var_os("CCM_TEST_KUBECONFIG").filter(|path| !path.is_empty()) {
            Some(path) => Self::real(PathBuf::from(path)).await,
            None => Self::embedded(directory).await,
        }
    }

    async fn embedded(directory: &Path) -> Result<Self> {
        // As much history as a real server keeps of a burst, and no log of requests.
        let server = ApiServer::with_options(Options {
            history: 100_000,
            request_log: 0,
            ..Options::default()
        });
        let requests = ApiRequests::counts_only();
        let router = server
            .router()
            .layer(from_fn_with_state(requests.clone(), note));
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("a port for the API server")?;
        let url = format!("http://{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            // Without it a small answer may wait for an acknowledgement; it still arrives.
            _ = stream.set_nodelay(true);
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(
            &kubeconfig,
            embedded_apiserver::kubeconfig(&url, None, None),
        )?;
        let client = Client::new(server.service(), "default");
        Ok(Self {
            client,
            kubeconfig,
            counted: Counted::AtItsPort(requests),
        })
    }

    async fn real(kubeconfig: PathBuf) -> Result<Self> {
        let file = Kubeconfig::read_from(&kubeconfig)
            .with_context(|| format!("reading {}", kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let (nodes, not_ours): (Api<ApiNode>, _) = (Api::all(client.clone()), format!("!{OURS}"));
        let others = nodes
            .list_metadata(&ListParams::default().labels(&not_ours))
            .await;
        let others = others
            .context("the cluster of CCM_TEST_KUBECONFIG")?
            .items
            .len();
        ensure!(
            others == 0,
            "the cluster has {others} Nodes of others; this needs one for itself"
        );
        Ok(Self {
            client,
            kubeconfig,
            counted: Counted::ByTheServer {
                ours: Mutex::default(),
            },
        })
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.counted, Counted::ByTheServer { .. })
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.is_real() {
            "kube-apiserver"
        } else {
            "embedded"
        }
    }

    /// Returns the path of the kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the controller's requests so far. Events of a real server are those of all clients except this program.
    pub(crate) async fn requests(&self) -> Result<Counters> {
        match &self.counted {
            Counted::AtItsPort(requests) => {
                let counts = requests.counts().into_iter();
                Ok(counts
                    .map(|((verb, resource), count)| (format!("{verb} {resource}"), count))
                    .collect())
            }
            Counted::ByTheServer { ours } => {
                let request = http::Request::get("/metrics").body(Vec::new())?;
                let all = served(
                    &self
                        .client
                        .request_text(request)
                        .await
                        .context("the API server's metrics")?,
                );
                let mut others = ours.lock().clone();
                others.add("POST events".to_owned(), self.events_of_the_server().await?);
                Ok(all.since(&others))
            }
        }
    }

    /// Events that kube-apiserver itself created: it takes addresses of Services that are being deleted for leaked ones.
    async fn events_of_the_server(&self) -> Result<u64> {
        let events: Api<Event> = Api::all(self.client.clone());
        let theirs =
            ListParams::default().fields("reportingComponent=ipallocator-repair-controller");
        Ok(events
            .list_metadata(&theirs)
            .await
            .context("the API server's own events")?
            .items
            .len() as u64)
    }

    /// Counts a request of this program, which the server counts as well.
    pub(crate) fn note_ours(&self, request: &str) {
        if let Counted::ByTheServer { ours } = &self.counted {
            ours.lock().add(request.to_owned(), 1);
        }
    }

    fn nodes(&self) -> Api<NodeObject> {
        Api::all(self.client.clone())
    }

    /// Registers Nodes as kubelets do.
    pub(crate) async fn register(&self, names: &[String], arguments: &Arguments) -> Result<()> {
        let api: Api<ApiNode> = Api::all(self.client.clone());
        let registrations = names.iter().map(|name| {
            let api = api.clone();
            async move {
                let mut object = registration(name, arguments.images, true);
                if arguments.plain {
                    object = plain(&object);
                }
                object["metadata"]["labels"][OURS] = json!("true");
                self.note_ours("POST nodes");
                api.create(&PostParams::default(), &serde_json::from_value(object)?)
                    .await?;
                anyhow::Ok(())
            }
        });
        futures::stream::iter(registrations)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await
            .context("registering Nodes")
    }

    /// Says of Nodes whether they are ready.
    pub(crate) async fn report(&self, names: &[String], is_ready: bool) -> Result<()> {
        let api = self.nodes();
        let reports = names.iter().map(|name| {
            let api = api.clone();
            async move {
                self.note_ours("PATCH nodes/status");
                api.patch_status(
                    name,
                    &PatchParams::default(),
                    &Patch::Strategic(readiness(is_ready)),
                )
                .await?;
                anyhow::Ok(())
            }
        });
        futures::stream::iter(reports)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await
    }

    /// Keeps a Node out of load balancers, and lets it in again at once.
    pub(crate) async fn flip_exclusion(&self, name: &str) -> Result<()> {
        for value in [Some("true"), None] {
            self.note_ours("PATCH nodes");
            let patch =
                Patch::Merge(json!({"metadata": {"labels": {LABEL_EXCLUDE_BALANCER: value}}}));
            self.nodes()
                .patch_metadata(name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// Waits until a Node meets `check`, which receives `None` if the Node does not exist.
    pub(crate) async fn becomes(
        &self,
        name: &str,
        limit: Duration,
        check: impl Fn(Option<&cloud_provider::Node>) -> bool,
    ) -> Result<()> {
        until(
            &format!("Node {name} is as it should be"),
            limit,
            async || {
                self.note_ours("GET nodes");
                let node = self.nodes().get_opt(name).await?;
                ensure!(
                    check(node.as_ref().map(|object| &object.node)),
                    "it is {node:?}"
                );
                Ok(())
            },
        )
        .await
    }

    /// Waits until every Node has a region: the first of its two writes.
    pub(crate) async fn all_have_a_region(&self, limit: Duration) -> Result<()> {
        let selector = format!("{OURS},!{}", cloud_provider::names::LABEL_REGION);
        let one = ListParams::default().labels(&selector).limit(1);
        // Each poll costs the API server some milliseconds, which the controller would have used.
        until_every(
            Duration::from_millis(250),
            "all Nodes have labels",
            limit,
            async || {
                self.note_ours("LIST nodes");
                let nodes = self.nodes().list_metadata(&one).await?;
                ensure!(nodes.items.is_empty(), "some have none");
                Ok(())
            },
        )
        .await
    }

    /// Returns all Nodes of the benchmark.
    pub(crate) async fn list(&self) -> Result<Vec<cloud_provider::Node>> {
        self.note_ours("LIST nodes");
        let nodes = self
            .nodes()
            .list(&ListParams::default().labels(OURS))
            .await?;
        Ok(nodes.into_iter().map(|object| object.node).collect())
    }

    /// Removes the Nodes of this program.
    pub(crate) async fn delete_nodes(&self) -> Result<()> {
        let api: Api<ApiNode> = Api::all(self.client.clone());
        self.note_ours("DELETE nodes");
        api.delete_collection(
            &DeleteParams::default(),
            &ListParams::default().labels(OURS),
        )
        .await
        .context("removing Nodes")?;
        Ok(())
    }
}

/// Returns the fields of a Node that the peers' benchmark keeps.
fn plain(node: &Value) -> Value {
    let labels = &node["metadata"]["labels"];
    let status = &node["status"];
    let ready: Vec<_> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|c| c["type"] == "Ready")
        .collect();
    let kept = ["kubernetes.io/hostname", "kubernetes.io/os"]
        .map(|key| (key.to_owned(), labels[key].clone()));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node["metadata"]["name"], "labels": serde_json::Map::from_iter(kept)},
        "spec": node["spec"],
        "status": {"conditions": ready, "addresses": status["addresses"], "images": status["images"],
            "nodeInfo": status["nodeInfo"]},
    })
}

async fn note(State(requests): State<ApiRequests>, request: Request, next: Next) -> Response {
    let mut noted = ApiRequest::read(request.method(), request.uri());
    let answer = next.run(request).await;
    noted.status = answer.status().as_u16();
    requests.push(noted);
    answer
}

/// Returns the requests for Nodes, Services and Events in a server's metrics, without the server's own.
fn served(metrics: &str) -> Counters {
    let samples = metrics.lines().filter_map(|line| {
        line.strip_prefix("apiserver_request_total{")?
            .split_once("} ")
    });
    let counts = samples.filter_map(|(labels, count)| {
        let label = |name: &str| {
            let from = labels.split_once(&format!("{name}=\""))?.1;
            Some(from.split_once('"')?.0).filter(|value| !value.is_empty())
        };
        // `subresource` ends in `resource`; the comma distinguishes them.
        let resource = label(",resource")
            .filter(|resource| matches!(*resource, "nodes" | "events" | "services"))?;
        let subresource = label("subresource")
            .map(|subresource| format!("/{subresource}"))
            .unwrap_or_default();
        let count = count.trim().parse::<f64>().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a counter of requests"
        )]
        Some((
            format!("{} {resource}{subresource}", label("verb")?),
            count as u64,
        ))
    });
    counts.collect()
}
