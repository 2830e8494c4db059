use parking_lot::Mutex;

use super::*;

const TICK: Duration = Duration::from_millis(500);

/// IDs of each request, and the time at which it was sent.
type Requests = Arc<Mutex<Vec<(u128, Vec<u64>)>>>;

/// A cloud that answers each request with the result of `say` for each ID: nothing, or its outcome.
fn cloud(
    say: impl Fn(u64, Duration) -> Option<Option<Result<()>>> + Clone + Send + Sync + 'static,
) -> (Operations, Requests) {
    let requests = Requests::default();
    let asked = Arc::clone(&requests);
    let began = tokio::time::Instant::now();
    let operations = Operations::new(TICK, 25, move |ids: Vec<u64>| {
        asked
            .lock()
            .push((began.elapsed().as_millis(), ids.clone()));
        let say = say.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let state = |id| say(id, began.elapsed()).map(|outcome| OperationState { id, outcome });
            Ok(ids.into_iter().filter_map(state).collect())
        }
    });
    (operations, requests)
}

fn done_after(seconds: u64) -> (Operations, Requests) {
    cloud(move |_, now| Some((now > Duration::from_secs(seconds)).then_some(Ok(()))))
}

#[tokio::test(start_paused = true)]
async fn hundred_waiting_callers_cost_four_requests_a_tick() {
    let (operations, requests) = &done_after(1);
    join_all((0..100).map(|id| async move { operations.wait(&[id]).await }))
        .await
        .into_iter()
        .collect::<Result<()>>()
        .unwrap();
    let times = requests
        .lock()
        .iter()
        .map(|(at, ids)| (*at, ids.len()))
        .collect::<Vec<_>>();
    assert_eq!(times, [[(500, 25); 4], [(1000, 25); 4]].concat());
    tokio::time::sleep(TICK * 20).await;
    assert_eq!(requests.lock().len(), 8);
    operations.wait(&[7, 8]).await.unwrap();
    assert_eq!(
        requests.lock()[8].1,
        [7, 8],
        "operations of later callers are read again"
    );
}

#[tokio::test(start_paused = true)]
async fn operation_of_many_callers_is_read_once() {
    let (operations, requests) = done_after(0);
    let (one, other) = tokio::join!(operations.wait(&[7]), operations.wait(&[7, 9]));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(*requests.lock(), [(500, vec![7, 9])]);
    operations.wait(&[]).await.unwrap();
    assert_eq!(requests.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_or_unknown_operation_fails_only_its_own_callers() {
    let (operations, _) = cloud(|id, _| match id {
        1 => None,
        2 => Some(Some(Err(Error::quota("no room")))),
        _ => Some(Some(Ok(()))),
    });
    let (unknown, failed, well) = tokio::join!(
        operations.wait(&[1, 3]),
        operations.wait(&[3, 2]),
        operations.wait(&[3, 4])
    );
    assert_eq!(unknown.unwrap_err().to_string(), "operations not found: 1");
    assert!(failed.unwrap_err().is_quota() && well.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_id_that_the_cloud_refuses_spoils_one_tick_for_the_others_and_no_more() {
    let operations = Operations::new(TICK, 25, |ids: Vec<u64>| async move {
        if ids.contains(&13) {
            return Err(Error::invalid("13 is no id"));
        }
        Ok(ids
            .into_iter()
            .map(|id| OperationState {
                id,
                outcome: Some(Ok(())),
            })
            .collect())
    });
    let (bad, good) = tokio::join!(operations.wait(&[13]), operations.wait(&[1, 2]));
    assert!(bad.unwrap_err().is_invalid() && good.is_ok());
}

#[tokio::test(start_paused = true)]
async fn failed_read_fails_its_callers_and_not_later_ones() {
    let down = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_down = Arc::clone(&down);
    let operations = Operations::new(TICK, 25, move |ids: Vec<u64>| {
        let down = is_down.load(std::sync::atomic::Ordering::SeqCst);
        async move {
            let state = |id| OperationState {
                id,
                outcome: Some(Ok(())),
            };
            if down {
                Err(Error::other("down"))
            } else {
                Ok(ids.into_iter().map(state).collect())
            }
        }
    });
    assert_eq!(operations.wait(&[1]).await.unwrap_err().to_string(), "down");
    down.store(false, std::sync::atomic::Ordering::SeqCst);
    operations.wait(&[1]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slow_operation_ends_with_a_retry_time_and_is_forgotten() {
    let (operations, requests) = cloud(|_, _| Some(None));
    let began = tokio::time::Instant::now();
    let err = operations.wait(&[1, 2]).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "operations not finished after 60s: 1, 2; checking again in 10s"
    );
    assert_eq!(
        (err.retry_after(), began.elapsed().as_secs()),
        (Some(Duration::from_secs(10)), 60)
    );
    let asked = requests.lock().len();
    tokio::time::sleep(TICK * 20).await;
    assert!(requests.lock().len() <= asked + 1);
}

#[tokio::test(start_paused = true)]
async fn operation_of_a_dropped_caller_is_not_read_any_more() {
    let (operations, requests) = cloud(|_, _| Some(None));
    let _ = tokio::time::timeout(TICK * 3, operations.wait(&[1])).await;
    tokio::time::sleep(TICK * 20).await;
    assert!(requests.lock().len() <= 3, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_request_does_not_delay_other_callers() {
    let operations = Operations::new(TICK, 1, |ids: Vec<u64>| async move {
        tokio::time::sleep(Duration::from_secs(ids[0])).await;
        Ok(vec![OperationState {
            id: ids[0],
            outcome: Some(Ok(())),
        }])
    });
    let began = tokio::time::Instant::now();
    let quick = async {
        tokio::time::sleep(TICK * 4).await;
        operations.wait(&[0]).await.map(|()| began.elapsed())
    };
    let (slow, quick) = tokio::join!(operations.wait(&[30]), quick);
    assert!(slow.is_ok() && quick.unwrap() <= TICK * 6);
}

#[tokio::test(start_paused = true)]
async fn polls_become_rarer_and_end_with_a_retry_time() {
    let began = Instant::now();
    let mut asked = Vec::new();
    let err = until_done("volume \"v\"", Polling::default(), || {
        asked.push(began.elapsed().as_millis());
        std::future::ready(Ok(None::<()>))
    })
    .await
    .unwrap_err();
    assert_eq!(
        asked,
        [250, 750, 1750, 3750, 7750, 12750, 17750, 22750, 27750]
    );
    assert_eq!(err.retry_after(), Some(Duration::from_secs(10)));
    assert_eq!(
        err.to_string(),
        "volume \"v\" is not ready after 30s; checking again in 10s"
    );
}

#[tokio::test(start_paused = true)]
async fn timeout_message_rounds_durations_to_seconds() {
    let timeout = Duration::from_millis(271_026);
    let retry_after = Duration::from_millis(250);
    let polling = Polling {
        timeout,
        retry_after,
        ..Polling::default()
    };
    let err = until_done("volume \"v\"", polling, || {
        std::future::ready(Ok(None::<()>))
    })
    .await
    .unwrap_err();
    assert_eq!(
        err.to_string(),
        "volume \"v\" is not ready after 271s; checking again in 250ms"
    );
}
