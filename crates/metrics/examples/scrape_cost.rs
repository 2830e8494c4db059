//! Measures the cost of a scrape with 5,000 Nodes and 1,000 Services in the caches and every label in use.
//!
//! ```text
//! cargo run --release -p metrics --example scrape_cost
//! ```

use std::time::{Duration, Instant};

use cloud_provider::names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED};
use cloud_provider::{Node, Service, Taint};
use controllers::options::ServiceOptions;
use http::{Method, Uri};
use metrics::Metrics;
use runtime::cache::Cache;
use runtime::client::RequestInfo;
use serde_json::json;

const NODES: usize = 5000;
const SERVICES: usize = 1000;
const SCRAPES: usize = 200;
const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() {
    let metrics = Metrics::new();
    use_labels(&metrics);
    metrics.count_nodes(nodes(), |_| true);
    metrics.count_services(services(), ServiceOptions::default());

    let mut times: Vec<Duration> = (0..SCRAPES)
        .map(|_| time(|| drop(metrics.render())))
        .collect();
    times.sort();
    let text = metrics.render();
    println!(
        "{{\"series_lines\": {}, \"bytes\": {}}}",
        text.lines().filter(|line| !line.starts_with('#')).count(),
        text.len()
    );
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let median = times[SCRAPES / 2];
    let worst = times[SCRAPES - 1];
    println!(
        "{{\"scrape_ms_median\": {:.2}, \"scrape_ms_worst\": {:.2}}}",
        milliseconds(median),
        milliseconds(worst)
    );

    let queues = metrics.queues();
    let requests = metrics.requests();
    let updates = 100_000;
    let queue = time(|| (0..updates).for_each(|_| queues.waited("Nodes", MILLISECOND)));
    let info = request(&Method::PATCH);
    let request =
        time(|| (0..updates).for_each(|_| requests.answered(&info, Some(200), MILLISECOND)));
    let nanoseconds = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(updates);
    println!(
        "{{\"queue_update_ns\": {:.0}, \"request_update_ns\": {:.0}}}",
        nanoseconds(queue),
        nanoseconds(request)
    );
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn request(method: &Method) -> RequestInfo {
    RequestInfo::new(
        method,
        &Uri::from_static("/api/v1/nodes/a"),
        "10.0.0.1:443".into(),
    )
}

/// Uses every queue, verb and operation with several codes, as in a process that has run for long.
fn use_labels(metrics: &Metrics) {
    let requests = metrics.requests();
    for method in [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ] {
        for code in [Some(200), Some(404), Some(409), Some(429), Some(503), None] {
            requests.answered(&request(&method), code, MILLISECOND);
        }
    }
    ["Nodes", "service", "node", "Routes", "pvlabel"]
        .iter()
        .for_each(|queue| metrics.queues().created(queue));
    for operation in 0..30 {
        for code in [Some(200), Some(404), Some(429), None] {
            metrics.cloud("acme").finished(
                &format!("GET /v1/operation/{operation}"),
                code,
                MILLISECOND,
            );
        }
    }
    _ = (
        metrics.nodes(),
        metrics.lifecycle(),
        metrics.services(),
        metrics.routes(),
    );
}

fn nodes() -> Cache<Node> {
    Cache::with((0..NODES).map(|n| {
        let taints = (n % 2 == 0).then(|| Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE));
        let created = "2026-01-01T00:00:00Z".parse().ok();
        Node {
            name: format!("worker-{n}").into(),
            created,
            taints: taints.into_iter().collect(),
            ..Node::default()
        }
    }))
}

fn services() -> Cache<Service> {
    Cache::with((0..SERVICES).filter_map(|n| {
        let object =
            json!({"metadata": {"name": format!("web-{n}"), "namespace": "default"}, "spec": {"type": "LoadBalancer"}});
        serde_json::from_value(object).ok()
    }))
}
