use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use cloud_provider::Error;

use super::*;
use crate::load_balancers::Machines;
use crate::paging::{ListProperties, Page, read_pages};
use crate::provider_id::ProviderIds;

const MOMENT: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
struct Vm {
    id: String,
    name: String,
    is_stopped: bool,
}

impl Machine for Vm {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        self.is_stopped
    }
    fn is_settled(&self) -> bool {
        !self.id.starts_with("half-")
    }
}

/// A cloud with pages of 50 machines, each of which takes a while to read.
#[derive(Default)]
struct Acme {
    machines: Mutex<Vec<Vm>>,
    page_milliseconds: AtomicU64,
    /// The first announced page that is not listed.
    last_page: AtomicUsize,
    /// If set, the cloud announces no total.
    has_no_totals: AtomicBool,
    /// Single reads of only the state.
    briefs: AtomicUsize,
    fails: AtomicBool,
    /// If set, failures are *invalid*.
    is_invalid: AtomicBool,
    /// If set, no request is left for reads that are not urgent.
    holds_back: AtomicBool,
    lists: AtomicUsize,
    pages: AtomicUsize,
    singles: AtomicUsize,
}

impl Acme {
    fn answer<T>(&self, answer: T) -> Result<T> {
        match self.fails.load(Ordering::SeqCst) {
            true if self.is_invalid.load(Ordering::SeqCst) => Err(Error::invalid("answered 400")),
            true => Err(Error::unauthorized("answered 401")),
            false => Ok(answer),
        }
    }

    fn matching(&self, what: impl Fn(&Vm) -> bool) -> Result<Vec<Vm>> {
        self.singles.fetch_add(1, Ordering::SeqCst);
        self.answer(
            self.machines
                .lock()
                .iter()
                .filter(|vm| what(vm))
                .cloned()
                .collect(),
        )
    }

    async fn page(&self, number: u32, priority: Priority) -> Result<Page<Vm, u32>> {
        if priority < Priority::Urgent && self.holds_back.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.pages.fetch_add(1, Ordering::SeqCst);
        let all = self.machines.lock().clone();
        tokio::time::sleep(Duration::from_millis(
            self.page_milliseconds.load(Ordering::SeqCst),
        ))
        .await;
        let start = (number as usize - 1) * 50;
        let last = self.last_page.load(Ordering::SeqCst);
        let more = start + 50 < all.len() && (last == 0 || (number as usize) < last);
        let items = all.iter().skip(start).take(50).cloned().collect();
        self.answer(Page {
            items,
            next: more.then_some(number + 1),
            total: self.lists_prove_absence().then_some(all.len()),
        })
    }
}

#[async_trait]
impl MachineSource for Acme {
    type Machine = Vm;
    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Vm>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let rules = ListProperties {
            what: "machines",
            totals: self.lists_prove_absence(),
        };
        let page =
            |number: u32| shared_priority.send_read(move |priority| self.page(number, priority));
        read_pages(rules, 1, |vm: &Vm| vm.id.clone(), page).await
    }
    async fn by_id(&self, id: &str, _: Priority) -> Result<Option<Vm>> {
        Ok(self.matching(|vm| vm.id == id)?.pop())
    }
    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<Vm>> {
        self.briefs.fetch_add(1, Ordering::SeqCst);
        self.by_id(id, priority).await
    }
    fn lists_prove_absence(&self) -> bool {
        !self.has_no_totals.load(Ordering::SeqCst)
    }
    async fn by_name(&self, name: &str, _: Priority) -> Result<Vec<Vm>> {
        self.matching(|vm| vm.name == name)
    }
    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        ProviderIds {
            scheme: "acme",
            form: "<id>",
            valid: |id| !id.is_empty(),
        }
        .read(provider_id)
    }
    fn guesses(&self, node: &Node) -> Vec<String> {
        system_uuids(node)
    }
    fn confirms_guess(&self, machine: &Vm, node: &Node) -> bool {
        node.addresses
            .iter()
            .any(|address| *address.address == machine.name)
    }
    fn metadata(&self, machine: &Vm, _: &Node) -> InstanceMetadata {
        InstanceMetadata {
            provider_id: format!("acme://{}", machine.id),
            ..InstanceMetadata::default()
        }
    }
    fn place(&self) -> String {
        "project \"demo\"".into()
    }
}

fn acme(machines: usize) -> Inventory<Acme> {
    let vm = |n| Vm {
        id: format!("i-{n}"),
        name: format!("worker-{n}"),
        is_stopped: n % 2 == 1,
    };
    Inventory::new(Acme {
        machines: Mutex::new((0..machines).map(vm).collect()),
        ..Acme::default()
    })
}

/// Returns Nodes that have no provider ID yet.
fn joining(numbers: impl IntoIterator<Item = usize>) -> Vec<Arc<Node>> {
    let node = |n| Node {
        name: format!("worker-{n}").into(),
        uid: format!("uid-{n}").into(),
        ..Node::default()
    };
    numbers.into_iter().map(|n| Arc::new(node(n))).collect()
}

fn joined(numbers: impl IntoIterator<Item = usize>) -> Vec<Arc<Node>> {
    let with_id = |n: usize| {
        let node = Node::clone(&joining([n])[0]);
        Arc::new(Node {
            provider_id: format!("acme://i-{n}").into(),
            ..node
        })
    };
    numbers.into_iter().map(with_id).collect()
}

fn gone(answer: &Result<InstanceState>) -> Option<&str> {
    match answer {
        Ok(InstanceState::Gone(gone)) => Some(gone.reason()),
        _ => None,
    }
}

fn id_of(answer: &Result<InstanceState>) -> &str {
    match answer {
        Ok(InstanceState::Present {
            metadata: Some(metadata),
            ..
        }) => &metadata.provider_id,
        other => panic!("{other:?}"),
    }
}

impl Inventory<Acme> {
    /// Returns the number of lists, pages and single reads since the last call.
    fn costs(&self) -> (usize, usize, usize) {
        let Acme {
            lists,
            pages,
            singles,
            ..
        } = self.source();
        let take = |counter: &AtomicUsize| counter.swap(0, Ordering::SeqCst);
        (take(lists), take(pages), take(singles))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Vm>)) {
        change(&mut self.source().machines.lock());
    }
}

const FRESH: LookupRequest = LookupRequest::EXISTENCE.and_shutdown().fresh();

#[tokio::test(start_paused = true)]
async fn a_burst_of_5000_nodes_costs_one_list() {
    let inventory = acme(5000);
    inventory
        .source()
        .page_milliseconds
        .store(20, Ordering::SeqCst);
    let batches: Vec<_> = (0..5000).step_by(250).collect();
    let lookups = batches.iter().enumerate().map(|(i, first)| {
        let inventory = inventory.clone();
        let nodes = joining(*first..first + 250);
        async move {
            tokio::time::sleep(Duration::from_millis(1500 * i as u64)).await;
            let answers = inventory.lookup(&nodes, LookupRequest::METADATA).await;
            for (n, answer) in answers.iter().enumerate() {
                assert_eq!(id_of(answer), format!("acme://i-{}", first + n));
            }
        }
    });
    futures::future::join_all(lookups).await;
    assert_eq!(inventory.costs(), (1, 100, 0));
}

#[tokio::test(start_paused = true)]
async fn many_fresh_lookups_cost_one_list_and_one_gone_node_a_single_read() {
    let inventory = acme(5000);
    let answers = inventory.lookup(&joined(0..500), FRESH).await;
    assert!(answers.iter().enumerate().all(
        |(n, a)| matches!(a, Ok(InstanceState::Present { shutdown: Some(down), metadata: None }) if *down == (n % 2 == 1))
    ));
    assert_eq!(inventory.costs(), (1, 100, 0));
    inventory.change(|machines| drop(machines.remove(17)));
    let answers = inventory.lookup(&joined([17]), FRESH).await;
    assert_eq!(
        gone(&answers[0]),
        Some("the cloud has no instance with id \"acme://i-17\"; looked in project \"demo\"")
    );
    let with_witness = inventory.lookup(&joined([17, 18]), FRESH).await;
    assert!(gone(&with_witness[0]).is_some() && gone(&with_witness[1]).is_none());
    assert_eq!(inventory.costs(), (0, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_total_is_no_proof_that_a_machine_is_gone() {
    let inventory = acme(100);
    inventory
        .source()
        .has_no_totals
        .store(true, Ordering::SeqCst);
    inventory.source().last_page.store(1, Ordering::SeqCst);
    inventory.change(|machines| drop(machines.remove(99)));
    let nodes: Vec<_> = joined(30..60)
        .into_iter()
        .chain(joined([99]))
        .chain(joining([70, 99]))
        .collect();
    let answers = inventory.lookup(&nodes, FRESH).await;
    let gone = answers
        .iter()
        .map(|state| gone(state).is_some())
        .enumerate()
        .filter(|(_, gone)| *gone)
        .map(|(at, _)| at);
    assert_eq!(gone.collect::<Vec<_>>(), [30, 32]);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(inventory.costs(), (1, 1, 13));
    // Machines that all lists lack are read over several lookups, and not at all if the list is empty.
    inventory.change(|machines| machines.retain(|vm| vm.id == "i-98"));
    let answers = inventory.lookup(&joined(0..80), FRESH).await;
    assert_eq!(answers.iter().filter(|state| state.is_err()).count(), 30);
    assert_eq!(inventory.costs(), (1, 1, 50));
    inventory.change(Vec::clear);
    assert!(
        inventory
            .lookup(&joined(0..80), FRESH)
            .await
            .iter()
            .all(Result::is_err)
    );
    assert_eq!(inventory.costs(), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn machines_that_lists_lack_are_confirmed_in_turns() {
    let inventory = acme(200);
    inventory
        .source()
        .has_no_totals
        .store(true, Ordering::SeqCst);
    inventory.source().last_page.store(1, Ordering::SeqCst);
    let mut known = HashSet::new();
    for _ in 0..3 {
        let answers = inventory.lookup(&joined(50..200), FRESH).await;
        known.extend(
            answers
                .iter()
                .enumerate()
                .filter(|(_, answer)| answer.is_ok())
                .map(|(at, _)| at),
        );
    }
    assert_eq!(known.len(), 150);
}

#[tokio::test(start_paused = true)]
async fn lookup_of_only_the_state_reads_only_the_state() {
    let inventory = acme(100);
    let briefs = || inventory.source().briefs.load(Ordering::SeqCst);
    inventory.lookup(&joined([1]), FRESH).await;
    assert_eq!(briefs(), 1);
    inventory
        .lookup(&joined([1]), LookupRequest::ADDRESSES)
        .await;
    inventory
        .lookup(&joined([2]), LookupRequest::METADATA.fresh())
        .await;
    inventory
        .clone()
        .mode(Mode::AlwaysSingle)
        .lookup(&joined([3]), FRESH)
        .await;
    assert_eq!(
        briefs(),
        1,
        "a lookup that caches machines or returns addresses reads them whole"
    );
}

#[tokio::test(start_paused = true)]
async fn list_in_flight_does_not_answer_a_fresh_lookup() {
    let inventory = acme(500);
    inventory
        .source()
        .page_milliseconds
        .store(100, Ordering::SeqCst);
    let early = inventory
        .lookup(&joined(0..500).clone(), LookupRequest::EXISTENCE)
        .await;
    assert!(early.iter().all(Result::is_ok));
    inventory.costs();
    tokio::time::sleep(MAX_AGE + MOMENT).await;
    let nodes = joined(0..500);
    let stale = async { inventory.lookup(&nodes, LookupRequest::EXISTENCE).await };
    let fresh = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        inventory.change(|machines| machines.truncate(400));
        let all = (0..20).map(|_| inventory.lookup(&nodes, FRESH));
        futures::future::join_all(all).await
    };
    let (stale, fresh) = tokio::join!(stale, fresh);
    assert_eq!(
        inventory.costs().0,
        2,
        "the list in flight, and one for all later callers"
    );
    // The list in flight changed while it was read: it is unknown if a machine that it lacks exists.
    assert!(stale.iter().all(|answer| gone(answer).is_none()));
    for answers in fresh {
        assert_eq!(
            answers
                .iter()
                .filter(|answer| gone(answer).is_some())
                .count(),
            100
        );
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_one_list() {
    let inventory = acme(1000);
    inventory
        .source()
        .page_milliseconds
        .store(10, Ordering::SeqCst);
    let nodes = joined(0..1000);
    futures::future::join_all((0..50).map(|_| inventory.lookup(&nodes, LookupRequest::ADDRESSES)))
        .await;
    assert_eq!(inventory.costs(), (1, 20, 0));
}

#[tokio::test(start_paused = true)]
async fn list_survives_dropped_callers_and_ends_with_the_last_one() {
    let inventory = acme(1000);
    inventory
        .source()
        .page_milliseconds
        .store(100, Ordering::SeqCst);
    let nodes = joined(0..1000);
    let soon = Duration::from_millis(250);
    let (left, stayed) = tokio::join!(
        tokio::time::timeout(soon, inventory.lookup(&nodes, LookupRequest::EXISTENCE)),
        inventory.lookup(&nodes, LookupRequest::EXISTENCE)
    );
    assert!(left.is_err() && stayed.iter().all(Result::is_ok));
    assert_eq!(inventory.costs(), (1, 20, 0));
    assert!(
        tokio::time::timeout(soon, inventory.lookup(&nodes, FRESH))
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        inventory.costs(),
        (1, 3, 0),
        "the list is not read on without callers"
    );
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_used_for_a_minute_and_then_read_again() {
    let inventory = acme(1000);
    let nodes = joined(0..1000);
    inventory.lookup(&nodes, LookupRequest::ADDRESSES).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    inventory.lookup(&nodes, LookupRequest::ADDRESSES).await;
    assert_eq!(inventory.costs(), (1, 20, 0));
    tokio::time::sleep(Duration::from_secs(1) + MOMENT).await;
    inventory.lookup(&nodes, LookupRequest::ADDRESSES).await;
    assert_eq!(inventory.costs(), (1, 20, 0));
}

#[tokio::test(start_paused = true)]
async fn machine_that_a_young_snapshot_lacks_is_read_from_the_cloud() {
    let inventory = acme(1000);
    inventory
        .lookup(&joined(0..1000), LookupRequest::ADDRESSES)
        .await;
    inventory.costs();
    inventory.change(|machines| {
        machines.push(Vm {
            id: "i-1000".into(),
            name: "worker-1000".into(),
            is_stopped: false,
        });
    });
    let answers = inventory
        .lookup(&joining([3, 1000]), LookupRequest::METADATA)
        .await;
    assert_eq!(
        (id_of(&answers[0]), id_of(&answers[1])),
        ("acme://i-3", "acme://i-1000")
    );
    assert_eq!(inventory.costs(), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn single_reads_that_add_up_become_a_list() {
    let inventory = acme(1000);
    for n in 0..5 {
        inventory
            .lookup(&joining([n]), LookupRequest::METADATA)
            .await;
    }
    assert_eq!(inventory.costs(), (1, 20, 4), "of a list of unknown length");
    tokio::time::sleep(MAX_AGE + MOMENT).await;
    for n in 0..20 {
        inventory
            .lookup(&joining([n]), LookupRequest::METADATA)
            .await;
    }
    assert_eq!(inventory.costs(), (1, 20, 19), "of 20 pages");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_created_again_does_not_get_the_old_machine() {
    let inventory = acme(1000);
    inventory
        .lookup(&joined(0..1000), LookupRequest::ADDRESSES)
        .await;
    inventory.costs();
    inventory.change(|machines| machines[5].id = "i-new".into());
    let mut again = Node::clone(&joining([5])[0]);
    assert_eq!(
        id_of(
            &inventory
                .lookup(&joining([5]), LookupRequest::METADATA)
                .await[0]
        ),
        "acme://i-5",
        "the same Node"
    );
    again.uid = "uid-5-again".into();
    let again = Arc::new(again);
    assert_eq!(
        id_of(&inventory.lookup(&[again], LookupRequest::METADATA).await[0]),
        "acme://i-new"
    );
    assert_eq!(inventory.costs(), (0, 0, 1));
}

/// A Node gets its zone once, and a machine that is being created may have none yet.
#[tokio::test(start_paused = true)]
async fn machine_listed_during_its_creation_is_read_again() {
    let inventory = acme(100);
    inventory.change(|all| {
        all.push(Vm {
            id: "half-made".into(),
            name: "late".into(),
            is_stopped: false,
        });
    });
    let by_name = Arc::new(Node {
        name: "late".into(),
        uid: "uid-late".into(),
        ..Node::default()
    });
    let by_id = Arc::new(Node {
        provider_id: "acme://half-made".into(),
        ..Node::clone(&by_name)
    });
    inventory
        .lookup(&joined(0..100), LookupRequest::ADDRESSES)
        .await;
    inventory.costs();
    for node in [&by_name, &by_id] {
        let answers = inventory
            .lookup(&[Arc::clone(node)], LookupRequest::METADATA)
            .await;
        assert_eq!(
            (id_of(&answers[0]), inventory.costs()),
            ("acme://half-made", (0, 0, 1))
        );
    }
    // A list in flight says nothing about the machine either, least of all that it is gone.
    tokio::time::sleep(MAX_AGE + MOMENT).await;
    inventory
        .source()
        .page_milliseconds
        .store(100, Ordering::SeqCst);
    let nodes = joined(0..100);
    let (_, answers) = tokio::join!(inventory.lookup(&nodes, LookupRequest::ADDRESSES), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        inventory
            .lookup(&[by_name, by_id], LookupRequest::METADATA)
            .await
    });
    assert!(
        answers
            .iter()
            .all(|answer| id_of(answer) == "acme://half-made")
    );
    assert_eq!(inventory.costs(), (1, 3, 2));
}

#[tokio::test(start_paused = true)]
async fn errors_and_partial_lists_prove_no_absence() {
    let all = || joined(0..1000);
    let nobody_is_gone =
        |answers: &[Result<InstanceState>]| assert!(answers.iter().all(|a| gone(a).is_none()));
    // The list fails.
    let inventory = acme(1000);
    inventory.source().fails.store(true, Ordering::SeqCst);
    for nodes in [all(), joined([0]), joining([0])] {
        let answers = inventory.lookup(&nodes, FRESH).await;
        assert!(
            answers
                .iter()
                .all(|answer| answer.as_ref().unwrap_err().is_unauthorized())
        );
    }
    // The list is empty.
    let answers = acme(0).lookup(&all(), FRESH).await;
    assert!(answers.iter().all(|answer| {
        answer
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("proves nothing")
    }));
    // The list ends early: listed machines are present, the others unknown.
    let inventory = acme(1000);
    inventory.source().last_page.store(4, Ordering::SeqCst);
    let answers = inventory.lookup(&all(), FRESH).await;
    nobody_is_gone(&answers);
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 200);
    assert!(
        answers[999]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("1000 were announced and 200 listed")
    );
    // The list ends early and few machines are missing: they are read one by one.
    let inventory = acme(103);
    inventory.lookup(&joined(0..103), FRESH).await;
    inventory.source().last_page.store(2, Ordering::SeqCst);
    inventory.costs();
    let answers = inventory.lookup(&joined(98..102), FRESH).await;
    assert!(answers.iter().all(Result::is_ok));
    nobody_is_gone(&answers);
    assert_eq!(inventory.costs(), (1, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn only_the_provider_id_tells_that_a_node_is_no_machine_of_this_cloud() {
    let inventory = acme(3);
    let source = inventory.source();
    let foreign = Node {
        provider_id: "other://i-1".into(),
        ..Node::default()
    };
    assert_eq!(source.has(&foreign).await.unwrap(), None);
    assert_eq!(source.has(&joined([1])[0]).await.unwrap(), Some(true));
    source.fails.store(true, Ordering::SeqCst);
    source.is_invalid.store(true, Ordering::SeqCst);
    let error = source.has(&joined([1])[0]).await.unwrap_err();
    assert_eq!(error.to_string(), "answered 400");
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cloud_or_with_a_broken_id_is_an_error() {
    let node = |id: &str| {
        Arc::new(Node {
            provider_id: id.into(),
            ..Node::default()
        })
    };
    let answers = acme(3)
        .lookup(
            &[node("other://i-1"), node("acme://"), joined([1])[0].clone()],
            FRESH,
        )
        .await;
    assert_eq!(
        answers[0].as_ref().unwrap_err().to_string(),
        "provider id \"other://i-1\" is not of the form acme://<id>"
    );
    assert!(answers[1].as_ref().unwrap_err().is_invalid());
    assert!(
        answers[2].is_ok(),
        "the mistake of one Node does not affect another"
    );
}

#[tokio::test(start_paused = true)]
async fn ambiguous_machine_name_is_an_error() {
    let inventory = acme(1000);
    inventory.change(|machines| machines[9].name = "worker-8".into());
    for nodes in [joining([8]), joining(0..30)] {
        let answers = inventory.lookup(&nodes, LookupRequest::METADATA).await;
        let err = answers[8 % nodes.len()].as_ref().unwrap_err();
        assert!(
            err.is_invalid() && err.to_string().contains("(i-8, i-9)"),
            "{err}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn missing_name_is_reported_with_the_closest_one() {
    let inventory = acme(12);
    inventory
        .lookup(&joined(0..12), LookupRequest::ADDRESSES)
        .await;
    let node = Arc::new(Node {
        name: "wroker-7".into(),
        ..Node::default()
    });
    let answers = inventory.lookup(&[node], LookupRequest::METADATA).await;
    let reason = gone(&answers[0]).unwrap();
    assert!(
        reason.starts_with(
            "the cloud has no instance named \"wroker-7\"; looked in project \"demo\"; closest: \"worker-7\""
        ),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_count_lookups_that_the_last_list_answered() {
    #[derive(Default)]
    struct Asked(Mutex<Vec<bool>>);
    impl cloud_provider::CloudMetrics for Asked {
        fn cached(&self, hit: bool) {
            self.0.lock().push(hit);
        }
    }
    let asked = Arc::new(Asked::default());
    let vm = |n| Vm {
        id: format!("i-{n}"),
        name: format!("worker-{n}"),
        is_stopped: false,
    };
    let source = Acme {
        machines: Mutex::new((0..20).map(vm).collect()),
        ..Acme::default()
    };
    let inventory = Inventory::new(source)
        .measured(Arc::clone(&asked) as Arc<dyn cloud_provider::CloudMetrics>);
    let told = || std::mem::take(&mut *asked.0.lock());
    inventory
        .lookup(&joined(0..9), LookupRequest::EXISTENCE)
        .await;
    assert_eq!(told(), [false; 9]);
    inventory
        .lookup(&joined([1, 2, 77]), LookupRequest::EXISTENCE)
        .await;
    assert_eq!(told(), [true, true, false], "one is not in the list");
    inventory
        .lookup(&joined([1]), LookupRequest::EXISTENCE.fresh())
        .await;
    assert!(told().is_empty(), "no lookup in the cache");
}

mod guesses;
mod modes;
