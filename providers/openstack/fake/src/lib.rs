//! A stateful fake of OpenStack's APIs, for tests.
