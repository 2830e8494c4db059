//! The phases of Services, over a cluster whose Nodes are initialised.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ccm_tests::controller::Controller;
use ccm_tests::wait::until;

use crate::cluster::node_names;
use crate::counters::Counters;
use crate::measurement::{Measurement, Phase};
use crate::phases::{Run, create_machines};

/// Time for which a Node is not ready, and time to wait for the effects of its recovery: longer than a pass. A shorter
/// steady phase shortens it.
const FLAP: Duration = Duration::from_secs(8);
/// Time without requests to the cloud after which the controller counts as started.
const STARTED: Duration = Duration::from_secs(3);

impl Run<'_> {
    /// Runs the phases with Services.
    pub(crate) async fn play_services(
        &self,
        start: impl Fn() -> Result<Controller>,
        successor: impl Fn() -> Result<Controller>,
    ) -> Result<Vec<Phase>> {
        let (burst, mut controller) = self.first(&start).await?;
        let create = self
            .of_services("create", &controller, async || self.create().await)
            .await?;
        let quiet = self
            .of_services("quiet", &controller, async || {
                self.wait_for(self.steady()).await
            })
            .await?;
        let mut phases = vec![burst, create, quiet];
        if !self.arguments.same_nodes {
            phases.push(
                self.of_services("node joins", &controller, async || self.node_joins().await)
                    .await?,
            );
            phases.push(
                self.of_services("node flaps", &controller, async || self.node_flaps().await)
                    .await?,
            );
        }
        if self.arguments.settle > 0 {
            phases.push(
                self.of_services("settle", &controller, async || self.settle().await)
                    .await?,
            );
        }
        controller.check()?;
        end(&mut controller).await?;
        phases.push(self.restart(successor, &mut controller).await?);
        phases.push(
            self.of_services("delete", &controller, async || self.delete().await)
                .await?,
        );
        end(&mut controller).await?;
        Ok(phases)
    }

    /// Measures until `body` returns the end of the work, and counts later requests.
    async fn of_services(
        &self,
        phase: &'static str,
        controller: &Controller,
        body: impl AsyncFnOnce() -> Result<Instant>,
    ) -> Result<Phase> {
        eprintln!("scale: {phase}");
        let nodes = self.names.len();
        let services = self.arguments.services;
        let begun =
            Measurement::begin(phase, (nodes, nodes), controller, self.cluster, self.cloud).await?;
        let end = body().await.with_context(|| format!("phase {phase:?}"))?;
        self.quiet().await?;
        begun
            .of_services(services)
            .end(end, controller, self.cluster, self.cloud)
            .await
    }

    fn steady(&self) -> Duration {
        Duration::from_secs(self.arguments.steady)
    }

    /// Returns the cloud's requests so far.
    fn cloud_requests(&self) -> Counters {
        self.cloud.requests().into_iter().collect()
    }

    async fn wait_for(&self, time: Duration) -> Result<Instant> {
        tokio::time::sleep(time).await;
        Ok(Instant::now())
    }

    async fn create(&self) -> Result<Instant> {
        let services = self.arguments.services;
        let before = self.cloud.count_on(self.cloud.cloud.api().create);
        self.cluster.create_services(services).await?;
        until(
            "the load balancers are created",
            self.arguments.limit(),
            async || {
                let sent = self.cloud.count_on(self.cloud.cloud.api().create) - before;
                ensure!(sent >= services as u64, "{sent} requests were sent");
                Ok(())
            },
        )
        .await?;
        self.cluster
            .all_have_an_address(services, self.arguments.limit())
            .await?;
        let end = Instant::now();
        self.check_targets(self.names.len())?;
        Ok(end)
    }

    /// Checks that every load balancer has this number of targets.
    fn check_targets(&self, count: usize) -> Result<()> {
        let balancers = self.cloud.cloud.load_balancers();
        ensure!(
            balancers.len() == self.arguments.services,
            "there are {} load balancers",
            balancers.len()
        );
        for balancer in balancers {
            let targets = balancer.targets.len();
            ensure!(
                targets == count,
                "{:?} has {targets} targets instead of {count}",
                balancer.service_uid
            );
        }
        Ok(())
    }

    async fn node_joins(&self) -> Result<Instant> {
        let late = self.late_node();
        create_machines(&*self.cloud.cloud, &late);
        self.cluster.register(&late, self.arguments).await?;
        until(
            "all load balancers lead to it",
            self.arguments.limit(),
            async || self.check_targets(self.names.len() + 1),
        )
        .await?;
        Ok(Instant::now())
    }

    /// Returns the name of the Node that joins.
    fn late_node(&self) -> Vec<String> {
        node_names(self.names.len() + 1).split_off(self.names.len())
    }

    async fn node_flaps(&self) -> Result<Instant> {
        let flap = FLAP.min(self.steady());
        for is_ready in [false, true] {
            self.cluster.report(&self.late_node(), is_ready).await?;
            tokio::time::sleep(flap).await;
        }
        self.cluster.flip_exclusion(&self.late_node()[0]).await?;
        self.wait_for(flap).await
    }

    /// Measures a restart: the seconds from the start of the process until its last request to the cloud.
    async fn restart(
        &self,
        start: impl Fn() -> Result<Controller>,
        controller: &mut Controller,
    ) -> Result<Phase> {
        eprintln!("scale: restart");
        let begun = Measurement::begin_with_the_process(
            "restart",
            self.names.len(),
            self.cluster,
            self.cloud,
        )
        .await?;
        // A list, or one load balancer after the other.
        let reads = || {
            self.cloud_requests()
                .reads(|text| self.cloud.is_of_load_balancers(text))
        };
        let before = reads();
        *controller = start()?;
        until(
            "the load balancers are read",
            self.arguments.limit(),
            async || {
                ensure!(reads() > before, "they are not");
                Ok(())
            },
        )
        .await?;
        let end = self
            .no_more("the cloud is left alone", STARTED, async || {
                Ok(self.cloud_requests().total())
            })
            .await?;
        if self.arguments.settle > 0 {
            // A pass that comes later may write, too.
            self.settle().await?;
        }
        self.quiet().await?;
        controller.check()?;
        begun
            .of_services(self.arguments.services)
            .end(end, controller, self.cluster, self.cloud)
            .await
    }

    /// Waits until the controller has nothing left to write, and returns the time of its last write.
    async fn settle(&self) -> Result<Instant> {
        let time = Duration::from_secs(self.arguments.settle);
        let writes = async || {
            let kubernetes = self.cluster.requests().await?;
            Ok(self.cloud_requests().writes(|_| true) + kubernetes.writes(|_| true))
        };
        self.no_more("the controller writes no more", time, writes)
            .await
    }

    /// Waits until `count` has stayed the same for this time, and returns when it grew last.
    async fn no_more(
        &self,
        what: &str,
        time: Duration,
        count: impl AsyncFn() -> Result<u64>,
    ) -> Result<Instant> {
        let mut last = (count().await?, Instant::now());
        until(what, self.arguments.limit(), async || {
            let now = count().await?;
            if now != last.0 {
                last = (now, Instant::now());
            }
            ensure!(last.1.elapsed() >= time, "{now} requests so far");
            Ok(last.1)
        })
        .await
    }

    async fn delete(&self) -> Result<Instant> {
        self.cluster.ask_to_delete_services().await?;
        self.cluster
            .services_are_gone(self.arguments.limit())
            .await?;
        let end = Instant::now();
        let left = self.cloud.cloud.load_balancers().len();
        ensure!(
            left == 0,
            "the Services are gone, and {left} load balancers are left"
        );
        Ok(end)
    }
}

async fn end(controller: &mut Controller) -> Result<()> {
    let status = controller.stop(Duration::from_secs(10)).await?;
    // Go programs may let the signal end them.
    let is_ended_by_us =
        status.success() || status.signal() == Some(rustix::process::Signal::TERM.as_raw());
    ensure!(is_ended_by_us, "the controller ended with {status}");
    Ok(())
}
