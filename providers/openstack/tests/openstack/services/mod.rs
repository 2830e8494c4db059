//! Tokens, the catalogue, lists, refusals: what is between the provider and the services.

mod cloud;
mod reading;
mod tokens;
