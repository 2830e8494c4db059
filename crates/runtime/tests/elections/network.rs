//! The simulated network: decides whether and when a message arrives.

use super::plan::Plan;

pub(crate) struct Network {
    rng: fastrand::Rng,
    loss: f64,
    slowness: f64,
    /// Time until which the server cannot be reached by any elector, or by this one, in seconds.
    outage: f64,
    partitions: [f64; 3],
}

impl Network {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rng = fastrand::Rng::with_seed(plan.seed);
        Self {
            rng,
            loss: plan.loss,
            slowness: plan.slowness,
            outage: 0.0,
            partitions: [0.0; 3],
        }
    }

    /// Returns the delay of a message sent now between an elector and the server; `None` if it is lost.
    pub(crate) fn delay(&mut self, elector: usize, now: f64) -> Option<f64> {
        let rng = &mut self.rng;
        let is_down = now < self.outage || now < self.partitions[elector];
        if is_down || rng.f64() < self.loss {
            return None;
        }
        Some(if rng.f64() < self.slowness {
            rng.f64() * 20.0
        } else {
            0.001 + rng.f64() * 0.02
        })
    }

    pub(crate) fn roll(&mut self) -> f64 {
        self.rng.f64()
    }

    pub(crate) fn begin_outage(&mut self, until: f64) {
        self.outage = self.outage.max(until);
    }

    pub(crate) fn begin_partition(&mut self, elector: usize, until: f64) {
        self.partitions[elector] = self.partitions[elector].max(until);
    }

    pub(crate) fn calm_down(&mut self) {
        (self.loss, self.slowness, self.outage, self.partitions) = (0.0, 0.0, 0.0, [0.0; 3]);
    }
}
