use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cloud_provider::Error;
use futures::future::join_all;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;

/// A firewall as a cloud shows it; fields beside its ports belong to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Firewall {
    #[serde(default)]
    ports: BTreeSet<u16>,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

/// A cloud with versions, in which each request takes a second and port 13 is refused.
#[derive(Clone, Default)]
struct Cloud(Arc<State>);

#[derive(Default)]
struct State {
    document: Mutex<(Value, u64)>,
    reads: AtomicUsize,
    writes: AtomicUsize,
    /// The number of reads that are followed by another client's change before our write.
    interferences: AtomicUsize,
}

impl Cloud {
    fn ports(&self) -> BTreeSet<u16> {
        serde_json::from_value::<Firewall>(self.0.document.lock().0.clone())
            .unwrap()
            .ports
    }

    fn requests(&self) -> (usize, usize) {
        (
            self.0.reads.load(Ordering::Relaxed),
            self.0.writes.load(Ordering::Relaxed),
        )
    }
}

#[async_trait]
impl DocumentStore for Cloud {
    type Key = &'static str;
    type Document = Firewall;

    async fn read(&self, _: &&'static str) -> Result<Versioned<Firewall>> {
        sleep(Duration::from_secs(1)).await;
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let mut held = self.0.document.lock();
        if held.0.is_null() {
            held.0 = json!({"name": "workers"});
        }
        let found = Versioned {
            document: serde_json::from_value(held.0.clone()).unwrap(),
            version: Some(held.1.to_string()),
        };
        let left = &self.0.interferences;
        if left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
        {
            held.0["changed by hand"] = json!(held.1);
            held.1 += 1;
        }
        Ok(found)
    }

    async fn write(
        &self,
        _: &&'static str,
        document: Firewall,
        version: Option<&str>,
    ) -> Result<()> {
        sleep(Duration::from_secs(1)).await;
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        let mut held = self.0.document.lock();
        if version != Some(&held.1.to_string()) {
            return Err(Error::conflict("the document has another version"));
        }
        if document.ports.contains(&13) {
            return Err(Error::invalid("port 13 is not allowed"));
        }
        *held = (serde_json::to_value(document).unwrap(), held.1 + 1);
        Ok(())
    }
}

fn documents() -> (SharedDocuments<Cloud>, Cloud) {
    let cloud = Cloud::default();
    (SharedDocuments::new(cloud.clone()), cloud)
}

fn open(port: u16) -> impl Fn(&mut Firewall) -> Result<()> {
    move |firewall| {
        firewall.ports.insert(port);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_edits_at_once_are_written_together() {
    let (documents, cloud) = documents();
    let answers = join_all((100..200).map(|port| documents.edit(&"fw", open(port)))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(
        (cloud.ports().len(), cloud.requests()),
        (100, (2, 2)),
        "the first, and all that came meanwhile"
    );
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_changes_nothing_is_not_written() {
    let (documents, cloud) = documents();
    documents.edit(&"fw", open(80)).await.unwrap();
    documents.edit(&"fw", open(80)).await.unwrap();
    assert_eq!(cloud.requests(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn concurrently_changed_document_is_read_again_and_keeps_the_change() {
    let (documents, cloud) = documents();
    cloud.0.interferences.store(2, Ordering::Relaxed);
    documents.edit(&"fw", open(80)).await.unwrap();
    assert_eq!(cloud.requests(), (3, 3));
    let document = cloud.0.document.lock().0.clone();
    assert_eq!(
        document,
        json!({"name": "workers", "changed by hand": 1, "ports": [80]})
    );
}

#[tokio::test(start_paused = true)]
async fn document_that_always_changes_is_a_conflict_after_five_attempts() {
    let (documents, cloud) = documents();
    cloud.0.interferences.store(usize::MAX, Ordering::Relaxed);
    let err = documents.edit(&"fw", open(80)).await.unwrap_err();
    assert!(err.is_conflict() && cloud.requests().1 == ATTEMPTS, "{err}");
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_the_cloud_refuses_keeps_no_other_from_being_written() {
    let (documents, cloud) = documents();
    let ports: Vec<u16> = (10..42).collect();
    let answers = join_all(ports.iter().map(|port| documents.edit(&"fw", open(*port)))).await;
    let refused: Vec<u16> = ports
        .iter()
        .zip(&answers)
        .filter(|(_, port)| port.is_err())
        .map(|(port, _)| *port)
        .collect();
    assert_eq!((refused, cloud.ports().len()), (vec![13], 31));
    assert!(
        cloud.requests().1 <= 12,
        "halves, and not one by one: {:?}",
        cloud.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_fails_by_itself_is_answered_alone() {
    let (documents, cloud) = documents();
    let full = documents.edit(&"fw", |firewall: &mut Firewall| {
        firewall.ports.insert(7);
        Err(Error::invalid("no room"))
    });
    let (full, open) = tokio::join!(full, documents.edit(&"fw", open(80)));
    assert!(full.unwrap_err().to_string().contains("no room") && open.is_ok());
    assert_eq!(cloud.ports().into_iter().collect::<Vec<_>>(), [80]);
}

#[tokio::test(start_paused = true)]
async fn edits_survive_the_caller_that_was_writing_them() {
    let (documents, cloud) = documents();
    for dropped_after in [500, 1500] {
        let writer = timeout(
            Duration::from_millis(dropped_after.into()),
            documents.edit(&"fw", open(dropped_after)),
        );
        let (writer, others) = tokio::join!(
            writer,
            join_all((80..90).map(|port| documents.edit(&"fw", open(port))))
        );
        assert!(writer.is_err() && others.iter().all(Result::is_ok));
        assert!((80..90).all(|port| cloud.ports().contains(&port)));
    }
}

#[tokio::test(start_paused = true)]
async fn documents_of_different_keys_do_not_wait_for_each_other() {
    struct Slow;
    #[async_trait]
    impl DocumentStore for Slow {
        type Key = &'static str;
        type Document = u32;
        async fn read(&self, key: &&'static str) -> Result<Versioned<u32>> {
            sleep(Duration::from_secs(if *key == "slow" { 3600 } else { 1 })).await;
            Ok(Versioned {
                document: 0,
                version: None,
            })
        }
        async fn write(&self, _: &&'static str, _: u32, _: Option<&str>) -> Result<()> {
            Ok(())
        }
    }
    let documents = SharedDocuments::new(Slow);
    let increase = |count: &mut u32| {
        *count += 1;
        Ok(())
    };
    let slow = documents.edit(&"slow", increase);
    let quick = timeout(Duration::from_secs(2), documents.edit(&"quick", increase));
    tokio::select! {
        biased;
        _ = slow => unreachable!("it takes an hour"),
        quick = quick => quick.unwrap().unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_edit_ends_in_the_document_or_in_an_error(
        edits in prop::collection::vec((0u64..6, 1u16..40), 1..40),
        interferences in 0usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (documents, cloud) = documents();
            cloud.0.interferences.store(interferences, Ordering::Relaxed);
            let submitted = edits.iter().map(|(second, port)| {
                let documents = documents.clone();
                async move {
                    sleep(Duration::from_secs(*second)).await;
                    (*port, documents.edit(&"fw", open(*port)).await)
                }
            });
            for (port, answer) in join_all(submitted).await {
                prop_assert_eq!(answer.is_ok(), port != 13, "port {}", port);
                prop_assert_eq!(cloud.ports().contains(&port), port != 13, "port {}", port);
            }
            Ok(())
        })?;
    }
}
