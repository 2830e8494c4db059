//! Properties of lists and watches: pages show every object once, and a list with the watch that follows it shows the
//! current state.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::collections::BTreeMap;

use embedded_apiserver::ApiServer;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Watch, delete, get, patch, post};

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// A client's operation on one of a few ConfigMaps.
#[derive(Debug, Clone)]
enum Act {
    Create(u8),
    Change(u8, u8),
    Label(u8, bool),
    Delete(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..6_u8).prop_map(Act::Create),
        (0..6_u8, any::<u8>()).prop_map(|(name, value)| Act::Change(name, value)),
        (0..6_u8, any::<bool>()).prop_map(|(name, on)| Act::Label(name, on)),
        (0..6_u8).prop_map(Act::Delete),
    ];
    prop::collection::vec(act, 0..40)
}

async fn perform(server: &ApiServer, act: &Act) {
    match act {
        Act::Create(name) => {
            post(
                server,
                PATH,
                json!({"metadata": {"name": format!("c{name}"), "labels": {"on": "true"}}}),
            )
            .await
        }
        Act::Change(name, value) => {
            patch(
                server,
                "merge",
                &format!("{PATH}/c{name}"),
                json!({"data": {"k": value.to_string()}}),
            )
            .await
        }
        Act::Label(name, on) => {
            let labels = json!({"metadata": {"labels": {"on": on.to_string()}}});
            patch(server, "merge", &format!("{PATH}/c{name}"), labels).await
        }
        Act::Delete(name) => delete(server, &format!("{PATH}/c{name}")).await,
    };
}

fn by_name(items: &Value) -> BTreeMap<String, Value> {
    let items = items.as_array().into_iter().flatten();
    items
        .map(|item| {
            (
                item["metadata"]["name"].as_str().unwrap().to_owned(),
                item.clone(),
            )
        })
        .collect()
}

/// Applies a watch event to what a list showed.
fn replay(state: &mut BTreeMap<String, Value>, event: &Value) {
    let mut object = event["object"].clone();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let map = object.as_object_mut().unwrap();
    map.remove("kind");
    map.remove("apiVersion");
    match event["type"].as_str().unwrap() {
        "DELETED" => drop(state.remove(&name)),
        "ADDED" => assert!(state.insert(name, object).is_none(), "added twice"),
        _ => assert!(
            state.insert(name, object).is_some(),
            "modified before it was added"
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_page_size_shows_every_object_once_and_in_order(count in 0..40_usize, limit in 1..12_usize, late in 0..6_usize) {
        run(async {
            let server = ApiServer::new();
            for index in 0..count {
                let config = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": format!("c{index:02}")}});
                server.seed(config).unwrap();
            }
            let mut names = Vec::new();
            let mut token = String::new();
            loop {
                let page = get(&server, &format!("{PATH}?limit={limit}&continue={token}")).await.body;
                let items = page["items"].as_array().unwrap();
                assert!(items.len() <= limit);
                names.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
                let rest = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
                assert_eq!(usize::try_from(rest).unwrap(), count - names.len());
                // Changes between the pages are not visible: the pages have one version.
                if late > 0 {
                    delete(&server, &format!("{PATH}/c{:02}", late * 3)).await;
                    post(&server, PATH, json!({"metadata": {"generateName": "c"}})).await;
                }
                match page["metadata"]["continue"].as_str() {
                    Some(next) => token = next.to_owned(),
                    None => break,
                }
            }
            assert_eq!(names, (0..count).map(|index| format!("c{index:02}")).collect::<Vec<_>>());
        });
    }

    #[test]
    fn a_list_and_the_watch_after_it_show_the_present(before in acts(), after in acts(), selective in any::<bool>()) {
        run(async {
            let server = ApiServer::new();
            for act in &before {
                perform(&server, act).await;
            }
            let selector = if selective { "labelSelector=on%3Dtrue" } else { "" };
            let list = get(&server, &format!("{PATH}?{selector}")).await.body;
            let mut state = by_name(&list["items"]);
            let version = list["metadata"]["resourceVersion"].as_str().unwrap();
            let path = format!("{PATH}?watch=true&resourceVersion={version}&timeoutSeconds=10&{selector}");
            let mut watch = Watch::open(&server, &path, "application/json").await;
            for act in &after {
                perform(&server, act).await;
            }
            while let Some(event) = watch.next().await {
                replay(&mut state, &event.unwrap());
            }
            let now = get(&server, &format!("{PATH}?{selector}")).await.body;
            assert_eq!(state, by_name(&now["items"]));
        });
    }
}
