//! A changed file of `--cloud-config` (APP-89).

use crate::world::{World, seconds};

#[tokio::test(start_paused = true)]
async fn a_changed_configuration_is_handed_to_the_provider_on_every_replica() {
    let world = World::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "token: one").unwrap();
    let flag = format!("--cloud-config={}", file.path().display());
    let leader = world.start(&[&flag]).await;
    seconds(3).await;
    let standby = world.start(&[&flag]).await;
    seconds(30).await;
    assert!(world.reloads().is_empty());
    std::fs::write(file.path(), "token: two").unwrap();
    seconds(30).await;
    assert_eq!(world.reloads(), ["token: two", "token: two"]);
    leader.end().await.unwrap();
    standby.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_configuration_may_end_the_process_in_order() {
    let world = World::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let flag = format!("--cloud-config={}", file.path().display());
    let process = world.start(&[&flag, "--cloud-config-change=exit"]).await;
    seconds(30).await;
    assert!(!world.holder().is_empty() && !process.task.is_finished());
    std::fs::write(file.path(), "token: two").unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(15), process.task).await;
    assert!(ended.expect("it ends").unwrap().is_ok(), "exit code 0");
    assert_eq!(world.holder(), "", "released");
    assert!(world.reloads().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_changed_configuration_may_be_ignored() {
    let world = World::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let flag = format!("--cloud-config={}", file.path().display());
    let process = world.start(&[&flag, "--cloud-config-change=ignore"]).await;
    std::fs::write(file.path(), "token: two").unwrap();
    seconds(60).await;
    assert!(world.reloads().is_empty() && !process.task.is_finished());
    process.end().await.unwrap();
}
