//! Test bed that the environment variables name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ccm_tests::real;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::RwLock;

use crate::cloud::{Api, Cloud, Login};
use crate::project::Pool;

const OUT: &str = "CCM_TEST_OPENSTACK";
const SERVICES: &str = "CCM_TEST_OPENSTACK_SERVICES";

/// Requirement of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// An OpenStack without outages.
    Cloud,
    /// The same, for a scenario that tests on the fake cover as well. It runs unless `CCM_CHANGED_CLOUDS` says that the
    /// code for OpenStack did not change.
    CloudAfterChange,
    /// An OpenStack whose services can be stopped; nothing else runs meanwhile.
    Services,
    /// An OpenStack whose Neutron has trunks.
    Trunks,
}

/// Paths of the test bed, and locks.
pub(crate) struct Environment {
    out: Option<PathBuf>,
    services: Option<PathBuf>,
    binary: Option<PathBuf>,
    /// If set, the code for OpenStack changed, as far as is known.
    is_changed: bool,
    /// On which all scenarios run.
    pub(crate) runtime: Runtime,
    /// Projects of their own for the scenarios.
    pub(crate) pool: Pool,
    /// Lock that a scenario holds exclusively while it stops services.
    pub(crate) peace: RwLock<()>,
}

impl Environment {
    /// Reads the variables.
    ///
    /// # Errors
    /// There is a cloud, but no binary to test; or a variable names nothing.
    pub(crate) fn from_variables() -> Result<Self> {
        let out = real::path(OUT)?;
        let services = real::path(SERVICES)?;
        let binary = real::binary(out.is_some())?;
        ccm_tests::install_crypto();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let changed = std::env::var("CCM_CHANGED_CLOUDS").ok();
        let is_changed =
            changed.is_none_or(|names| names.split_whitespace().any(|name| name == "openstack"));
        Ok(Self {
            out,
            services,
            binary,
            is_changed,
            runtime,
            pool: Pool::default(),
            peace: RwLock::new(()),
        })
    }

    /// Returns the reason for which a scenario cannot run, if any.
    pub(crate) fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            _ if self.out.is_none() => Some("CCM_TEST_OPENSTACK is not set: there is no OpenStack"),
            Need::Services if self.services.is_none() => {
                Some("CCM_TEST_OPENSTACK_SERVICES is not set: nothing can stop the services")
            }
            Need::CloudAfterChange if !self.is_changed => Some(
                "CCM_CHANGED_CLOUDS does not name openstack: its code did not change, and tests on the fake cover it",
            ),
            Need::Trunks if !self.has_trunks() => Some("Neutron has no trunks"),
            Need::Cloud | Need::CloudAfterChange | Need::Services | Need::Trunks => None,
        }
    }

    /// Returns `true` if Neutron has trunks; if Neutron does not respond, the scenario reports the details.
    fn has_trunks(&self) -> bool {
        let asked = self.runtime.block_on(async {
            let extensions = self
                .admin()
                .await?
                .list(Api::Network, "/extensions")
                .await?;
            anyhow::Ok(
                extensions
                    .iter()
                    .any(|extension| extension["alias"] == "trunk"),
            )
        });
        asked.unwrap_or(true)
    }

    fn out(&self) -> Result<&Path> {
        self.out.as_deref().context(OUT)
    }

    pub(crate) fn binary(&self) -> Result<&PathBuf> {
        self.binary.as_ref().context("no binary")
    }

    /// Returns the IDs of the seeded objects.
    pub(crate) fn ids(&self) -> Result<Value> {
        let path = self.out()?.join("ids.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
    }

    /// Returns the administrator's name and password, from the file of the command line client.
    fn admin_login(&self) -> Result<Login> {
        let path = self.out()?.join("openrc");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let value = |name: &str| {
            let mut lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("export ")?.split_once('='));
            let found = lines
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim_matches(['"', '\'']).to_owned());
            found.with_context(|| format!("{} has no {name}", path.display()))
        };
        Ok(Login {
            address: value("OS_AUTH_URL")?.trim_end_matches("/v3").to_owned(),
            user: value("OS_USERNAME")?,
            password: value("OS_PASSWORD")?,
            project: value("OS_PROJECT_NAME")?,
        })
    }

    /// Logs in as the administrator.
    pub(crate) async fn admin(&self) -> Result<Cloud> {
        Cloud::login(self.admin_login()?).await
    }

    /// Returns Keystone's address without its version.
    pub(crate) fn keystone(&self) -> Result<String> {
        Ok(self.admin_login()?.address)
    }

    /// Stops, freezes or thaws a service: runs the test bed's script with these arguments to its end.
    pub(crate) async fn service(&self, words: &[&str]) -> Result<()> {
        real::run(self.services.as_ref().context(SERVICES)?, words, &[]).await
    }

    /// Starts what is stopped, with these settings.
    pub(crate) async fn start_services(&self, settings: &[(&str, &str)]) -> Result<()> {
        let script = self
            .services
            .as_ref()
            .context(SERVICES)?
            .with_file_name("up.sh");
        real::run(&script, &[], settings).await
    }
}
