//! The process as a whole, in this process and under virtual time: the order of its start, what it serves and when, how it
//! stops (APP §2, §7, §8, §10, §16).

mod accounts;
mod configuration;
mod defects;
mod serving;
mod starting;
mod stopping;
mod world;
