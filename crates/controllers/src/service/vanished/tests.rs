use super::*;

const DELAY: Duration = Duration::from_secs(300);

/// Returns a state with this many missing Services, their IDs, and the time at which they vanished.
fn missing(count: usize) -> (VanishedState, Vec<(String, String)>, Instant) {
    let mut state = VanishedState::new(GuardOptions::default());
    let now = Instant::now();
    let ids: Vec<_> = (0..count)
        .map(|n| (format!("default/s{n}"), format!("u{n}")))
        .collect();
    for id in &ids {
        let service = Arc::default();
        let first_read = None;
        let reported = None;
        state.absent.insert(
            id.clone(),
            Absence {
                service,
                is_replaced: false,
                first_read,
                due: now,
                reported,
            },
        );
    }
    (state, ids, now)
}

fn cause(step: VanishedStep) -> &'static str {
    match step {
        VanishedStep::Keep => "keep",
        VanishedStep::Report(held) => held.cause(),
        VanishedStep::Read => "read",
    }
}

#[test]
fn one_missing_service_is_read_twice_five_minutes_apart() {
    let (mut state, ids, now) = missing(1);
    assert_eq!(state.step(now, &ids[0], 10), VanishedStep::Read);
    let (may_delete, step) = state.not_found(now, &ids[0]);
    assert_eq!((may_delete, cause(step)), (false, "unconfirmed"));
    assert_eq!(state.step(now + DELAY / 2, &ids[0], 10), VanishedStep::Keep);
    assert_eq!(
        state.not_found(now + DELAY / 2, &ids[0]),
        (false, VanishedStep::Keep),
        "told once"
    );
    assert_eq!(state.step(now + DELAY, &ids[0], 10), VanishedStep::Read);
    assert_eq!(
        state.not_found(now + DELAY, &ids[0]),
        (true, VanishedStep::Keep)
    );
}

#[test]
fn more_than_half_of_four_services_are_a_landslide() {
    for (gone, of, expected) in [
        (1, 1, "read"),
        (3, 3, "read"),
        (2, 4, "read"),
        (3, 4, "landslide"),
        (5, 10, "read"),
        (6, 10, "landslide"),
    ] {
        let (mut state, ids, now) = missing(gone);
        assert_eq!(
            cause(state.step(now, &ids[0], of)),
            expected,
            "{gone} of {of}"
        );
    }
}

#[test]
fn a_landslide_is_never_believed_however_long_it_lasts() {
    let (mut state, ids, now) = missing(6);
    assert_eq!(cause(state.step(now, &ids[0], 10)), "landslide");
    for days in 1..10 {
        let now = now + Duration::from_secs(days * 86_400);
        assert_eq!(state.step(now, &ids[0], 10), VanishedStep::Keep);
    }
}

#[test]
fn missing_services_are_read_twice_again_after_a_landslide() {
    let (mut state, ids, now) = missing(6);
    state.not_found(now, &ids[0]);
    state
        .absent
        .values_mut()
        .for_each(|absence| absence.due = now);
    assert_eq!(cause(state.step(now, &ids[1], 10)), "landslide");
    for id in &ids[2..] {
        state.absent.remove(id);
    }
    let later = now + 2 * DELAY;
    assert_eq!(state.step(later, &ids[0], 10), VanishedStep::Read);
    assert!(
        !state.not_found(later, &ids[0]).0,
        "the read before the landslide does not count"
    );
    assert!(state.not_found(later + DELAY, &ids[0]).0);
}

#[test]
fn services_that_go_in_small_portions_are_a_landslide_too() {
    let (mut state, ids, now) = missing(1);
    state.removed = vec![now; 5];
    assert_eq!(cause(state.step(now, &ids[0], 5)), "landslide", "6 of 10");
    assert_eq!(
        state.step(now + DELAY.max(RETRY_PAUSE), &ids[0], 5),
        VanishedStep::Read,
        "the others went long ago"
    );
}

#[test]
fn a_service_that_was_replaced_is_one_more() {
    let (mut state, ids, now) = missing(4);
    state
        .absent
        .values_mut()
        .for_each(|absence| absence.is_replaced = true);
    assert_eq!(state.step(now, &ids[0], 4), VanishedStep::Read, "4 of 8");
}

#[test]
fn services_of_one_key_are_told_from_those_of_another() {
    let vanished = Vanished::new(Some(GuardOptions::default()));
    let service = |uid: &str| {
        let mut service = Service::default();
        service.metadata.uid = Some(uid.to_owned());
        Arc::new(service)
    };
    for (key, uid) in [("a/b", "1"), ("a/b", "2"), ("a/bc", "3"), ("a/a", "4")] {
        vanished.note(key, &service(uid), false);
    }
    let uids: Vec<_> = vanished
        .of("a/b")
        .iter()
        .filter_map(|entry| entry.metadata.uid.clone())
        .collect();
    assert_eq!(
        (uids, vanished.len()),
        (vec!["1".to_owned(), "2".to_owned()], 4)
    );
    assert!(
        vanished.note_present("a/b", &service("1")) && !vanished.note_present("a/b", &service("1"))
    );
    assert!(Vanished::new(None).of("a/b").is_empty());
}
