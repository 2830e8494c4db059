//! Second load balancers of a Service: twins, copies of a Service, and replacements.

use cloud_provider::names::{ANNOTATION_LOAD_BALANCER_ID, ANNOTATION_SUPERSEDED};
use cloud_provider::{
    Error, Goal, LoadBalancerRequest, LoadBalancerStatus, LoadBalancerWarning, LoadBalancers,
    Ownership, Plan, Result, Service, SyncCallbacks, async_trait,
};
use parking_lot::Mutex;

use super::super::{Attributes, OwnerTags, ResourceGraph};
use super::small::{REFUSES_REPLACEMENT, Town, ZONE, with_targets};

/// Records warnings, annotations and the published addresses; refuses to publish if `is_away`.
#[derive(Default)]
struct Recorder<'a> {
    is_away: bool,
    /// The report at which the user does something, with what the user does.
    user: Option<(&'static str, &'a (dyn Fn() + Send + Sync))>,
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<Vec<(String, Option<String>)>>,
    published: Mutex<Vec<String>>,
}

impl Recorder<'_> {
    fn let_user_act(&self, report: &str) {
        self.user
            .iter()
            .filter(|(at, _)| *at == report)
            .for_each(|(_, act)| act());
    }
}

#[async_trait]
impl SyncCallbacks for Recorder<'_> {
    fn on_plan(&self, _plan: &Plan) {
        self.let_user_act("plan");
    }

    fn warn(&self, warning: &LoadBalancerWarning) {
        self.let_user_act("warning");
        self.warnings.lock().push(warning.text().to_owned());
    }

    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.annotations.lock().push((key.to_owned(), value));
    }

    async fn publish(&self, status: &LoadBalancerStatus) -> Result<()> {
        if self.is_away {
            return Err(Error::other("the API server is away"));
        }
        self.let_user_act("status");
        self.published.lock().extend(
            status
                .ingress
                .iter()
                .flatten()
                .filter_map(|ingress| ingress.ip.clone()),
        );
        Ok(())
    }
}

async fn ensure(town: &Town, service: &Service, recorder: &Recorder<'_>) -> Result<()> {
    town.change(service);
    let request = LoadBalancerRequest {
        callbacks: recorder,
        ..town.request(service)
    };
    town.balancers.ensure(request).await.map(drop)
}

fn ids(town: &Town) -> Vec<String> {
    town.cloud.state().balancers.keys().cloned().collect()
}

fn annotate(service: &mut Service, key: &str, value: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(key.to_owned(), value.to_owned());
}

fn shows(service: &mut Service, address: &str) {
    let status = serde_json::json!({"loadBalancer": {"ingress": [{"ip": address}]}});
    service.status = Some(serde_json::from_value(status).unwrap());
}

fn serving(targets: &[&str]) -> ResourceGraph {
    with_targets(targets).listener(80, "TCP", "main", Attributes::default())
}

/// Asserts that the Service keeps `kept`, and that the other load balancer stays unchanged, with one warning.
async fn assert_twin_stays(town: &mut Town, service: &Service, kept: &str, case: &str) {
    let twin = ids(town).into_iter().find(|id| id != kept).unwrap();
    let before = format!("{:?}", town.cloud.one(&twin));
    for _ in 0..2 {
        let recorder = Recorder::default();
        ensure(town, service, &recorder).await.unwrap();
        ensure(town, service, &recorder).await.unwrap();
        let warnings = recorder.warnings.lock().clone();
        assert!(
            warnings.len() == 1 && warnings[0].contains(&twin) && warnings[0].contains(kept),
            "{case}: {warnings:?}"
        );
        assert_eq!(format!("{:?}", town.cloud.one(&twin)), before, "{case}");
        let plan = town
            .balancers
            .plan(town.request(service), Goal::Ensured)
            .await
            .unwrap();
        assert!(plan.is_empty(), "{case}: {plan:?}");
        assert_eq!(plan.notes, warnings, "{case}");
        let shown = town
            .balancers
            .describe(town.request(service))
            .await
            .unwrap();
        let of = |id: &str| {
            shown
                .iter()
                .find(|entry| entry.id == id)
                .unwrap()
                .ownership
                .clone()
        };
        assert_eq!(
            (of(kept), of(&twin)),
            (Ownership::Own, Ownership::Twin(warnings[0].clone())),
            "{case}"
        );
        town.restart();
    }
}

#[tokio::test(start_paused = true)]
async fn twin_stays_and_is_reported_and_the_service_keeps_the_one_that_it_shows() {
    for case in ["status", "annotation", "traffic", "age"] {
        let mut town = Town::default();
        let mut service = town.service("s1", serving(&["a"]));
        let bare = ResourceGraph::default().balancer(Attributes::default());
        let first = if case == "traffic" {
            bare
        } else {
            serving(&["a"])
        };
        town.cloud
            .add("as1", town.owner_tags("s1"), Some("legacy-s1"), first);
        town.cloud.add(
            "copy",
            town.owner_tags("s1"),
            Some("legacy-s1"),
            serving(&["a"]),
        );
        match case {
            "status" => shows(&mut service, "192.0.2.2"),
            "annotation" => annotate(&mut service, ANNOTATION_LOAD_BALANCER_ID, "lb-2"),
            _ => {}
        }
        let kept = if case == "age" { "lb-1" } else { "lb-2" };
        assert_twin_stays(&mut town, &service, kept, case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn twin_of_a_requested_load_balancer_stays() {
    let mut town = Town::default();
    let mut service = town.service("s1", serving(&["a"]));
    for name in ["as1", "copy"] {
        town.cloud.add(
            name,
            town.owner_tags("s1"),
            Some("legacy-s1"),
            serving(&["a"]),
        );
    }
    annotate(&mut service, "id", "lb-2");
    shows(&mut service, "192.0.2.2");
    assert_twin_stays(&mut town, &service, "lb-2", "requested").await;
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_a_move_left_behind_is_deleted_after_a_restart() {
    let mut town = Town::default();
    let mut service = town.service("s1", serving(&["a"]));
    for name in ["as1", "copy"] {
        town.cloud.add(
            name,
            town.owner_tags("s1"),
            Some("legacy-s1"),
            serving(&["a"]),
        );
    }
    annotate(&mut service, "id", "lb-2");
    shows(&mut service, "192.0.2.2");
    annotate(&mut service, ANNOTATION_SUPERSEDED, "lb-1");
    town.restart();
    let recorder = Recorder::default();
    ensure(&town, &service, &recorder).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
    let last = recorder.annotations.lock().last().cloned();
    assert_eq!(
        last,
        Some((ANNOTATION_SUPERSEDED.to_owned(), None)),
        "nothing is left behind any more"
    );
}

#[tokio::test(start_paused = true)]
async fn copied_service_takes_no_load_balancer_from_the_original() {
    for (shown, tag) in [(true, None), (false, None), (true, Some("legacy-copy"))] {
        let town = Town::default();
        town.cloud.state().adopts = true;
        let mut original = town.service("s1", with_targets(&["a"]));
        let mut copy = town.service("copy", with_targets(&["b"]));
        let id = town
            .cloud
            .add("web", OwnerTags::default(), tag, with_targets(&["a"]));
        for (service, created) in [
            (&mut original, "2026-01-01T00:00:00Z"),
            (&mut copy, "2026-02-01T00:00:00Z"),
        ] {
            annotate(service, "id", &id);
            annotate(service, "name", "web");
            service.metadata.creation_timestamp =
                serde_json::from_value(serde_json::json!(created)).unwrap();
        }
        if shown {
            shows(&mut original, "192.0.2.1");
        }
        *town.cached.services.lock() = vec![original.clone().into(), copy.clone().into()];
        let error = town
            .balancers
            .ensure(town.request(&copy))
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("belongs to Service default/s1"),
            "{error}"
        );
        town.balancers.delete(town.request(&copy)).await.unwrap();
        assert_eq!(
            town.cloud.one(&id).owner_tags,
            OwnerTags::default(),
            "nothing has changed"
        );
        if tag.is_none() {
            town.balancers
                .ensure(town.request(&original))
                .await
                .unwrap();
            assert_eq!(town.cloud.one(&id).owner_tags, town.owner_tags("s1"));
        }
    }
}

fn in_zone(zone: &str, targets: &[&str]) -> ResourceGraph {
    serving(targets).balancer(Attributes::default().set(ZONE, zone).fixed(&[ZONE]))
}

/// Returns a Service whose load balancer, `lb-1`, is in zone `a`.
async fn in_zone_a(interrupts: bool) -> (Town, Service) {
    let town = Town::default();
    town.cloud.state().replaces = Some(interrupts);
    town.cloud.state().names_are_not_unique = true;
    let mut service = town.service("s1", in_zone("a", &["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    shows(&mut service, "192.0.2.1");
    (town, service)
}

#[tokio::test(start_paused = true)]
async fn replacement_works_before_the_old_load_balancer_is_deleted() {
    let (town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["a"]));
    let plan = town
        .balancers
        .plan(town.request(&service), Goal::Ensured)
        .await
        .unwrap();
    let steps: Vec<_> = plan.steps.iter().map(ToString::to_string).collect();
    assert!(
        steps[0].starts_with("create") && steps.last().unwrap().starts_with("delete"),
        "{steps:?}"
    );
    let recorder = Recorder::default();
    ensure(&town, &service, &recorder).await.unwrap();
    assert_eq!(
        (ids(&town), recorder.published.lock().clone()),
        (vec!["lb-2".to_owned()], vec!["192.0.2.2".to_owned()])
    );
    let warnings = recorder.warnings.lock().clone();
    assert!(
        warnings.len() == 1 && warnings[0].contains("a new one is created first"),
        "{warnings:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_replacement_leaves_the_old_load_balancer_in_use() {
    let (town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["b"]));
    town.cloud.state().has_no_time = (1, false);
    ensure(&town, &service, &Recorder::default())
        .await
        .unwrap_err();
    assert_eq!(ids(&town), ["lb-1"]);
    assert_eq!(
        town.cloud
            .one("lb-1")
            .graph
            .unwrap()
            .targets_of("main")
            .to_string(),
        "b",
        "it serves the Nodes of now"
    );
}

#[tokio::test(start_paused = true)]
async fn replacement_that_ends_in_between_is_finished_after_a_restart() {
    let (mut town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["a"]));
    ensure(
        &town,
        &service,
        &Recorder {
            is_away: true,
            ..Recorder::default()
        },
    )
    .await
    .unwrap_err();
    assert_eq!(ids(&town), ["lb-1", "lb-2"]);
    town.restart();
    ensure(&town, &service, &Recorder::default()).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"], "no third one is created");
}

#[tokio::test(start_paused = true)]
async fn replacement_that_the_user_takes_back_meanwhile_keeps_the_old_load_balancer() {
    for reverts in [false, true] {
        let (town, service) = in_zone_a(false).await;
        town.want("s1", in_zone("b", &["a"]));
        let mut changed = service.clone();
        annotate(
            &mut changed,
            if reverts { "any" } else { REFUSES_REPLACEMENT },
            "",
        );
        let act = || {
            town.change(&changed);
            if reverts {
                town.want("s1", in_zone("a", &["a"]));
            }
        };
        let recorder = Recorder {
            user: Some(("plan", &act)),
            ..Recorder::default()
        };
        let error = ensure(&town, &service, &recorder).await.unwrap_err();
        assert!(
            error.to_string().contains("lb-1") && error.to_string().contains("no longer permits"),
            "{error}"
        );
        assert_eq!(
            (ids(&town), recorder.published.lock().len()),
            (vec!["lb-1".to_owned(), "lb-2".to_owned()], 0)
        );
        let last = recorder.annotations.lock().last().cloned();
        assert_eq!(
            last,
            Some((ANNOTATION_SUPERSEDED.to_owned(), Some("lb-2".to_owned())))
        );
        // The next sync starts from the Service as it is now, with the record.
        annotate(&mut changed, ANNOTATION_SUPERSEDED, "lb-2");
        town.change(&changed);
        if !reverts {
            let error = ensure(&town, &changed, &Recorder::default())
                .await
                .unwrap_err();
            assert!(error.is_invalid(), "{error}");
            assert_eq!(ids(&town), ["lb-1", "lb-2"]);
            town.want("s1", in_zone("a", &["a"]));
        }
        ensure(&town, &changed, &Recorder::default()).await.unwrap();
        assert_eq!(
            ids(&town),
            ["lb-1"],
            "the Service keeps the address that it shows"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn change_of_kind_is_reported_before_anything_is_created() {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    shows(&mut service, "192.0.2.1");
    annotate(&mut service, "network", "");
    let recorder = Recorder::default();
    ensure(&town, &service, &recorder).await.unwrap();
    let warnings = recorder.warnings.lock().clone();
    assert!(
        warnings.len() == 1 && warnings[0].contains("kind:") && warnings[0].contains("lb-1"),
        "{warnings:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn replacement_waits_until_a_target_of_the_new_load_balancer_is_healthy() {
    let (mut town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["a"]));
    town.cloud.state().health = [("lb-1".to_owned(), true), ("lb-2".to_owned(), false)].into();
    let recorder = Recorder::default();
    for _ in 0..2 {
        let error = ensure(&town, &service, &recorder).await.unwrap_err();
        assert!(
            error.retry_after().is_some() && error.to_string().contains("no target of"),
            "{error}"
        );
        assert_eq!(
            (ids(&town), recorder.published.lock().len()),
            (vec!["lb-1".to_owned(), "lb-2".to_owned()], 0)
        );
        town.restart();
    }
    town.cloud.state().health.insert("lb-2".to_owned(), true);
    ensure(&town, &service, &recorder).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
}

#[tokio::test(start_paused = true)]
async fn replacement_of_a_load_balancer_without_healthy_targets_waits_for_none() {
    let (town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["a"]));
    town.cloud.state().health = [("lb-1".to_owned(), false), ("lb-2".to_owned(), false)].into();
    ensure(&town, &service, &Recorder::default()).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
}

#[tokio::test(start_paused = true)]
async fn replacement_goes_on_if_the_user_changes_something_else_meanwhile() {
    let (town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["a"]));
    let mut changed = service.clone();
    annotate(&mut changed, "any", "");
    let act = || town.change(&changed);
    ensure(
        &town,
        &service,
        &Recorder {
            user: Some(("plan", &act)),
            ..Recorder::default()
        },
    )
    .await
    .unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
}

#[tokio::test(start_paused = true)]
async fn replacement_that_the_user_takes_back_after_the_new_address_is_shown_deletes_nothing() {
    let (mut town, service) = in_zone_a(false).await;
    town.want("s1", in_zone("b", &["a"]));
    let mut changed = service.clone();
    annotate(&mut changed, REFUSES_REPLACEMENT, "");
    let act = || town.change(&changed);
    let recorder = Recorder {
        user: Some(("status", &act)),
        ..Recorder::default()
    };
    ensure(&town, &service, &recorder).await.unwrap();
    assert_eq!(ids(&town), ["lb-1", "lb-2"]);
    let last = recorder.annotations.lock().last().cloned();
    assert_eq!(
        last,
        Some((ANNOTATION_SUPERSEDED.to_owned(), None)),
        "the old one is not recorded as left behind"
    );
    shows(&mut changed, "192.0.2.2");
    assert_twin_stays(&mut town, &changed, "lb-2", "taken back").await;
}

#[tokio::test(start_paused = true)]
async fn interruption_that_the_user_takes_back_deletes_nothing() {
    let (town, service) = in_zone_a(true).await;
    town.want("s1", in_zone("b", &["a"]));
    let mut changed = service.clone();
    annotate(&mut changed, REFUSES_REPLACEMENT, "");
    let act = || town.change(&changed);
    let recorder = Recorder {
        user: Some(("warning", &act)),
        ..Recorder::default()
    };
    let error = ensure(&town, &service, &recorder).await.unwrap_err();
    assert!(error.to_string().contains("no longer permits"), "{error}");
    assert_eq!(ids(&town), ["lb-1"]);
}

#[tokio::test(start_paused = true)]
async fn interruption_is_reported_before_the_old_load_balancer_is_deleted() {
    let (town, service) = in_zone_a(true).await;
    town.want("s1", in_zone("b", &["a"]));
    let recorder = Recorder::default();
    ensure(&town, &service, &recorder).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
    let warnings = recorder.warnings.lock().clone();
    assert!(
        warnings.len() == 1 && warnings[0].contains("not reachable in between"),
        "{warnings:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn setting_that_the_cloud_chose_is_read_before_it_is_compared() {
    let town = Town::default();
    town.cloud.state().chosen = Some(Attributes::default().set(ZONE, "a"));
    let service = town.service("s1", serving(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.want("s1", in_zone("a", &["a"]));
    town.cloud.requests();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        town.cloud.requests(),
        ["read"],
        "the state that this process wrote lacks the zone"
    );
    town.want("s1", in_zone("b", &["a"]));
    let error = town
        .balancers
        .ensure(town.request(&service))
        .await
        .unwrap_err();
    assert!(error.is_invalid(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn service_is_deleted_after_its_machines_if_this_process_deleted_its_load_balancer() {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    shows(&mut service, "192.0.2.1");
    service.metadata.deletion_timestamp =
        serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).unwrap();
    town.cloud.state().machines_are_known = false;
    town.balancers.delete(town.request(&service)).await.unwrap();
    assert_eq!(ids(&town), [""; 0]);
    assert_eq!(
        town.balancers.get(town.request(&service)).await.unwrap(),
        None
    );
    town.balancers.delete(town.request(&service)).await.unwrap();
}
