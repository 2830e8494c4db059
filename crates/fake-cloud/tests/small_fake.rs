//! Tests of a small fake with the building blocks of this crate.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use fake_cloud::{
    ApiRequest, Bucket, Cloud, Effects, Fault, FaultKind, Handle, Next, Objects, Operations, Page,
    Port, Refused, Reply, Routes, console, merge,
};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

/// A cloud with machines, by name, and their operations in the background.
#[derive(Default)]
struct Acme {
    machines: BTreeMap<String, Value>,
    work: Operations,
}

fn list(acme: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    let number = request
        .query("page")
        .and_then(|query| query.parse().ok())
        .unwrap_or(1);
    let page = Page::numbered(acme.machines.values(), number, 2, &request.effects);
    let next = match page.next {
        Next::Nothing => None,
        Next::Following => Some(number + 1),
        Next::Itself => Some(number),
    };
    Ok(Reply::new(
        200,
        json!({"machines": page.items, "total": page.total, "next_page": next}),
    ))
}

fn create(acme: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    let name = request.body["name"]
        .as_str()
        .ok_or_else(|| Refused::new(422, "invalid", "name is missing"))?;
    let machine = json!({"name": name, "state": "building"});
    acme.machines.insert(name.to_owned(), machine.clone());
    acme.work
        .begin(name, Duration::from_secs(3), &request.effects);
    Ok(Reply::new(202, machine))
}

fn get(acme: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    let machine = acme
        .machines
        .get(request.id())
        .ok_or_else(|| Refused::new(404, "not_found", "there is none"))?;
    Ok(Reply::new(200, machine.clone()))
}

impl Cloud for Acme {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[Routes {
        prefix: "/v1",
        service: (),
        table: &[
            ("GET", "/machines", list),
            ("POST", "/machines", create),
            ("GET", "/machines/{name}", get),
        ],
    }];

    fn advance(&mut self, _: Instant) {
        for (name, work) in self.work.finished() {
            let state = if work.error.is_some() {
                "failed"
            } else {
                "running"
            };
            self.machines
                .entry(name)
                .and_modify(|entry| entry["state"] = state.into());
        }
    }
    fn admit(&mut self, request: &mut ApiRequest<()>) -> Result<(), Refused> {
        match request.header("authorization") {
            Some("Bearer token") => Ok(()),
            _ => Err(Refused::new(401, "unauthorized", "the token is not known")),
        }
    }
    fn render_refusal(_: &ApiRequest<()>, refused: Refused) -> Reply {
        let status = refused
            .status
            .unwrap_or(if refused.code == "busy" { 409 } else { 500 });
        Reply::new(status, json!({"code": refused.code}))
    }
}

/// Sends a request; returns status, headers, and the body, or `None` if it broke off.
async fn send(
    acme: &Handle<Acme>,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, HeaderMap, Option<Value>) {
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer token");
    let answer = acme
        .router()
        .oneshot(request.body(body).unwrap())
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let headers = answer.headers().clone();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .ok()
        .map(http_body_util::Collected::to_bytes);
    (
        status,
        headers,
        bytes.map(|bytes| serde_json::from_slice(&bytes).unwrap_or_default()),
    )
}

async fn ask(acme: &Handle<Acme>, path: &str) -> (u16, Value) {
    let (status, _, body) = send(acme, "GET", path, &Value::Null).await;
    (status, body.unwrap_or_default())
}

async fn make(acme: &Handle<Acme>, name: &str) -> u16 {
    send(acme, "POST", "/v1/machines", &json!({"name": name}))
        .await
        .0
}

#[tokio::test(start_paused = true)]
async fn request_reaches_its_handler_and_is_recorded() {
    let acme = Handle::new(Acme::default());
    assert_eq!(make(&acme, "a").await, 202);
    assert_eq!(send(&acme, "POST", "/v1/machines", &json!({})).await.0, 422);
    assert_eq!(
        ask(&acme, "/v1/machines/a").await,
        (200, json!({"name": "a", "state": "building"}))
    );
    assert_eq!(ask(&acme, "/v1/machines/b").await.0, 404);
    assert_eq!(
        ask(&acme, "/v1/nonsense").await,
        (404, json!({"code": "not_found"}))
    );
    assert_eq!(ask(&acme, "/elsewhere").await, (404, Value::Null));
    let nobody = Request::builder()
        .uri("/v1/machines")
        .body(Body::empty())
        .unwrap();
    assert_eq!(acme.router().oneshot(nobody).await.unwrap().status(), 401);

    let fault_injector = acme.fault_injector();
    assert_eq!(
        (
            fault_injector.count("GET /machines/{name}"),
            fault_injector.count("GET"),
            fault_injector.count("POST /machines")
        ),
        (2, 4, 2)
    );
    assert_eq!(
        fault_injector.bodies("POST /machines"),
        [json!({"name": "a"}), json!({})]
    );
    assert_eq!(fault_injector.changes().len(), 2);
    let last = fault_injector.requests().pop().unwrap();
    assert_eq!(
        (last.path.as_str(), last.status, last.is_mutation()),
        ("/v1/machines", 401, false)
    );
    fault_injector.forget_requests();
    assert!(fault_injector.counts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn faults_hit_the_named_route_the_given_number_of_times() {
    let acme = Handle::new(Acme::default());
    let fault_injector = acme.fault_injector();
    fault_injector.fail(Fault::status("GET /machines", 502).after(1).times(1));
    fault_injector.fail(Fault::code("POST", "busy").times(2));
    assert_eq!(
        (
            ask(&acme, "/v1/machines").await.0,
            ask(&acme, "/v1/machines").await.0
        ),
        (200, 502)
    );
    assert_eq!(
        ask(&acme, "/v1/machines").await.0,
        200,
        "the fault hits the second request only"
    );
    assert_eq!(
        (
            make(&acme, "a").await,
            make(&acme, "a").await,
            make(&acme, "a").await
        ),
        (409, 409, 202)
    );
    fault_injector.fail(Fault::retry_after("", 429, 7));
    let (status, headers, body) = send(&acme, "GET", "/v1/machines", &Value::Null).await;
    assert_eq!(
        (status, &headers["retry-after"], body),
        (429, &"7".parse().unwrap(), Some(json!({"code": ""})))
    );
    fault_injector.clear_faults();
    fault_injector.fail(Fault::refused_as("GET /machines", 403, "quota", "no"));
    assert_eq!(
        ask(&acme, "/v1/machines").await,
        (403, json!({"code": "quota"}))
    );
}

#[tokio::test(start_paused = true)]
async fn lost_and_cut_requests_are_applied_and_hanging_ones_are_not() {
    let acme = Handle::new(Acme::default());
    let fault_injector = acme.fault_injector();
    fault_injector.fail(Fault::new("POST", FaultKind::LostAnswer).times(1));
    assert_eq!(
        send(&acme, "POST", "/v1/machines", &json!({"name": "lost"}))
            .await
            .2,
        None
    );
    assert_eq!(fault_injector.requests()[0].status, 0, "the answer is lost");
    fault_injector.fail(Fault::new("POST", FaultKind::CutAnswer).times(1));
    let cut = send(&acme, "POST", "/v1/machines", &json!({"name": "cut"})).await;
    assert_eq!((cut.0, cut.2), (202, None));
    fault_injector.fail(Fault::new("POST", FaultKind::Hang).times(1));
    let hangs = timeout(Duration::from_secs(3600), make(&acme, "never")).await;
    assert!(hangs.is_err(), "the request is never answered");
    fault_injector.fail(Fault::new("POST", FaultKind::Latency(Duration::from_secs(9))).times(1));
    let begun = Instant::now();
    assert_eq!(make(&acme, "late").await, 202);
    assert_eq!(begun.elapsed(), Duration::from_secs(9));
    assert_eq!(
        acme.lock().machines.keys().collect::<Vec<_>>(),
        ["cut", "late", "lost"]
    );
}

#[tokio::test(start_paused = true)]
async fn background_operations_take_time_and_may_fail() {
    let acme = Handle::new(Acme::default());
    make(&acme, "good").await;
    acme.fault_injector()
        .fail(Fault::ends_in_error("POST /machines", "no_room"));
    make(&acme, "bad").await;
    let state =
        async |name: &str| ask(&acme, &format!("/v1/machines/{name}")).await.1["state"].clone();
    assert_eq!(
        (state("good").await, state("bad").await),
        (json!("building"), json!("building"))
    );
    acme.lock().work.is_frozen = true;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(state("good").await, "building", "nothing ends");
    acme.lock().work.is_frozen = false;
    assert_eq!(
        (state("good").await, state("bad").await),
        (json!("running"), json!("failed"))
    );
}

/// Returns the pages that a client reads, ten at most.
fn read(
    page: impl Fn(usize) -> Page<u32>,
    after: impl Fn(usize, &Page<u32>) -> usize,
) -> Vec<Vec<u32>> {
    let mut at = 0;
    let mut pages = Vec::new();
    while pages.len() < 10 {
        let page = page(at);
        pages.push(page.items.clone());
        match page.next {
            Next::Nothing => break,
            Next::Following => at = after(at, &page),
            Next::Itself => {}
        }
    }
    pages
}

#[tokio::test(start_paused = true)]
async fn paging_faults_are_the_same_for_all_forms_of_paging() {
    let whole = vec![vec![1, 2], vec![3, 4], vec![5]];
    let cases = [
        (FaultKind::LostAnswer, whole),
        (FaultKind::EmptyList, vec![vec![]]),
        (FaultKind::MissingPage(2), vec![vec![1, 2], vec![5]]),
        (FaultKind::EarlyEnd(2), vec![vec![1, 2], vec![3, 4]]),
        (FaultKind::EndlessList, vec![vec![1, 2]; 10]),
    ];
    for (kind, wanted) in cases {
        let effects = Effects::of([kind.clone()]);
        let numbered = read(
            |at| Page::numbered(1..=5, at + 1, 2, &effects),
            |at, _| at + 1,
        );
        assert_eq!(numbered, wanted, "{kind:?}");
        let after_the_last =
            |_: usize, page: &Page<u32>| usize::try_from(*page.items.last().unwrap()).unwrap();
        let by_marker = read(|at| Page::starting(1..=5, at, 2, &effects), after_the_last);
        assert_eq!(by_marker, wanted, "{kind:?}");
    }
    let none = Effects::default();
    let full = |at| Page::starting(1..=4, at, 2, &none).full_is_followed(2, &none);
    assert_eq!(read(full, |at, _| at + 2), [vec![1, 2], vec![3, 4], vec![]]);
    let page = Page::numbered(1..=5, 3, 2, &none);
    assert_eq!((page.number, page.last, page.total), (3, 3, 5));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_is_refilled_evenly() {
    let mut bucket = Bucket::new(60, Duration::from_secs(60), 2);
    assert_eq!(
        [(); 3].map(|()| bucket.take().is_exceeded),
        [false, false, true]
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let left = bucket.take();
    assert_eq!(
        (left.is_exceeded, left.remaining, left.full_in),
        (false, 1, Duration::from_secs(59))
    );
}

#[tokio::test]
async fn fake_on_a_port_is_served_until_it_is_dropped() {
    let acme = Handle::new(Acme::default());
    let port = Port::open("127.0.0.1:0").await.unwrap();
    let url = port.url();
    let served = port.serve(acme.router());
    assert_eq!(served.url(), url);
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /v1/machines HTTP/1.1\r\nhost: acme\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 401 ") && answer.ends_with(r#"{"code":"unauthorized"}"#),
        "{answer}"
    );
    drop(served);
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn long_answer_is_valid_and_its_read_bytes_are_counted() {
    let acme = Handle::new(Acme::default());
    let fault_injector = acme.fault_injector();
    fault_injector.fail(Fault::new("GET /machines", FaultKind::LongAnswer(100_000)).times(1));
    assert_eq!(ask(&acme, "/v1/machines").await.0, 200);
    assert_eq!(fault_injector.longest_padding(), 100_000);
    fault_injector.forget_requests();
    assert_eq!(fault_injector.longest_padding(), 0);
    fault_injector.fail(Fault::new("GET /machines", FaultKind::EndlessAnswer));
    let request = Request::builder()
        .uri("/v1/machines")
        .header("authorization", "Bearer token");
    let answer = acme
        .router()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let mut body = answer.into_body();
    for _ in 0..10 {
        assert!(body.frame().await.is_some());
    }
    assert_eq!(fault_injector.longest_padding(), 10 * 64 * 1024);
}

#[tokio::test]
async fn console_changes_and_shows_the_cloud_and_its_requests() {
    let acme = Handle::new(Acme::default());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shown").display().to_string();
    let command = |acme: &mut Acme, name: &str, argument: &str| {
        match name {
            "add" => drop(
                acme.machines
                    .insert(argument.to_owned(), json!({"name": argument})),
            ),
            "dump" => return Some(json!(acme.machines)),
            _ => return None,
        }
        Some(Value::Null)
    };
    console::execute(&acme, "add worker-1", command).unwrap();
    console::execute(&acme, &format!("dump {file}"), command).unwrap();
    assert_eq!(
        console::read(&file),
        json!({"worker-1": {"name": "worker-1"}})
    );
    send(&acme, "GET", "/v1/machines/worker-1", &Value::Null).await;
    console::execute(&acme, &format!("requests {file}"), command).unwrap();
    assert_eq!(console::read(&file)["route"], "GET /machines/{name}");
    assert!(acme.fault_injector().requests().is_empty());
    assert!(
        console::execute(&acme, "jump", command).is_err_and(|execute| execute == "unknown command")
    );
}

#[test]
fn objects_of_other_accounts_are_neither_found_nor_removed() {
    let mut objects = Objects::of("ours");
    for (id, account) in [(1, Value::Null), (2, "theirs".into())] {
        objects.add("machine", json!({"id": id, "_account": account}));
    }
    assert_eq!(
        objects
            .find("machine", "id", &json!(2), "NotFound")
            .unwrap_err()
            .code,
        "NotFound"
    );
    merge(
        objects
            .find("machine", "id", &json!(1), "NotFound")
            .unwrap(),
        &json!({"tags": {"a": 1}}),
    );
    merge(
        objects
            .find("machine", "id", &json!(1), "NotFound")
            .unwrap(),
        &json!({"tags": {"b": 2}}),
    );
    assert_eq!(
        objects.matching("machine", |_| true),
        [json!({"id": 1, "_account": "ours", "tags": {"a": 1, "b": 2}})]
    );
    assert_eq!(
        (
            objects.remove("machine", |_| true),
            objects.all("machine").len()
        ),
        (1, 1)
    );
    assert_eq!((objects.number(), objects.number()), (1, 2));
}
