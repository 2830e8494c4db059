//! Flags of authentication of callers.

use clap::{ArgAction, Args};
use runtime::go_duration::GoDuration;
use serving::options::{AuthenticationOptions, RequestHeaderOptions};

use super::values::{List, PathFlag, duration, go_bool, list, path};

/// Header with the UID that API aggregation always sends.
const STANDARD_UID: &str = "X-Remote-Uid";

/// Flags of authentication of callers.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Authentication")]
pub struct AuthenticationFlags {
    /// Kubeconfig for authenticating bearer tokens and reading the front proxy's settings; the Pod's service account if
    /// empty. --kubeconfig is not used for this.
    #[arg(long, default_value = "", value_parser = path())]
    pub authentication_kubeconfig: PathFlag,
    /// Do not read ConfigMap kube-system/extension-apiserver-authentication; client certificates and the front proxy
    /// are then authenticated with the files below only.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub authentication_skip_lookup: bool,
    /// Start even if ConfigMap kube-system/extension-apiserver-authentication cannot be read.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub authentication_tolerate_lookup_failure: bool,
    /// Time for which the result of a bearer token's authentication is cached; 0 or negative to disable the cache.
    #[arg(long, default_value_t = AuthenticationOptions::default().token_cache_ttl.into(), value_parser = duration)]
    pub authentication_token_webhook_cache_ttl: GoDuration,
    /// CA bundle for client certificates, instead of the ConfigMap's.
    #[arg(long, default_value = "", value_parser = path())]
    pub client_ca_file: PathFlag,
    /// CA bundle of the front proxy; the --requestheader flags take effect only with it.
    #[arg(long, default_value = "", value_parser = path())]
    pub requestheader_client_ca_file: PathFlag,
    /// Common names of client certificates that the front proxy may present; any if empty.
    #[arg(long, default_value = "", value_parser = list)]
    pub requestheader_allowed_names: Vec<List>,
    /// Headers with the user's name; the first header present is used.
    #[arg(long, default_values_t = [List(RequestHeaderOptions::default().username_headers)], value_parser = list)]
    pub requestheader_username_headers: Vec<List>,
    /// Headers with the user's UID; must include X-Remote-Uid.
    #[arg(long, default_value = "", value_parser = list)]
    pub requestheader_uid_headers: Vec<List>,
    /// Headers with the user's groups.
    #[arg(long, default_values_t = [List(RequestHeaderOptions::default().group_headers)], value_parser = list)]
    pub requestheader_group_headers: Vec<List>,
    /// Prefixes of headers with extra attributes of the user.
    #[arg(long, default_values_t = [List(RequestHeaderOptions::default().extra_prefixes)], value_parser = list)]
    pub requestheader_extra_headers_prefix: Vec<List>,
}

impl AuthenticationFlags {
    pub(super) fn options(&self) -> AuthenticationOptions {
        let AuthenticationFlags {
            authentication_kubeconfig,
            authentication_skip_lookup,
            authentication_tolerate_lookup_failure,
            authentication_token_webhook_cache_ttl,
            client_ca_file,
            requestheader_client_ca_file,
            requestheader_allowed_names,
            requestheader_username_headers,
            requestheader_uid_headers,
            requestheader_group_headers,
            requestheader_extra_headers_prefix,
        } = self;
        AuthenticationOptions {
            kubeconfig: authentication_kubeconfig.to_path_buf(),
            skip_lookup: *authentication_skip_lookup,
            tolerate_lookup_failure: *authentication_tolerate_lookup_failure,
            token_cache_ttl: authentication_token_webhook_cache_ttl.to_std_or_zero(),
            client_ca_file: client_ca_file.to_path_buf(),
            request_header: RequestHeaderOptions {
                client_ca_file: requestheader_client_ca_file.to_path_buf(),
                allowed_names: List::owned(requestheader_allowed_names),
                username_headers: List::owned(requestheader_username_headers),
                uid_headers: List::owned(requestheader_uid_headers),
                group_headers: List::owned(requestheader_group_headers),
                extra_prefixes: List::owned(requestheader_extra_headers_prefix),
            },
        }
    }

    /// Validates the flags. `uid_gate` is the feature gate `RemoteRequestHeaderUID`.
    pub(super) fn validate(&self, uid_gate: bool) -> Vec<String> {
        let lists = [
            (
                "requestheader-allowed-names",
                &self.requestheader_allowed_names,
            ),
            (
                "requestheader-username-headers",
                &self.requestheader_username_headers,
            ),
            ("requestheader-uid-headers", &self.requestheader_uid_headers),
            (
                "requestheader-group-headers",
                &self.requestheader_group_headers,
            ),
            (
                "requestheader-extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
            ),
        ];
        let blank = lists
            .into_iter()
            .filter(|(_, list)| List::all(list).any(|item| item.trim().is_empty()));
        let mut errors: Vec<_> = blank
            .map(|(name, _)| format!("empty value in {name:?}"))
            .collect();
        let uid = List::owned(&self.requestheader_uid_headers);
        if !uid.is_empty() && !uid_gate {
            errors.push(
                "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled".to_owned(),
            );
        } else if !uid.is_empty()
            && !uid
                .iter()
                .any(|name| name.eq_ignore_ascii_case(STANDARD_UID))
        {
            errors.push(format!(
                "--requestheader-uid-headers is set without specifying the standard {STANDARD_UID} header - API \
                 aggregation will not work"
            ));
        }
        errors
    }

    /// Returns warnings about lists that lack the header that API aggregation sends (FLAG-40).
    pub(super) fn warnings(&self) -> Vec<String> {
        let lists = [
            (
                "--requestheader-username-headers",
                &self.requestheader_username_headers,
                "x-remote-user",
            ),
            (
                "--requestheader-group-headers",
                &self.requestheader_group_headers,
                "x-remote-group",
            ),
            (
                "--requestheader-extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
                "x-remote-extra-",
            ),
        ];
        let lacks = lists.into_iter().filter(|(_, list, standard)| {
            let mut items = List::all(list).peekable();
            items.peek().is_some() && !items.any(|item| item.eq_ignore_ascii_case(standard))
        });
        lacks
            .map(|(flag, _, standard)| {
                format!(
                    "{flag} is set without the standard {standard}: API aggregation will not work"
                )
            })
            .collect()
    }
}
