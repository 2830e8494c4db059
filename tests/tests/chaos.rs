//! Seeded chaos: `CCM_SEED=n` replays one run, `CCM_SEEDS=n` plays so many.

use ccm_tests::chaos::{self, Seeds};
use ccm_tests::cloud_under_test::simulated_cloud;

#[test]
fn after_all_trouble_everything_converges_and_nothing_is_leaked() {
    chaos::survive(simulated_cloud, &Seeds::from_environment(500));
}

#[test]
fn a_seed_replays_the_same_run() {
    for seed in [7, 8, 9] {
        let [first, second] = [(), ()].map(|()| chaos::run(simulated_cloud, seed));
        for (first, second) in first.script.iter().zip(&second.script) {
            assert_eq!(first, second);
        }
        assert_eq!(first.tally, second.tally);
    }
}
