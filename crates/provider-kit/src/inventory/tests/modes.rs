//! The modes of reading machines, and the priorities of lookups.

use super::*;

const TEN_SECONDS: Duration = Duration::from_secs(10);

fn acme_in(mode: Mode) -> Inventory<Acme> {
    acme(200).mode(mode).max_age(TEN_SECONDS)
}

async fn ask(
    inventory: &Inventory<Acme>,
    numbers: impl IntoIterator<Item = usize>,
) -> Vec<Result<InstanceState>> {
    inventory
        .lookup(&joined(numbers), LookupRequest::ADDRESSES)
        .await
}

#[tokio::test(start_paused = true)]
async fn mode_all_hits_at_exactly_the_maximum_age_and_lists_again_after_it() {
    let inventory = acme_in(Mode::AlwaysList);
    ask(&inventory, [1]).await;
    assert_eq!(
        inventory.costs(),
        (1, 4, 0),
        "a lookup of one machine reads a list"
    );
    tokio::time::sleep(TEN_SECONDS).await;
    ask(&inventory, [1, 2]).await;
    assert_eq!(inventory.costs().0, 0);
    tokio::time::sleep(MOMENT).await;
    ask(&inventory, [1]).await;
    assert_eq!(inventory.costs(), (1, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn mode_all_does_not_remember_an_absence() {
    let inventory = acme_in(Mode::AlwaysList);
    for _ in 0..3 {
        assert!(gone(&ask(&inventory, [777]).await[0]).is_some());
        assert_eq!(inventory.costs(), (1, 4, 0));
    }
    ask(&inventory, [1]).await;
    assert_eq!(inventory.costs().0, 0, "the other machines are cached");
}

#[tokio::test(start_paused = true)]
async fn mode_all_takes_no_absence_from_a_list_in_flight() {
    let inventory = acme_in(Mode::AlwaysList);
    inventory
        .source()
        .page_milliseconds
        .store(100, Ordering::SeqCst);
    let late = async {
        tokio::time::sleep(Duration::from_millis(350)).await;
        inventory.change(|machines| machines[0].id = "i-777".into());
        ask(&inventory, [777]).await
    };
    let (_, late) = tokio::join!(ask(&inventory, [1]), late);
    assert!(gone(&late[0]).is_none() && late[0].is_ok());
    assert_eq!(inventory.costs().0, 2);
}

#[tokio::test(start_paused = true)]
async fn mode_all_answers_what_must_be_fresh_from_a_list_of_its_own() {
    let inventory = acme_in(Mode::AlwaysList);
    ask(&inventory, [1]).await;
    inventory.lookup(&joined([1]), FRESH).await;
    assert_eq!(inventory.costs(), (2, 8, 0));
}

#[tokio::test(start_paused = true)]
async fn mode_one_reads_each_machine_by_itself_and_keeps_it() {
    let inventory = acme_in(Mode::AlwaysSingle);
    ask(&inventory, 0..100).await;
    assert_eq!(inventory.costs(), (0, 0, 100));
    tokio::time::sleep(TEN_SECONDS).await;
    ask(&inventory, 0..100).await;
    inventory
        .lookup(&joining([5]), LookupRequest::ADDRESSES)
        .await;
    assert_eq!(inventory.costs(), (0, 0, 0), "by name too");
    tokio::time::sleep(MOMENT).await;
    ask(&inventory, 0..2).await;
    inventory.lookup(&joined([0]), FRESH).await;
    assert_eq!(inventory.costs(), (0, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn mode_one_drops_a_machine_that_is_not_found_any_more() {
    let inventory = acme_in(Mode::AlwaysSingle);
    ask(&inventory, [1]).await;
    inventory.change(|machines| drop(machines.remove(1)));
    assert!(gone(&inventory.lookup(&joined([1]), FRESH).await[0]).is_some());
    let patient = inventory.clone().max_age(Duration::from_secs(3600));
    assert!(gone(&ask(&patient, [1]).await[0]).is_some());
    assert!(
        gone(
            &patient
                .lookup(&joining([1]), LookupRequest::ADDRESSES)
                .await[0]
        )
        .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn mode_one_forgets_after_an_hour_when_something_else_is_read() {
    let inventory = acme_in(Mode::AlwaysSingle);
    ask(&inventory, 0..100).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    ask(&inventory, [100]).await;
    assert_eq!(inventory.state().entries.len(), 101);
    tokio::time::sleep(Duration::from_secs(60)).await;
    ask(&inventory, [101]).await;
    assert_eq!(inventory.state().entries.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn mode_one_does_not_find_a_machine_by_its_former_name() {
    let inventory = acme_in(Mode::AlwaysSingle);
    inventory
        .lookup(&joining([1]), LookupRequest::METADATA)
        .await;
    inventory.change(|machines| machines[1].name = "other".into());
    inventory.lookup(&joined([1]), FRESH).await;
    assert!(
        gone(
            &inventory
                .lookup(&joining([1]), LookupRequest::METADATA)
                .await[0]
        )
        .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn mode_off_keeps_nothing() {
    let inventory = acme_in(Mode::Off);
    for _ in 0..4 {
        ask(&inventory, [1]).await;
    }
    assert_eq!(inventory.costs(), (0, 0, 4));
    for _ in 0..2 {
        inventory.snapshot(Priority::Ordinary).await.unwrap();
    }
    assert_eq!(inventory.costs(), (2, 8, 0));
    assert!(inventory.last_snapshot().is_none() && inventory.state().entries.len() == 0);
}

#[tokio::test(start_paused = true)]
async fn error_leaves_the_cache_unchanged() {
    for mode in [Mode::Shared, Mode::AlwaysList, Mode::AlwaysSingle] {
        let inventory = acme_in(mode);
        ask(&inventory, 0..10).await;
        inventory.source().fails.store(true, Ordering::SeqCst);
        assert!(
            inventory
                .lookup(&joined(0..10), FRESH)
                .await
                .iter()
                .all(Result::is_err)
        );
        assert!(ask(&inventory, 0..10).await.iter().all(Result::is_ok));
        tokio::time::sleep(TEN_SECONDS + MOMENT).await;
        assert!(
            ask(&inventory, 0..10).await.iter().all(Result::is_err),
            "{mode:?}"
        );
        inventory.source().fails.store(false, Ordering::SeqCst);
        assert!(
            ask(&inventory, 0..10).await.iter().all(Result::is_ok),
            "the error is not cached"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn clones_may_have_their_own_maximum_age() {
    let inventory = acme_in(Mode::AlwaysList);
    let routes = inventory.clone().max_age(Duration::from_secs(60));
    ask(&inventory, [1]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(matches!(
        routes
            .find(Key::Name("worker-3"), false, Priority::Ordinary)
            .await,
        Ok(Found::Present(_))
    ));
    routes.snapshot(Priority::Ordinary).await.unwrap();
    assert_eq!(inventory.costs().0, 1);
    ask(&inventory, [1]).await;
    assert_eq!(inventory.costs().0, 1);
}

#[tokio::test(start_paused = true)]
async fn urgent_lookup_raises_the_urgency_of_a_waiting_list() {
    let inventory = acme(1000);
    inventory.source().holds_back.store(true, Ordering::SeqCst);
    let nodes = joined(0..1000);
    let soon = Duration::from_secs(5);
    assert!(
        tokio::time::timeout(soon, inventory.lookup(&nodes, LookupRequest::ADDRESSES))
            .await
            .is_err()
    );
    let waiting = joining(0..1000);
    let urgent = async {
        tokio::time::sleep(soon).await;
        inventory.lookup(&waiting, LookupRequest::METADATA).await
    };
    let (refreshed, urgent) =
        tokio::join!(inventory.lookup(&nodes, LookupRequest::ADDRESSES), urgent);
    assert!(refreshed.iter().chain(&urgent).all(Result::is_ok));
    assert_eq!(inventory.costs().1, 20, "no page was read twice");
    // A list that must be fresh waits for the previous one.
    tokio::time::sleep(MAX_AGE + MOMENT).await;
    let (refreshed, fresh) = tokio::join!(
        inventory.lookup(&nodes, LookupRequest::ADDRESSES),
        inventory.lookup(&nodes, LookupRequest::EXISTENCE.fresh())
    );
    assert!(refreshed.iter().chain(&fresh).all(Result::is_ok));
}
