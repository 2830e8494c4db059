//! A stateful fake of the APIs of AWS, for tests.
