use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join, join_all};
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// The requests that were sent: time, key and items.
type Sent = Arc<Mutex<Vec<(Duration, char, Vec<u32>)>>>;

type Numbers = Coalescer<char, u32, usize>;

/// Returns a function that sends requests of one second and refuses number 13. The answer to a request is its number.
fn sender() -> (
    impl Fn(char, Vec<u32>) -> BoxFuture<'static, Result<usize>>,
    Sent,
) {
    let sent = Sent::default();
    let began = Instant::now();
    let log = Arc::clone(&sent);
    let send = move |key, items: Vec<u32>| {
        lock(&log).push((began.elapsed(), key, items.clone()));
        let number = lock(&log).len();
        async move {
            sleep(SECOND).await;
            if items.contains(&13) {
                Err(Error::invalid("no 13"))
            } else {
                Ok(number)
            }
        }
        .boxed()
    };
    (send, sent)
}

fn numbers() -> (Numbers, Sent) {
    let (send, sent) = sender();
    (Coalescer::retrying_alone(send), sent)
}

fn items(sent: &Sent) -> Vec<Vec<u32>> {
    lock(sent)
        .iter()
        .map(|(_, _, items)| items.clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn callers_during_a_request_share_the_next_one() {
    let ((numbers, sent), began) = (numbers(), Instant::now());
    let answers = join_all((101..=150).map(|item| numbers.join('a', item))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(items(&sent), [vec![101], (102..=150).collect()]);
    assert_eq!(began.elapsed(), SECOND * 2);
    assert_eq!(
        numbers.join('a', 151).await.unwrap(),
        3,
        "nothing is kept of the requests before"
    );
}

#[tokio::test(start_paused = true)]
async fn each_caller_gets_its_own_answer_if_one_item_is_refused() {
    let (numbers, sent) = numbers();
    let answers = join_all([1, 2, 13, 3].map(|item| numbers.join('a', item))).await;
    assert_eq!(
        answers.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, true, false, true]
    );
    assert_eq!(
        items(&sent).iter().map(Vec::len).collect::<Vec<_>>(),
        [1, 3, 1, 1, 1]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_caller_fails_no_other() {
    let (numbers, sent) = numbers();
    let (first, second) = join(
        timeout(SECOND / 10, numbers.join('a', 1)),
        numbers.join('a', 2),
    )
    .await;
    assert!(first.is_err() && second.is_ok());
    assert_eq!(items(&sent).len(), 2);
    assert!(timeout(SECOND / 10, numbers.join('a', 3)).await.is_err());
    assert_eq!(
        numbers.join('a', 4).await.unwrap(),
        4,
        "a request without callers is not waited for"
    );
}

#[tokio::test(start_paused = true)]
async fn request_in_flight_is_shared_unless_the_caller_needs_a_fresh_one() {
    let (send, sent) = sender();
    let numbers = Coalescer::new(send);
    let share = |fresh| numbers.share('a', 1, fresh, Priority::default());
    let late = async {
        sleep(SECOND / 2).await;
        assert!(numbers.can_share(&'a', false) && !numbers.can_share(&'a', true));
        let (fresh, other, any) = tokio::join!(share(true), share(true), share(false));
        (fresh.unwrap(), other.unwrap(), any.unwrap())
    };
    let (first, late) = join(share(false), late).await;
    assert_eq!(
        (first.unwrap(), late),
        (1, (2, 2, 2)),
        "one request is being prepared, which all may share"
    );
    assert!(!numbers.can_share(&'a', false));
    let any = async {
        sleep(SECOND / 2).await;
        share(false).await.unwrap()
    };
    assert_eq!(join(share(false), any).await.1, 3);
    assert_eq!(items(&sent).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_as_urgent_as_its_most_urgent_caller() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let lists = Coalescer::with_shared_priority(
        move |(), callers: Vec<()>, shared_priority: SharedPriority| {
            let log = Arc::clone(&log);
            async move {
                let _ = callers;
                lock(&log).push(shared_priority.now());
                sleep(SECOND).await;
                lock(&log).push(shared_priority.now());
                Ok(())
            }
        },
    );
    let late = async {
        sleep(SECOND / 2).await;
        // The fresh request waits for the request in flight, which must not hold it up.
        lists.share((), (), true, Priority::Urgent).await
    };
    let _ = join(lists.share((), (), false, Priority::Refresh), late).await;
    assert_eq!(
        *lock(&seen),
        [
            Priority::Refresh,
            Priority::Urgent,
            Priority::Urgent,
            Priority::Urgent
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_due_time_gathers_until_then_and_waits_for_no_other() {
    let (numbers, sent) = numbers();
    let numbers = numbers.at_most(3);
    let late = async |wait, item| {
        sleep(wait).await;
        numbers
            .join_at('a', item, |_| Instant::now() + SECOND / 2)
            .await
            .unwrap()
    };
    join_all(
        [(0, 1), (1, 2), (2, 3), (3, 4), (7, 5)]
            .map(|(tenths, item)| late(SECOND / 10 * tenths, item)),
    )
    .await;
    let tenths = |sent: &(Duration, char, Vec<u32>)| (sent.0.as_millis() / 100, sent.2.clone());
    let sent = lock(&sent).iter().map(tenths).collect::<Vec<_>>();
    assert_eq!(
        sent,
        [(5, vec![1, 2, 3]), (8, vec![4, 5])],
        "at most three items, and the next request while one is in flight"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn items_are_sent_in_order_and_requests_of_a_key_do_not_overlap(
        calls in prop::collection::vec((0u64..60, 0u8..3, prop::option::weighted(0.2, 0u64..25)), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (send, sent) = sender();
            let numbers = Coalescer::new(send);
            let tenth = SECOND / 10;
            let submitted = calls.iter().enumerate().map(|(number, (start, key, patience))| {
                let numbers = &numbers; let key = char::from(b'a' + key); let item = 100 + u32::try_from(number).unwrap();
                async move {
                    sleep(tenth * u32::try_from(*start).unwrap()).await;
                    let submitted = Instant::now();
                    let answer = match patience {
                        None => Some(numbers.join(key, item).await.unwrap()),
                        Some(tenths) => timeout(tenth * u32::try_from(*tenths).unwrap(), numbers.join(key, item))
                            .await
                            .ok()
                            .map(Result::unwrap),
                    };
                    (submitted, key, item, patience.is_some(), answer)
                }
            });
            let began = Instant::now();
            let answers = join_all(submitted).await;
            let sent = lock(&sent).clone();
            let mut seen = BTreeSet::new();
            prop_assert!(sent.iter().flat_map(|(_, _, items)| items).all(|item| seen.insert(*item)), "sent once");
            for (submitted, key, item, may_leave, answer) in answers {
                prop_assert!(may_leave || answer.is_some());
                let Some(number) = answer else { continue };
                let (at, for_key, items) = &sent[number - 1];
                prop_assert!(*for_key == key && items.contains(&item), "its own request answers {}", item);
                prop_assert!(began + *at >= submitted && began + *at <= submitted + SECOND * 2, "after at most one other");
            }
            for key in ['a', 'b', 'c'] {
                let times: Vec<_> = sent.iter().filter(|(_, its, _)| *its == key).map(|(at, _, _)| *at).collect();
                let may_leave = calls.iter().any(|(_, _, patience)| patience.is_some());
                prop_assert!(may_leave || times.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{times:?}");
            }
            Ok(())
        })?;
    }
}
