use super::*;

type Script = &'static [(&'static [u32], Option<u32>, Option<usize>)];

async fn read(totals: bool, script: Script) -> ListResult<u32> {
    let rules = ListProperties {
        what: "machines",
        totals,
    };
    let page = async |page: u32| {
        let (items, next, total) = script[page as usize - 1];
        Ok(Page {
            items: items.to_vec(),
            next,
            total,
        })
    };
    read_pages(rules, 1, |id| *id, page).await.unwrap()
}

#[tokio::test]
async fn items_within_items_are_as_old_and_as_whole_as_the_list() {
    let twice = |number: u32| [number, number * 10];
    let whole = read(true, &[(&[1, 2], None, Some(2))]).await;
    let began = whole.clone().complete().unwrap().began();
    let inner = whole
        .flat_map(twice)
        .filter(|number| *number != 2)
        .complete()
        .unwrap();
    assert_eq!((inner.items(), inner.began()), (&[1, 10, 20][..], began));
    let partial = read(true, &[(&[1], None, Some(2))]).await.flat_map(twice);
    assert_eq!(partial.items(), [1, 10]);
    assert!(partial_reason(partial).contains("2 were announced"));
}

fn partial_reason(reading: ListResult<u32>) -> String {
    reading.complete().unwrap_err().to_string()
}

#[tokio::test]
async fn list_read_to_its_end_is_complete() {
    let reading = read(true, &[(&[1, 2], Some(2), Some(3)), (&[3], None, Some(3))]).await;
    assert_eq!((reading.items(), reading.pages()), (&[1, 2, 3][..], 2));
    assert!(reading.complete().unwrap().prove_absence("4").is_ok());
}

#[tokio::test]
async fn partial_list_keeps_its_items_and_proves_no_absence() {
    let reading = read(true, &[(&[1, 2], None, Some(3))]).await;
    assert_eq!(reading.items(), [1, 2]);
    assert_eq!(
        partial_reason(reading),
        "the cloud's list of machines is partial: 3 were announced and 2 listed"
    );
}

#[tokio::test]
async fn every_kind_of_partial_list_is_noticed() {
    let table: [(&str, bool, Script); 5] = [
        (
            "names 3 as the next page",
            false,
            &[
                (&[1], Some(3), None),
                (&[2], None, None),
                (&[3], None, None),
            ],
        ),
        (
            "had been listed before",
            false,
            &[(&[1, 2], Some(2), None), (&[2, 3], None, None)],
        ),
        (
            "went from 3 to 2",
            false,
            &[(&[1, 2], Some(2), Some(3)), (&[3], None, Some(2))],
        ),
        (
            "page 1 does not announce the total",
            true,
            &[(&[1, 2], None, None)],
        ),
        (
            "2 were announced and 3 listed",
            true,
            &[(&[1, 2, 3], None, Some(2))],
        ),
    ];
    for (expected, totals, script) in table {
        let text = partial_reason(read(totals, script).await);
        assert!(text.contains(expected), "{text} does not say {expected:?}");
    }
}

#[tokio::test]
async fn a_list_that_goes_in_circles_ends() {
    assert!(
        partial_reason(read(false, &[(&[1], Some(2), None), (&[2], Some(1), None)]).await)
            .contains("names 1")
    );
    let rules = ListProperties {
        what: "machines",
        totals: false,
    };
    let stuck = async |_: String| {
        Ok(Page {
            items: vec![1],
            next: Some("same".to_owned()),
            total: None,
        })
    };
    let reading = read_pages(rules, String::new(), |id: &u32| *id, stuck)
        .await
        .unwrap();
    assert!(partial_reason(reading).contains("listed before"));
}

/// Reads a list without an end; returns the number of requests and the error.
async fn read_endless(items: fn(u32) -> Vec<u32>, total: Option<usize>) -> (usize, String) {
    let rules = ListProperties {
        what: "machines",
        totals: total.is_some(),
    };
    let page = async |page: u32| {
        Ok(Page {
            items: items(page),
            next: Some(page + 1),
            total,
        })
    };
    let reading = read_pages(rules, 1, |id: &u32| *id, page).await.unwrap();
    (reading.pages(), partial_reason(reading))
}

#[tokio::test]
async fn an_empty_page_that_names_a_next_one_ends_the_list_and_proves_no_absence() {
    let (pages, text) = read_endless(|_| Vec::new(), None).await;
    assert_eq!(
        (
            pages,
            text.contains("page 1 is empty, and names 2 as the next page")
        ),
        (1, true),
        "{text}"
    );
    let (pages, _) = read_endless(
        |page| if page < 3 { vec![page] } else { Vec::new() },
        Some(9),
    )
    .await;
    assert_eq!(pages, 3);
}

#[tokio::test]
async fn a_list_without_an_end_is_read_two_pages_beyond_its_total_or_2000() {
    let ten_each = |page: u32| (page * 10..page * 10 + 10).collect();
    for (total, pages) in [
        (Some(49), 7),
        (Some(0), 2),
        (Some(usize::MAX), 2_000),
        (None, 2_000),
    ] {
        let (read, text) = read_endless(ten_each, total).await;
        assert_eq!(read, pages, "{total:?}: {text}");
        assert!(
            text.contains("does not end after page") || total == Some(0),
            "{text}"
        );
    }
    let (pages, text) =
        read_endless(|page| (page * 50_000..(page + 1) * 50_000).collect(), None).await;
    assert_eq!(
        (pages, text.contains("with 200000 items")),
        (4, true),
        "{text}"
    );
}

#[tokio::test]
async fn a_long_list_of_nearly_empty_pages_is_not_believed() {
    let (pages, text) = read_endless(|page| vec![page], None).await;
    assert_eq!(
        (
            pages,
            text.contains("does not end after page 100, with 100 items")
        ),
        (100, true),
        "{text}"
    );
}

#[tokio::test]
async fn a_page_that_fails_fails_the_list() {
    let rules = ListProperties {
        what: "machines",
        totals: false,
    };
    let broken = async |page: u32| match page {
        1 => Ok(Page {
            items: vec![1],
            next: Some(2),
            total: None,
        }),
        _ => Err(Error::other("answered 500")),
    };
    assert_eq!(
        read_pages(rules, 1, |id: &u32| *id, broken)
            .await
            .unwrap_err()
            .to_string(),
        "answered 500"
    );
}
