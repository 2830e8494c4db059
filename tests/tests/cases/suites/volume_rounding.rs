//! Sizes of volumes in the units that a cloud sells.

use anyhow::{Result, bail};
use ccm_tests::volume_size::{Unit, round_up, round_up_32};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ErrorText, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    quantity: String,
    unit: String,
    bits: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    /// Expected size; null on error.
    #[serde(default)]
    value: Expected<Option<i64>>,
}

pub(super) fn run(given: &Value, expect: &Value) -> Result<Comparison> {
    let given: Given = read("given", given)?;
    let expect: Expect = read("expect", expect)?;
    let unit = match given.unit.as_str() {
        "GiB" => Unit::GiB,
        "MB" => Unit::MB,
        "MiB" => Unit::MiB,
        "KB" => Unit::KB,
        "KiB" => Unit::KiB,
        "B" => Unit::B,
        other => bail!("given.unit: unknown unit {other:?}; known are GiB, MB, MiB, KB, KiB, B"),
    };
    let rounded = match given.bits.unwrap_or(64) {
        64 => round_up(&given.quantity, unit),
        32 => round_up_32(&given.quantity, unit).map(i64::from),
        other => bail!("given.bits: {other} is neither 32 nor 64"),
    };

    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        rounded.as_ref().err().map(ToString::to_string).as_deref(),
    );
    comparison.key("value", &expect.value, &rounded.ok());
    Ok(comparison)
}
