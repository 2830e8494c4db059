//! Tokens, the catalogue, lists, refusals: what is between the provider and the services.

mod access;
mod cloud;
mod diagnosis;
mod reading;
mod tokens;
