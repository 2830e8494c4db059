//! Series about health checks (MET-30).

use serving::health::Health;

use crate::samples::Samples;
use crate::series::{HEALTH_CHECK, HEALTH_CHECKS};

#[allow(
    clippy::cast_precision_loss,
    reason = "all numbers of the format are of this type"
)]
pub(crate) fn samples(health: &Health, out: &mut Samples) {
    for sli in health.slis() {
        let name = &*sli.name;
        let probe = sli.probe.as_str();
        out.put_by(
            HEALTH_CHECK,
            &[name, probe],
            f64::from(u8::from(sli.is_healthy)),
        );
        for (status, count) in [("success", sli.successes), ("error", sli.errors)] {
            out.put_by(HEALTH_CHECKS, &[name, probe, status], count as f64);
        }
    }
}
