//! The process as a whole, in this process and under virtual time: the order of its start, what it serves and when, how it
//! stops (APP-4, APP-60, APP-75, APP-95, APP-162).

mod accounts;
mod configuration;
mod defects;
mod serving;
mod starting;
mod stopping;
mod world;
