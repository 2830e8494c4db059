//! Review of a Service without calling the cloud, for the admission webhook and for `check`.

use cloud_provider::{CloudProvider, Service, ServiceReview};
use controllers::options::ServiceOptions;
use controllers::service::wants::wants_load_balancer;

/// Reviews a Service as the API server stores it, with its node ports; returns `None` if the provider does not handle
/// the Service.
pub(crate) fn review_service(
    provider: &dyn CloudProvider,
    service: &Service,
    options: &ServiceOptions,
) -> Option<ServiceReview> {
    let balancers = provider.load_balancers()?;
    let is_concerned =
        service.metadata.deletion_timestamp.is_none() && wants_load_balancer(service, options);
    is_concerned.then(|| {
        let ServiceReview { errors, warnings } = balancers.review(service);
        ServiceReview {
            errors: without_duplicates(errors),
            warnings: without_duplicates(warnings),
        }
    })
}

fn without_duplicates(texts: Vec<String>) -> Vec<String> {
    texts.into_iter().fold(Vec::new(), |mut kept, text| {
        if !kept.contains(&text) {
            kept.push(text);
        }
        kept
    })
}
