//! Seeded chaos: `CCM_SEED=n` replays one run, `CCM_SEEDS=n` plays so many.

use ccm_tests::chaos;
use ccm_tests::cloud_under_test::simulated_cloud;

#[test]
fn after_all_trouble_everything_converges_and_nothing_is_leaked() {
    chaos::proof(simulated_cloud, 250);
}

/// What tasks do that are ready at the same moment may still come in another order: tokio's `select!` has dice of its own.
#[test]
fn a_seed_decides_what_happens() {
    let script = |seed| chaos::run(simulated_cloud, seed).script.into_iter().take(10).collect::<Vec<_>>();
    for seed in [7, 8] {
        assert_eq!(script(seed), script(seed), "seed {seed}");
    }
    assert_ne!(script(7), script(8));
}
