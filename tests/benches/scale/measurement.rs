//! Measurement of a phase.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use ccm_tests::controller::Controller;
use ccm_tests::served_profile::ServedProfile;
use ccm_tests::usage::{self, Usage};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::counters::Counters;

/// The figures of a phase, a line of output.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Phase {
    pub(crate) phase: &'static str,
    /// API server: `embedded` or `kube-apiserver`.
    pub(crate) api: &'static str,
    /// Nodes in the cluster at the start.
    pub(crate) nodes: usize,
    /// Nodes that the phase is about.
    pub(crate) concerned: usize,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    /// Resident memory at the end, and at its peak in this phase.
    pub(crate) rss_mib: f64,
    pub(crate) rss_peak_mib: f64,
    pub(crate) threads: u64,
    pub(crate) cloud_requests: u64,
    pub(crate) cloud: BTreeMap<String, u64>,
    pub(crate) kubernetes: BTreeMap<String, u64>,
    /// Writes to Nodes, divided by the Nodes that the phase is about.
    pub(crate) writes_per_node: f64,
    pub(crate) events: u64,
    /// Writes to the cloud and to Kubernetes, Events apart.
    pub(crate) mutations: u64,
    /// Figures of Services, in a phase that is about them.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) services: Option<OfServices>,
}

/// Figures of Services in a phase that is about them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OfServices {
    /// Services in the cluster.
    pub(crate) services: usize,
    /// Requests about load balancers that only read.
    pub(crate) load_balancer_reads: u64,
    /// Requests that change load balancers.
    pub(crate) load_balancer_writes: u64,
    /// Writes to Services, divided by their number.
    pub(crate) writes_per_service: f64,
    /// Events, divided by the Services.
    pub(crate) events_per_service: f64,
}

impl OfServices {
    fn new(
        services: usize,
        balancers: impl Fn(&str) -> bool + Copy,
        cloud: &Counters,
        kubernetes: &Counters,
    ) -> Self {
        let each = |count: u64| count as f64 / services as f64;
        Self {
            services,
            load_balancer_reads: cloud.reads(balancers),
            load_balancer_writes: cloud.writes(balancers),
            writes_per_service: each(
                kubernetes.writes(|resource| resource.starts_with("services")),
            ),
            events_per_service: each(kubernetes.writes(|resource| resource == "events")),
        }
    }
}

/// The state of all counters at the start of a phase.
pub(crate) struct Measurement {
    phase: &'static str,
    nodes: usize,
    concerned: usize,
    /// 0: the phase is not about them.
    services: usize,
    start: Instant,
    usage: Usage,
    cloud: Counters,
    kubernetes: Counters,
}

impl Measurement {
    /// Starts before there is a controller.
    pub(crate) async fn begin_with_the_process(
        phase: &'static str,
        nodes: usize,
        cluster: &Cluster,
        cloud: &ServedProfile,
    ) -> Result<Self> {
        let cloud = cloud.requests().into_iter().collect();
        let kubernetes = cluster.requests().await?;
        let usage = Usage::default();
        Ok(Self {
            phase,
            nodes,
            concerned: nodes,
            services: 0,
            start: Instant::now(),
            usage,
            cloud,
            kubernetes,
        })
    }

    /// Sets the number of Services that the phase is about.
    pub(crate) fn of_services(self, services: usize) -> Self {
        Self { services, ..self }
    }

    pub(crate) async fn begin(
        phase: &'static str,
        (nodes, concerned): (usize, usize),
        controller: &Controller,
        cluster: &Cluster,
        cloud: &ServedProfile,
    ) -> Result<Self> {
        // Without the permission, the peak is that of the whole run.
        _ = usage::forget_peak(controller.pid());
        let this = Self::begin_with_the_process(phase, nodes, cluster, cloud).await?;
        Ok(Self {
            concerned,
            usage: controller.usage()?,
            ..this
        })
    }

    /// Ends and prints the phase; it ended at `end`.
    pub(crate) async fn end(
        self,
        end: Instant,
        controller: &Controller,
        cluster: &Cluster,
        cloud: &ServedProfile,
    ) -> Result<Phase> {
        let usage = controller.usage()?;
        let balancers = |route: &str| cloud.is_of_load_balancers(route);
        let counted = cloud
            .requests()
            .into_iter()
            .collect::<Counters>()
            .since(&self.cloud);
        let kubernetes = cluster.requests().await?.since(&self.kubernetes);
        let writes_to_nodes = kubernetes.writes(|resource| resource.starts_with("nodes"));
        let phase = Phase {
            phase: self.phase,
            api: cluster.name(),
            nodes: self.nodes,
            concerned: self.concerned,
            seconds: rounded((end - self.start).as_secs_f64()),
            cpu_seconds: rounded((usage.cpu - self.usage.cpu).as_secs_f64()),
            rss_mib: mib(usage.resident_kib),
            rss_peak_mib: mib(usage.peak_kib),
            threads: usage.threads,
            cloud_requests: counted.total(),
            // Not rounded to two digits: one write too many must show.
            writes_per_node: writes_to_nodes as f64 / self.concerned.max(1) as f64,
            events: kubernetes.writes(|resource| resource == "events"),
            services: (self.services > 0)
                .then(|| OfServices::new(self.services, balancers, &counted, &kubernetes)),
            mutations: kubernetes.writes(|resource| resource != "events")
                + counted.writes(|_| true),
            cloud: counted.into_inner(),
            kubernetes: kubernetes.into_inner(),
        };
        println!("{}", serde_json::to_string(&phase)?);
        Ok(phase)
    }
}

fn mib(kib: u64) -> f64 {
    rounded(kib as f64 / 1024.0)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
