//! Errors of reading the ConfigMap with the CAs of callers (P-37, D-15, APP-122).

use super::cause::{Cause, words};
use super::{Situation, explain};

/// Returns the reason why `kube-system/extension-apiserver-authentication` cannot be read, with the remedy, as one
/// paragraph without a full stop at the end. `situation` is that of `--authentication-kubeconfig`.
#[must_use]
pub fn explain_authentication_lookup(error: &kube::Error, situation: &Situation) -> String {
    let avoid = "--authentication-tolerate-lookup-failure goes on without it, --authentication-skip-lookup does not read it; \
                 callers of the secure port can then identify themselves by token only";
    if Cause::of(error) == Cause::Forbidden {
        return format!(
            "ConfigMap kube-system/extension-apiserver-authentication, with the CAs of callers' certificates, may not be \
             read: {}. Bind the Role that every cluster has for it: kubectl create rolebinding -n kube-system \
             cloud-controller-manager-authentication-reader --role=extension-apiserver-authentication-reader \
             --serviceaccount=kube-system:cloud-controller-manager (or --user=NAME). Or: {avoid}",
            words(error)
        );
    }
    format!(
        "ConfigMap kube-system/extension-apiserver-authentication, with the CAs of callers' certificates, cannot be read: \
         {}. Or: {avoid}",
        explain(error, situation)
    )
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn forbidden_names_the_role_to_bind_and_anything_else_says_why() {
        let forbidden = kube::Error::Api(
            Status::failure("configmaps is forbidden", "Forbidden")
                .with_code(403)
                .boxed(),
        );
        let text = explain_authentication_lookup(&forbidden, &Situation::default());
        for part in [
            "configmaps is forbidden",
            "kubectl create rolebinding -n kube-system",
            "--authentication-skip-lookup",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let text = explain_authentication_lookup(
            &kube::Error::Service(refused.into()),
            &Situation::default(),
        );
        assert!(
            text.contains("nothing listens at") && text.contains("--authentication-tolerate"),
            "{text}"
        );
    }
}
