//! The health of the targets of network load balancers. AWS shows that of classic ones only with a further permission.

use std::collections::BTreeMap;

use aws_protocol::Query;
use cloud_provider::{Result, TargetHealth};
use futures::future::try_join_all;
use provider_kit::load_balancers::{ObservedLoadBalancer, ResourceKey};

use super::ElasticLoadBalancers;
use super::model::{Answer, ID};

impl ElasticLoadBalancers {
    /// Reads the health of a load balancer's targets: of a target in several groups, the worst state. A target whose
    /// deregistration has begun counts no more.
    ///
    /// # Errors
    /// The answer of AWS.
    pub(super) async fn health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<BTreeMap<String, TargetHealth>> {
        let resources = observed.graph.iter().flat_map(|graph| &graph.resources);
        let pools = resources.filter(|(resource, _)| matches!(resource, ResourceKey::Pool(_)));
        let read = pools
            .filter_map(|(_, settings)| settings.text(ID))
            .map(async |group| {
                let query = Query::new("DescribeTargetHealth").set("TargetGroupArn", group);
                self.api.aws.elbv2.find::<Answer>(query).await
            });
        let mut health: BTreeMap<String, TargetHealth> = BTreeMap::new();
        let answers = try_join_all(read).await?;
        for target in answers
            .into_iter()
            .flatten()
            .flat_map(|answer| answer.target_health_descriptions)
        {
            let is_healthy = target.target_health.state == "healthy";
            let is_first = !health.contains_key(&target.target.id);
            if target.target_health.state != "draining" && (is_first || !is_healthy) {
                let detail = format!(
                    "{} {}",
                    target.target_health.state, target.target_health.reason
                )
                .trim_end()
                .to_owned();
                health.insert(target.target.id, TargetHealth { is_healthy, detail });
            }
        }
        Ok(health)
    }
}
