//! Merging, counting and limiting as tables; sending in virtual time.
//!
//! Rules: RT-25 to RT-27, D-112.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::ManualClock;

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new("2026-01-02T03:04:05.6Z".parse().unwrap()))
}

fn event(object: &str, reason: &str, message: &str, at: Duration) -> RecordedEvent {
    let time: jiff::Timestamp = "2026-01-02T03:04:05.6Z".parse().unwrap();
    RecordedEvent {
        component: "cloud-node-controller".into(),
        regarding: ObjectRef::node(object, "uid-1"),
        type_: EventType::Normal,
        reason: reason.into(),
        message: message.into(),
        time: time.checked_add(at).unwrap(),
    }
}

/// Formats an outcome as `create: message`, `patch 3`, `patch 3: message` or `drop`.
fn show(outcome: &CorrelationOutcome) -> String {
    match outcome {
        CorrelationOutcome::Create { event, .. } => {
            assert_eq!(event["count"], 1);
            format!("create: {}", event["message"].as_str().unwrap())
        }
        CorrelationOutcome::Patch { patch, .. } => match patch["message"].as_str() {
            Some(message) => format!("patch {}: {message}", patch["count"]),
            None => format!("patch {}", patch["count"]),
        },
        CorrelationOutcome::Drop => "drop".into(),
    }
}

fn run(events: &[RecordedEvent]) -> Vec<String> {
    let mut correlator = Correlator::new();
    let start = Instant::now();
    let first = events[0].time;
    events
        .iter()
        .map(|e| {
            let at = start + Duration::try_from(e.time.duration_since(first)).unwrap();
            show(&correlator.correlate(e, at))
        })
        .collect()
}

#[test]
fn a_new_event_is_a_complete_core_object() {
    let outcome =
        Correlator::new().correlate(&event("n", "Synced", "Node synced", s(0)), Instant::now());
    let expected = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "n.1886d0f57ce5c200", "namespace": "default"},
        "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": "n", "uid": "uid-1"},
        "reason": "Synced", "message": "Node synced", "type": "Normal",
        "source": {"component": "cloud-node-controller"},
        "reportingComponent": "cloud-node-controller", "reportingInstance": "",
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z", "count": 1,
    });
    let CorrelationOutcome::Create {
        namespace,
        mut event,
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    let nanoseconds = "2026-01-02T03:04:05.6Z"
        .parse::<jiff::Timestamp>()
        .unwrap()
        .as_nanosecond();
    assert_eq!(event["metadata"]["name"], format!("n.{nanoseconds:x}"));
    event["metadata"]["name"] = expected["metadata"]["name"].clone();
    assert_eq!((namespace.as_str(), event), ("default", expected));
}

#[test]
fn an_exact_repeat_is_counted_on_the_same_object() {
    let mut correlator = Correlator::new();
    let now = Instant::now();
    let first = correlator.correlate(&event("n", "R", "m", s(0)), now);
    let second = correlator.correlate(&event("n", "R", "m", s(9)), now + s(9));
    let (
        CorrelationOutcome::Create { event: created, .. },
        CorrelationOutcome::Patch {
            name, patch, event, ..
        },
    ) = (&first, &second)
    else {
        panic!("{first:?} {second:?}")
    };
    assert_eq!(created["metadata"]["name"], name.as_str());
    assert_eq!(
        patch,
        &json!({"count": 2, "lastTimestamp": "2026-01-02T03:04:14Z"})
    );
    assert_eq!(
        (&event["firstTimestamp"], &event["count"]),
        (&json!("2026-01-02T03:04:05Z"), &json!(2))
    );
}

#[test]
fn attempts_that_differ_in_the_request_id_only_are_one_event_with_the_last_id() {
    let text = |id: u32| format!("no quota (x-correlation-id {id}); raise it");
    let events: Vec<_> = (1..=12)
        .map(|i| event("n", "R", &text(i), s(u64::from(i))))
        .collect();
    let shown = run(&events);
    assert_eq!(shown[0], "create: no quota (x-correlation-id 1); raise it");
    assert_eq!(
        shown[11],
        "patch 12: no quota (x-correlation-id 12); raise it"
    );
    assert_eq!(
        shown
            .iter()
            .filter(|line| line.starts_with("create"))
            .count(),
        1,
        "{shown:?}"
    );
}

#[test]
fn events_are_merged_from_the_tenth_different_message_on() {
    let mut events: Vec<_> = (1..=12)
        .map(|i| event("n", "R", &format!("m{i}"), s(i)))
        .collect();
    events.push(event("n", "R", "m3", s(20)));
    events.push(event("n", "Other", "m1", s(21)));
    events.push(event("other", "R", "m1", s(21)));
    let mut expected: Vec<_> = (1..=9).map(|i| format!("create: m{i}")).collect();
    expected.push("create: (combined from similar events): m10".into());
    expected.push("patch 2: (combined from similar events): m11".into());
    expected.push("patch 3: (combined from similar events): m12".into());
    expected.push("patch 2".into());
    expected.push("create: m1".into());
    expected.push("create: m1".into());
    assert_eq!(run(&events), expected);
}

#[test]
fn a_group_ends_after_ten_minutes_of_silence_only() {
    // Every 600 s: one group. The spam filter lets these pass, one per 300 s.
    let steady: Vec<_> = (0..12)
        .map(|i| event("n", "R", &format!("m{i}"), s(600 * i)))
        .collect();
    assert!(run(&steady)[9].contains("combined") && run(&steady)[11].starts_with("patch 3"));
    let seldom: Vec<_> = (0..12)
        .map(|i| event("n", "R", &format!("m{i}"), s(601 * i)))
        .collect();
    assert!(run(&seldom).iter().all(|o| o.starts_with("create: m")));
}

#[test]
fn twenty_five_events_about_an_object_may_come_at_once_then_one_each_five_minutes() {
    let mut events: Vec<_> = (0..30).map(|_| event("n", "R", "m", s(0))).collect();
    let mut warning = event("n", "R", "m", s(1));
    warning.type_ = EventType::Warning;
    events.push(warning);
    events.push(event("other", "R", "m", s(1)));
    events.extend([
        event("n", "R", "m", s(299)),
        event("n", "R", "m", s(300)),
        event("n", "R", "m", s(301)),
    ]);
    let outcomes = run(&events);
    assert_eq!(outcomes[0], "create: m");
    assert_eq!(outcomes[24], "patch 25");
    assert!(
        outcomes[25..30].iter().all(|o| o == "drop"),
        "repeats count too"
    );
    assert_eq!(
        outcomes[30..],
        ["create: m", "create: m", "drop", "patch 32", "drop"],
        "types have limits of their own"
    );
}

#[test]
fn the_memory_is_bounded() {
    let mut correlator = Correlator::new();
    let now = Instant::now();
    for i in 0..5_000 {
        correlator.correlate(&event(&format!("n{i}"), "R", "m", s(0)), now);
    }
    assert_eq!(
        show(&correlator.correlate(&event("n4999", "R", "m", s(1)), now)),
        "patch 2"
    );
    assert_eq!(
        show(&correlator.correlate(&event("n0", "R", "m", s(1)), now)),
        "create: m",
        "forgotten"
    );
}

/// A sink that records its events, and fails as configured.
#[derive(Default)]
struct Sink {
    log: Mutex<Vec<String>>,
    /// Errors of the next calls, in order.
    failures: Mutex<Vec<SinkError>>,
    slow: Duration,
    in_flight: Mutex<(usize, usize)>,
}

impl Sink {
    async fn call(&self, what: String) -> Result<(), SinkError> {
        {
            let mut flight = self.in_flight.lock();
            flight.0 += 1;
            flight.1 = flight.1.max(flight.0);
        }
        sleep(self.slow).await;
        self.in_flight.lock().0 -= 1;
        let failure = self.failures.lock().pop();
        let sign = if failure.is_some() { "! " } else { "" };
        self.log.lock().push(format!("{sign}{what}"));
        failure.map_or(Ok(()), Err)
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }
}

impl EventSink for Sink {
    fn create<'a>(
        &'a self,
        namespace: &'a str,
        event: &'a Value,
    ) -> BoxFuture<'a, Result<(), SinkError>> {
        let object = &event["involvedObject"]["name"];
        let message = &event["message"];
        Box::pin(self.call(format!(
            "create {namespace}/{} {}",
            object.as_str().unwrap(),
            message.as_str().unwrap()
        )))
    }

    fn patch<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        patch: &'a Value,
    ) -> BoxFuture<'a, Result<(), SinkError>> {
        let object = name.split('.').next().unwrap();
        Box::pin(self.call(format!("patch {namespace}/{object} {}", patch["count"])))
    }
}

fn start(
    sink: Sink,
) -> (
    Arc<Sink>,
    EventRecorder,
    CancellationToken,
    tokio::task::JoinHandle<()>,
) {
    let sink = Arc::new(sink);
    let shutdown = CancellationToken::new();
    let (recorder, sender) = recorder_into(Arc::clone(&sink) as Arc<dyn EventSink>, "c", clock());
    let task = tokio::spawn(sender.run(shutdown.clone()));
    (sink, recorder, shutdown, task)
}

fn note(recorder: &EventRecorder, object: &str, message: &str) {
    recorder.event(
        &ObjectRef::node(object, "u"),
        EventType::Normal,
        "R",
        message,
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_tried_twelve_times() {
    let down = || SinkError::Transport("connection refused".into());
    let (sink, recorder, _shutdown, _task) = start(Sink {
        failures: Mutex::new(vec![down(); 12 + 11]),
        ..Sink::default()
    });
    note(&recorder, "n", "lost");
    sleep(s(100)).await;
    assert!(
        (10..=11).contains(&sink.log().len()),
        "ten seconds apart, the first pause is shorter"
    );
    sleep(s(20)).await;
    assert_eq!(sink.log(), vec!["! create default/n lost"; 12]);
    note(&recorder, "n", "late");
    sleep(s(120)).await;
    assert_eq!(
        sink.log()[12..],
        [
            vec!["! create default/n late"; 11],
            vec!["create default/n late"]
        ]
        .concat()
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_event_is_dropped_and_a_missing_one_created_again() {
    let failures = vec![
        SinkError::NotFound("events \"n.1\" not found".into()),
        SinkError::Rejected("forbidden".into()),
    ];
    let (sink, recorder, _shutdown, _task) = start(Sink {
        failures: Mutex::new(failures),
        ..Sink::default()
    });
    note(&recorder, "n", "m");
    note(&recorder, "n", "m");
    note(&recorder, "n", "m");
    sleep(s(1)).await;
    assert_eq!(
        sink.log(),
        [
            "! create default/n m",
            "! patch default/n 2",
            "create default/n m",
            "patch default/n 3"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits_and_a_full_queue_drops() {
    let (sink, recorder, _shutdown, _task) = start(Sink {
        slow: s(1),
        ..Sink::default()
    });
    for i in 0..12_000 {
        note(&recorder, &format!("n{i}"), "m");
    }
    sleep(s(10_000)).await;
    assert_eq!(sink.log().len(), 10_000, "D-112");
    let (running, most) = *sink.in_flight.lock();
    assert!(running == 0 && (2..=4).contains(&most), "{most} at once");
}

#[tokio::test(start_paused = true)]
async fn events_about_one_object_keep_their_order() {
    let (sink, recorder, _shutdown, _task) = start(Sink {
        slow: s(1),
        ..Sink::default()
    });
    for i in 0..9 {
        note(&recorder, "n", &format!("m{i}"));
        note(&recorder, &format!("o{i}"), "x");
    }
    sleep(s(60)).await;
    let of_n: Vec<_> = sink
        .log()
        .into_iter()
        .filter(|l| l.contains("/n "))
        .collect();
    assert_eq!(
        of_n,
        (0..9)
            .map(|i| format!("create default/n m{i}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(sink.log().len(), 18);
}

#[tokio::test(start_paused = true)]
async fn a_stop_flushes_what_is_queued_but_not_for_ever() {
    let (sink, recorder, shutdown, task) = start(Sink {
        slow: Duration::from_millis(500),
        ..Sink::default()
    });
    (0..8).for_each(|i| note(&recorder, &format!("n{i}"), "m"));
    shutdown.cancel();
    let begin = Instant::now();
    task.await.unwrap();
    assert!(
        begin.elapsed() <= s(4) && sink.log().len() >= 4,
        "{:?}",
        sink.log()
    );
    note(&recorder, "late", "m");

    let (sink, recorder, shutdown, task) = start(Sink {
        slow: s(3600),
        ..Sink::default()
    });
    note(&recorder, "n", "m");
    shutdown.cancel();
    let begin = Instant::now();
    task.await.unwrap();
    assert_eq!((begin.elapsed(), sink.log().len()), (s(3), 0));
}

#[tokio::test(start_paused = true)]
async fn the_sender_ends_with_the_last_recorder() {
    let (sink, recorder, _shutdown, task) = start(Sink::default());
    note(&recorder.for_component("other"), "n", "m");
    drop(recorder);
    task.await.unwrap();
    assert_eq!(sink.log().len(), 1);
}

#[test]
fn a_test_can_keep_events_in_memory() {
    let (recorder, events) = EventRecorder::to_memory("c", clock());
    note(&recorder, "n", "m");
    note(&recorder, "n", "m");
    assert_eq!(events.lock().len(), 2, "nothing is merged");
    assert_eq!(events.lock()[0].regarding.to_string(), "Node n");
}

#[test]
fn message_of_an_event_controls_no_terminal() {
    let (recorder, events) = EventRecorder::to_memory("c", clock());
    note(
        &recorder,
        "n",
        "annotation subnets: \"a\u{1b}[2J\u{7}\nNormal  Synced\u{202e}\" is no subnet",
    );
    let expected = r#"annotation subnets: "a\x1b[2J\a\nNormal  Synced\u202e" is no subnet"#;
    assert_eq!(events.lock()[0].message, expected);
}
