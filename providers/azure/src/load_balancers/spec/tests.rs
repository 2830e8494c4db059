use cloud_provider::{ConfigFile, Environment, Setup};

use super::*;

#[test]
fn load_balancer_mode_has_no_effect_with_the_standard_sku_and_is_refused_with_basic() {
    let mode = "service.beta.kubernetes.io/azure-load-balancer-mode";
    let mut service = Service::default();
    service.metadata.annotations = Some([(mode.to_owned(), "second".to_owned())].into());
    let review = |text: &str| {
        let file = ConfigFile {
            path: "azure.json".to_owned(),
            text: text.to_owned(),
        };
        let setup = Setup {
            environment: Environment::default().offline(),
            ..Setup::of(file)
        };
        Spec::of(&service, &Config::read(&setup).unwrap()).review()
    };
    let standard = review("loadBalancerSku: standard");
    assert!(
        standard
            .warnings
            .iter()
            .any(|text| text.contains(mode) && text.contains("has no effect"))
    );
    assert!(
        !standard.errors.iter().any(|text| text.contains(mode)),
        "{:?}",
        standard.errors
    );
    assert!(
        review("loadBalancerSku: basic")
            .errors
            .iter()
            .any(|text| text.contains(mode))
    );
}
