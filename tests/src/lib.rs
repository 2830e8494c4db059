//! Whole-program tests of ccm-rs.
