//! The provider of OpenStack, against services in this process.

mod services;
