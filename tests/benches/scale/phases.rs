//! The phases, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ccm_conformance::CloudProfile;
use ccm_tests::controller::Controller;
use ccm_tests::served_profile::ServedProfile;
use ccm_tests::wait::until;
use cloud_provider::AddressType;
use cloud_provider::names::TAINT_SHUTDOWN;

use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::measurement::{Measurement, Phase};

/// Machines that are off in the steady state.
const OFF: usize = 5;
/// From a Node's first write to its second one, and more.
const MOMENT: Duration = Duration::from_millis(50);

/// Context of the phases: arguments, cluster and cloud.
pub(crate) struct Run<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) cluster: &'a Cluster,
    pub(crate) cloud: &'a ServedProfile,
    pub(crate) names: &'a [String],
}

/// Creates a machine for each Node.
pub(crate) fn create_machines(cloud: &dyn CloudProfile, names: &[String]) {
    names.iter().for_each(|name| _ = cloud.add_machine(name));
}

impl Run<'_> {
    pub(crate) async fn play(
        &self,
        start: impl FnOnce() -> Result<Controller>,
    ) -> Result<Vec<Phase>> {
        let tenth = self.arguments.tenth();
        let (burst, mut controller) = self.first(start).await?;
        let addresses = self
            .measure("addresses", tenth, &controller, async || {
                self.addresses().await
            })
            .await?;
        let off = tenth + OFF;
        let not_ready = self
            .measure("not ready", off, &controller, async || {
                self.not_ready(off).await
            })
            .await?;
        let gone = self
            .measure("gone", tenth, &controller, async || self.gone().await)
            .await?;
        self.quiet().await?;
        let steady = self.measure(
            "steady",
            self.names.len() - tenth,
            &controller,
            async || {
                tokio::time::sleep(Duration::from_secs(self.arguments.steady)).await;
                Ok(())
            },
        );
        let steady = steady.await?;
        let status = controller.stop(Duration::from_secs(10)).await?;
        ensure!(status.success(), "the controller ended with {status}");
        Ok(vec![burst, addresses, not_ready, gone, steady])
    }

    /// Starts the controller, and waits until it has initialised all Nodes.
    pub(crate) async fn first(
        &self,
        start: impl FnOnce() -> Result<Controller>,
    ) -> Result<(Phase, Controller)> {
        let begun = Measurement::begin_with_the_process(
            "burst",
            self.names.len(),
            self.cluster,
            self.cloud,
        )
        .await?;
        let mut controller = start()?;
        let end = self.burst().await?;
        controller.check()?;
        // Events may trail; they belong to the burst.
        self.quiet().await?;
        Ok((
            begun
                .end(end, &controller, self.cluster, self.cloud)
                .await?,
            controller,
        ))
    }

    async fn measure(
        &self,
        phase: &'static str,
        concerned: usize,
        controller: &Controller,
        body: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Phase> {
        let nodes = self.cluster.list().await?.len();
        let begun = Measurement::begin(
            phase,
            (nodes, concerned),
            controller,
            self.cluster,
            self.cloud,
        )
        .await?;
        body().await.with_context(|| format!("phase {phase:?}"))?;
        begun
            .end(Instant::now(), controller, self.cluster, self.cloud)
            .await
    }

    /// Returns when the last Node was complete, to a moment.
    async fn burst(&self) -> Result<Instant> {
        self.cluster
            .all_have_a_region(self.arguments.limit())
            .await?;
        tokio::time::sleep(MOMENT).await;
        until(
            "all Nodes are initialised",
            self.arguments.limit(),
            async || {
                let now = Instant::now();
                let nodes = self.cluster.list().await?;
                ensure!(
                    nodes.len() == self.names.len(),
                    "there are {} Nodes",
                    nodes.len()
                );
                let unfinished = nodes.iter().find(|node| {
                    let ips = node
                        .addresses
                        .iter()
                        .filter(|address| address.kind != AddressType::Hostname)
                        .count();
                    node.is_uninitialized() || node.provider_id().is_none() || ips == 0
                });
                ensure!(unfinished.is_none(), "not yet: {unfinished:?}");
                Ok(now)
            },
        )
        .await
    }

    /// Waits until a second goes by without a further write.
    pub(crate) async fn quiet(&self) -> Result<()> {
        let mut before = self.cluster.requests().await?.writes(|_| true);
        until("writes end", self.arguments.limit(), async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.cluster.requests().await?.writes(|_| true);
            let more = now - std::mem::replace(&mut before, now);
            ensure!(more == 0, "{more} in a second");
            Ok(())
        })
        .await
    }

    async fn addresses(&self) -> Result<()> {
        let changed = &self.names[..self.arguments.tenth()];
        for (number, name) in changed.iter().enumerate() {
            let internal = format!("10.99.{}.{}", number / 250, number % 250);
            let external = format!("198.19.{}.{}", number / 250, number % 250);
            if !self
                .cloud
                .cloud
                .change_addresses(name, &internal, &external)
            {
                // The fake cannot.
                return Ok(());
            }
        }
        self.each(changed, |node| {
            node.is_some_and(|node| {
                node.addresses
                    .iter()
                    .any(|address| address.address.starts_with("10.99."))
            })
        })
        .await
    }

    async fn not_ready(&self, count: usize) -> Result<()> {
        let off = &self.names[..count];
        off.iter().for_each(|name| self.cloud.cloud.stop(name));
        self.cluster.report(off, false).await?;
        self.each(off, |node| {
            node.is_some_and(|node| {
                node.taints
                    .iter()
                    .any(|taint| &*taint.key == TAINT_SHUTDOWN)
            })
        })
        .await
    }

    async fn gone(&self) -> Result<()> {
        let gone = &self.names[..self.arguments.tenth()];
        gone.iter()
            .for_each(|name| self.cloud.cloud.terminate(name));
        self.each(gone, |node| node.is_none()).await
    }

    /// Waits for one Node after the other: each is read about once.
    async fn each(
        &self,
        names: &[String],
        check: impl Fn(Option<&cloud_provider::Node>) -> bool,
    ) -> Result<()> {
        for name in names {
            self.cluster
                .becomes(name, self.arguments.limit(), &check)
                .await?;
        }
        Ok(())
    }
}
