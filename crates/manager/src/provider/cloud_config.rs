//! Watches the file of `--cloud-config` for changes (APP-89).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, ConfigFile, Error, Reload};
use futures::FutureExt;
use metrics::{CloudConfigChange, Metrics};
use tokio::time::{Instant, sleep, timeout};

use crate::flags::OnCloudConfigChange;

/// Interval between reads of the file.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of the provider's reload.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// First pause before a file that the cloud rejected or did not answer for is loaded again; later pauses grow. A new
/// password may be in the file before the cloud accepts it (P-39), and repeated refusals may lock an account.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(600);

/// The last version of the file. The whole file is read by its path each time, which follows the links that Kubernetes
/// swaps when a Secret changes and does not depend on modification times. Only a hash is kept, because the file holds
/// secrets.
pub(crate) struct CloudConfigWatch {
    path: PathBuf,
    on_change: OnCloudConfigChange,
    known: Option<u64>,
    /// Hash of the files that the provider reads in addition to this file.
    known_additional: u64,
    /// Last error of reading the file, so that each error is logged once.
    trouble: Option<String>,
}

impl CloudConfigWatch {
    /// Records the file before the provider reads it, so that a change in between is noticed. Returns `None` if changes
    /// are to be ignored.
    pub(crate) fn note(path: PathBuf, on_change: OnCloudConfigChange) -> Option<Self> {
        if cloud_provider::files::is_writable_by_all(&path) {
            tracing::warn!(path = %path.display(), "every user of this machine may write the cloud-config; use chmod o-w");
        }
        if on_change == OnCloudConfigChange::Ignore {
            return None;
        }
        let known = cloud_provider::files::read_to_string(&path)
            .ok()
            .map(|text| hash(&text));
        Some(Self {
            path,
            on_change,
            known,
            known_additional: 0,
            trouble: None,
        })
    }

    /// Watches the file. Returns only if the process must end because of a change.
    pub(crate) async fn follow(mut self, provider: Arc<dyn CloudProvider>, metrics: Metrics) {
        let path = self.path.display().to_string();
        self.known_additional = read_all(config_files(&*provider)).await;
        let mut again = None;
        let mut pause = RETRY_PAUSE;
        loop {
            sleep(READ_INTERVAL).await;
            let is_again = again.take_if(|at| *at <= Instant::now()).is_some();
            if is_again {
                self.known = None;
            }
            let Some(text) = self.changed(config_files(&*provider)).await else {
                continue;
            };
            if self.on_change == OnCloudConfigChange::Exit {
                tracing::info!(
                    path,
                    "cloud configuration changed, ending the process so that it is restarted with the new one"
                );
                return;
            }
            pause = if is_again {
                (pause * 2).min(MAX_RETRY_PAUSE)
            } else {
                RETRY_PAUSE
            };
            again = None;
            let reloaded = reload(
                &*provider,
                &ConfigFile {
                    path: path.clone(),
                    text,
                },
            )
            .await;
            metrics.cloud_config_changed(match &reloaded {
                Ok(Reload::Done) => CloudConfigChange::InUse,
                Ok(Reload::NeedsRestart) => CloudConfigChange::NeedsRestart,
                Err(_) => CloudConfigChange::Unusable,
            });
            match reloaded {
                Ok(Reload::Done) => tracing::info!(path, "cloud configuration reloaded"),
                Ok(Reload::NeedsRestart) => {
                    tracing::warn!(
                        path,
                        "cloud configuration changed, but parts of it need a restart: restart the process, or set \
                         --cloud-config-change=exit to end it automatically"
                    );
                }
                Err(error) => {
                    // A retry does not help against a mistake in the file itself.
                    again = (!error.is_invalid()).then(|| Instant::now() + pause);
                    let reason = error.to_string();
                    tracing::error!(
                        path,
                        reason,
                        "cannot use the changed cloud configuration; keeping the previous one"
                    );
                }
            }
        }
    }

    /// Returns the content of the file if the file, or one of the provider's further files (`config_files`), has
    /// changed. A file that is missing or unreadable counts as unchanged.
    async fn changed(&mut self, config_files: Vec<PathBuf>) -> Option<String> {
        let path = self.path.clone();
        let read =
            tokio::task::spawn_blocking(move || cloud_provider::files::read_to_string(path)).await;
        let text = match read.map_err(std::io::Error::other).flatten() {
            Ok(text) => text,
            Err(error) => {
                let trouble = error.to_string();
                if self.trouble.as_ref() != Some(&trouble) {
                    let path = self.path.display();
                    tracing::warn!(%path, reason = trouble, "cannot read the cloud configuration any more; keeping \
                                                             the previous one");
                    self.trouble = Some(trouble);
                }
                return None;
            }
        };
        self.trouble = None;
        let new = (Some(hash(&text)), read_all(config_files).await);
        let known = (
            std::mem::replace(&mut self.known, new.0),
            std::mem::replace(&mut self.known_additional, new.1),
        );
        (known != new).then_some(text)
    }
}

fn hash(text: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash of the files' contents. An unreadable file counts as one without content.
async fn read_all(files: Vec<PathBuf>) -> u64 {
    let read = move || {
        hash(
            files
                .iter()
                .map(|path| cloud_provider::files::read(path).ok())
                .collect::<Vec<_>>(),
        )
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// Returns the files that the provider reads in addition to its own; none if the provider panics.
fn config_files(provider: &dyn CloudProvider) -> Vec<PathBuf> {
    catch_unwind(AssertUnwindSafe(|| provider.config_files())).unwrap_or_else(|_| {
        tracing::error!(
            provider = provider.name(),
            "the provider panicked while listing its configuration files"
        );
        Vec::new()
    })
}

/// Passes the file to the provider, and turns a panic or a time-out into an error, so that the manager keeps running.
async fn reload(provider: &dyn CloudProvider, file: &ConfigFile) -> cloud_provider::Result<Reload> {
    let reloading = AssertUnwindSafe(async { provider.reload(file).await }).catch_unwind();
    match timeout(RELOAD_TIMEOUT, reloading).await {
        Ok(Ok(reload)) => reload,
        Ok(Err(_)) => Err(Error::invalid(format!(
            "cloud provider {} panicked",
            provider.name()
        ))),
        Err(_) => {
            let name = provider.name();
            let seconds = RELOAD_TIMEOUT.as_secs();
            Err(Error::other(format!(
                "cloud provider {name} did not reload it within {seconds} s"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::test_provider::Acme;

    /// A file mounted like a Secret: a link through another link, of which the inner one is swapped.
    struct Mounted(tempfile::TempDir);

    impl Mounted {
        fn new(text: &str) -> Self {
            let this = Self(tempfile::tempdir().unwrap());
            this.swap("..1", text);
            std::os::unix::fs::symlink("..data/cloud.yaml", this.path()).unwrap();
            this
        }
        fn path(&self) -> PathBuf {
            self.0.path().join("cloud.yaml")
        }
        fn swap(&self, version: &str, text: &str) {
            let at = |name: &str| self.0.path().join(name);
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("cloud.yaml"), text).unwrap();
            std::os::unix::fs::symlink(version, at("..tmp")).unwrap();
            std::fs::rename(at("..tmp"), at("..data")).unwrap();
        }
    }

    fn follow(
        path: &Path,
        on_change: OnCloudConfigChange,
    ) -> (Arc<Acme>, tokio::task::JoinHandle<()>) {
        follow_counted(path, on_change, Metrics::new())
    }

    fn follow_counted(
        path: &Path,
        on_change: OnCloudConfigChange,
        metrics: Metrics,
    ) -> (Arc<Acme>, tokio::task::JoinHandle<()>) {
        let provider = Arc::new(Acme::default());
        let config = CloudConfigWatch::note(path.to_owned(), on_change).unwrap();
        (
            Arc::clone(&provider),
            tokio::spawn(config.follow(provider, metrics)),
        )
    }

    async fn periods(count: u32) {
        sleep(READ_INTERVAL * count + Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_change_is_handed_over_once_also_through_swapped_links_and_after_a_mistake() {
        let file = Mounted::new("good 1");
        let metrics = Metrics::new();
        let (provider, task) =
            follow_counted(&file.path(), OnCloudConfigChange::Reload, metrics.clone());
        periods(3).await;
        assert!(provider.texts.lock().is_empty(), "nothing has changed");
        for (number, text) in ["good 2", "bad", "panic", "good 3", "hang", "good 4"]
            .into_iter()
            .enumerate()
        {
            file.swap(&format!("..{}", number + 2), text);
            periods(9).await;
        }
        std::fs::write(file.path(), "good 5").unwrap();
        periods(3).await;
        std::fs::remove_file(file.path()).unwrap();
        periods(3).await;
        let texts = provider.texts.lock().clone();
        assert_eq!(
            texts,
            [
                "good 2", "bad", "panic", "good 3", "hang", "good 4", "good 5"
            ]
        );
        for (result, count) in [("success", 4), ("error", 3), ("restart", 0)] {
            let series = format!(
                "ccm_credential_reloads_total{{credential=\"cloud-config\",result=\"{result}\"}} {count}\n"
            );
            assert!(metrics.render().contains(&series), "{series}");
        }
        assert!(!task.is_finished());
    }

    /// A rejected file is loaded again with growing pauses (P-39).
    #[tokio::test(start_paused = true)]
    async fn refused_configuration_is_tried_again_with_growing_delays() {
        let file = Mounted::new("good 1");
        let (provider, _task) = follow(&file.path(), OnCloudConfigChange::Reload);
        file.swap("..2", "early");
        let count = || provider.texts.lock().len();
        for (more, tries) in [(1, 1), (5, 1), (1, 2), (11, 2), (2, 3), (400, 10)] {
            periods(more).await;
            assert_eq!(count(), tries, "after {more} more");
        }
        file.swap("..3", "bad");
        periods(400).await;
        assert_eq!(
            count(),
            11,
            "what is wrong in the file is no better next time"
        );
        file.swap("..4", "early");
        periods(8).await;
        assert_eq!(count(), 13, "the pauses begin anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_the_provider_read_beside_it_is_followed_with_it() {
        let file = Mounted::new("good 1");
        let other = tempfile::NamedTempFile::new().unwrap();
        let provider = Arc::new(Acme {
            config_files: vec![other.path().to_owned(), "/none".into()],
            ..Acme::default()
        });
        let config = CloudConfigWatch::note(file.path(), OnCloudConfigChange::Reload).unwrap();
        let task = tokio::spawn(config.follow(Arc::clone(&provider) as _, Metrics::new()));
        periods(3).await;
        assert!(provider.texts.lock().is_empty(), "nothing has changed");
        std::fs::write(other.path(), "another certificate").unwrap();
        periods(3).await;
        assert_eq!(*provider.texts.lock(), ["good 1"]);
        assert!(!task.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_reads_it_at_its_start_is_asked_at_each_change() {
        let file = Mounted::new("good 1");
        let (provider, task) = follow(&file.path(), OnCloudConfigChange::Reload);
        for number in 2..5 {
            file.swap(&format!("..{number}"), &format!("old {number}"));
            periods(2).await;
        }
        // A credential in the file may have been adopted all the same.
        assert_eq!(provider.texts.lock().len(), 3);
        assert!(!task.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn changed_configuration_ends_the_process_if_configured_but_a_missing_file_does_not() {
        let file = Mounted::new("good 1");
        let (provider, task) = follow(&file.path(), OnCloudConfigChange::Exit);
        std::fs::remove_file(file.path()).unwrap();
        periods(3).await;
        std::os::unix::fs::symlink("..data/cloud.yaml", file.path()).unwrap();
        periods(3).await;
        assert!(!task.is_finished(), "it came back as it was");
        file.swap("..2", "whatever");
        periods(2).await;
        assert!(task.is_finished() && provider.texts.lock().is_empty());
    }

    #[test]
    fn changes_can_be_ignored() {
        assert!(CloudConfigWatch::note("/x".into(), OnCloudConfigChange::Ignore).is_none());
    }
}
