use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::json;

use super::*;

#[derive(Deserialize)]
struct Machine {
    id: u32,
}

type Pages = fn(&str) -> Value;

/// Reads all machines of an API that answers queries with `pages`; returns the queries that were sent, too.
async fn read_all(paging: Paging, pages: Pages) -> (Result<ListResult<u32>>, Vec<String>) {
    let queries = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&queries);
    let router = Router::new().fallback(any(async move |uri: Uri| {
        let query = uri.query().unwrap_or_default().to_owned();
        log.lock().push(query.clone());
        (StatusCode::OK, pages(&query).to_string())
    }));
    let cloud = Transport::builder("http://cloud")
        .service(router)
        .paging(paging)
        .build()
        .unwrap();
    let call = Call::get("/machines", &[]);
    let reading = cloud
        .list(
            call,
            "machines",
            &SharedPriority::default(),
            |machine: Machine| machine.id,
            |id| *id,
        )
        .await;
    let queries = queries.lock().clone();
    (reading, queries)
}

fn ids(reading: Result<ListResult<u32>>) -> Vec<u32> {
    reading.unwrap().complete().unwrap().into_items()
}

#[tokio::test]
async fn the_usual_forms_are_read_to_their_end() {
    let table: [(Paging, Pages, [&str; 2]); 7] = [
        (
            Paging::next_page("/meta/pagination/next_page")
                .size("per_page", 2)
                .total("/meta/pagination/total_entries"),
            |query| match query {
                "per_page=2&page=1" => json!({"machines": [{"id": 1}, {"id": 2}],
                    "meta": {"pagination": {"next_page": 2, "total_entries": 3}}}),
                _ => {
                    json!({"meta": {"pagination": {"next_page": null, "total_entries": 3}}, "machines": [{"id": 3}]})
                }
            },
            ["per_page=2&page=1", "per_page=2&page=2"],
        ),
        (
            Paging::page_count("/pages").required_total("/results"),
            |query| match query {
                "page=1" => {
                    json!({"machines": [{"id": 1}, {"id": 2}], "page": 1, "pages": 2, "results": 3})
                }
                _ => json!({"machines": [{"id": 3}], "page": 2, "pages": 2, "results": 3}),
            },
            ["page=1", "page=2"],
        ),
        (
            Paging::next_link("/links/pages/next").total("/meta/total"),
            |query| match query {
                "page=1" => json!({"machines": [{"id": 1}, {"id": 2}], "meta": {"total": 3},
                    "links": {"pages": {"next": "http://inside/machines?page=2", "last": "x"}}}),
                _ => json!({"machines": [{"id": 3}], "links": {}, "meta": {"total": 3}}),
            },
            ["page=1", "page=2"],
        ),
        (
            Paging::token("cursor", "/meta/links/next").total("/meta/total"),
            |query| match query {
                "" => {
                    json!({"machines": [{"id": 1}, {"id": 2}], "meta": {"total": 3, "links": {"next": "b/c="}}})
                }
                _ => {
                    json!({"machines": [{"id": 3}], "meta": {"total": 3, "links": {"next": "", "prev": "x"}}})
                }
            },
            ["", "cursor=b%2Fc%3D"],
        ),
        (
            Paging::token_link("$skiptoken", "/nextLink"),
            |query| match query {
                "" => {
                    json!({"machines": [{"id": 1}, {"id": 2}], "nextLink": "http://inside/machines?v=1&%24skipToken=a%2Fb"})
                }
                _ => json!({"machines": [{"id": 3}]}),
            },
            ["", "%24skiptoken=a%2Fb"],
        ),
        (
            Paging::marker_link(),
            |query| match query {
                "" => json!({"machines": [{"id": 1}, {"id": 2}], "machines_links": [
                    {"rel": "previous", "href": "x?marker=0"},
                    {"rel": "next", "href": "http://inside/machines?limit=2&marker=a%2Fb"},
                ]}),
                _ => {
                    json!({"machines_links": [{"rel": "previous", "href": "x"}], "machines": [{"id": 3}]})
                }
            },
            ["", "marker=a%2Fb"],
        ),
        (
            Paging::WHOLE,
            |_| json!({"machines": [{"id": 1}, {"id": 2}, {"id": 3}]}),
            ["", ""],
        ),
    ];
    for (paging, pages, expected) in table {
        let (reading, queries) = read_all(paging, pages).await;
        assert_eq!(ids(reading), [1, 2, 3], "{paging:?}");
        assert_eq!(queries, expected[..queries.len()], "{paging:?}");
    }
}

#[tokio::test]
async fn an_answer_of_another_form_is_an_error_and_not_the_end_of_a_list() {
    let number = Paging::next_page("/meta/next_page");
    let count = Paging::page_count("/pages");
    let link = Paging::next_link("/links/next");
    let marker = Paging::marker_link();
    let table: [(Paging, Pages); 13] = [
        (number, |_| json!({"machines": []})),
        (
            number,
            |_| json!({"machines": [], "meta": {"next_page": "two"}}),
        ),
        (count, |_| json!({"machines": []})),
        (count, |_| json!({"machines": [], "pages": -1})),
        (link, |_| json!({"machines": [], "links": {"next": 2}})),
        (
            link,
            |_| json!({"machines": [], "links": {"next": "x?page=two"}}),
        ),
        (
            Paging::token("after", "/after"),
            |_| json!({"machines": [], "after": 2}),
        ),
        (
            marker,
            |_| json!({"machines": [], "machines_links": [{"rel": "next", "href": "http://inside/machines"}]}),
        ),
        (
            marker,
            |_| json!({"machines": [], "machines_links": [{"rel": "next", "href": "x?marker="}]}),
        ),
        (marker, |_| json!({"servers": []})),
        (marker, |_| json!([])),
        (marker, |_| json!({"machines": {}})),
        (marker, |_| json!({"machines": [{"name": "without an ID"}]})),
    ];
    for (paging, pages) in table {
        let error = read_all(paging, pages).await.0.unwrap_err().to_string();
        assert!(
            error.contains("unexpected body"),
            "{paging:?} {}: {error}",
            pages("")
        );
    }
}

#[tokio::test]
async fn a_list_whose_total_or_next_page_does_not_fit_is_a_partial_one() {
    let link = Paging::next_link("/next");
    let required = link.required_total("/total");
    let truncated = Paging::token("marker", "/nextMarker").truncated("/isTruncated");
    let table: [(Paging, Pages); 5] = [
        (
            truncated,
            |_| json!({"isTruncated": true, "machines": [{"id": 1}]}),
        ),
        (required, |_| json!({"machines": []})),
        (required, |_| json!({"machines": [], "total": 1})),
        (link, |query| match query {
            "page=1" => {
                json!({"machines": [{"id": 1}], "next": "http://inside/machines?page=3&size=1"})
            }
            _ => json!({"machines": [{"id": 3}]}),
        }),
        (
            link,
            |_| json!({"machines": [{"id": 1}], "next": "x?page=1"}),
        ),
    ];
    for (paging, pages) in table {
        assert!(
            read_all(paging, pages).await.0.unwrap().complete().is_err(),
            "{}",
            pages("")
        );
    }
}

#[test]
fn page_with_too_many_items_is_an_error() {
    let read = |count: usize| {
        let items = format!("{}{}", r#"{"id":1},"#.repeat(count - 1), r#"{"id":1}"#);
        let answer = Answer::of(format!(r#"{{"machines":[{items}]}}"#));
        let mut added = 0;
        read_page::<Json, Machine>(&answer, "machines", Paging::WHOLE, &mut |_| added += 1)
            .map(|_| added)
    };
    assert_eq!(read(MOST_ITEMS).unwrap(), MOST_ITEMS);
    assert!(
        read(MOST_ITEMS + 1)
            .unwrap_err()
            .to_string()
            .contains("more than 100000 items")
    );
}

#[tokio::test]
async fn answer_without_items_is_an_empty_page_only_with_the_constant_field() {
    let paging = Paging::token("pageToken", "/nextPageToken").omits_empty("kind");
    assert_eq!(
        ids(read_all(paging, |_| json!({"kind": "list"})).await.0),
        [0; 0]
    );
    assert!(read_all(paging, |_| json!({"error": {}})).await.0.is_err());
}
