//! Who calls, and what they may do (APP-106, APP-120 to APP-128).

mod metrics;

pub use metrics::{
    AccessMetrics, AuthenticationResult, AuthorizationResult, Fetch, NoAccessMetrics, TokenCache, compressed_username,
};
