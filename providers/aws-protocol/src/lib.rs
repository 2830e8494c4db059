//! Credentials, endpoints and the query protocol of AWS.
