//! What a user asks for in a Service's annotations.

use cloud_provider::{Error, Result, Service};

/// The value of an annotation that must be one of `accepted`; the first of them if it is not set.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::annotations::one_of;
///
/// let mut service = Service::default();
/// assert_eq!(one_of(&service, "acme/tier", &["basic", "premium"])?, "basic");
/// service.metadata.annotations = Some([("acme/tier".to_owned(), "gold".to_owned())].into());
/// let err = one_of(&service, "acme/tier", &["basic", "premium"]).unwrap_err();
/// assert_eq!(err.to_string(), "annotation acme/tier: \"gold\" is not one of basic, premium");
/// # Ok::<(), cloud_provider::Error>(())
/// ```
///
/// # Errors
/// *Invalid*, naming key, value and what is accepted.
pub fn one_of(service: &Service, key: &str, accepted: &[&'static str]) -> Result<&'static str> {
    let value = service.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let found = value.map_or(accepted.first(), |value| accepted.iter().find(|it| **it == value.as_str()));
    found.copied().ok_or_else(|| {
        let value = value.map_or("", String::as_str);
        Error::invalid(format!("annotation {key}: {value:?} is not one of {}", accepted.join(", ")))
    })
}
