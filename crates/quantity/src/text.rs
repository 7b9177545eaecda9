//! Serde for any type by the text of its `Display` and `FromStr`: `#[serde(with = "text")]`.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::{fmt::Display, str::FromStr};

/// Writes a value as the text that its `Display` prints.
///
/// # Errors
/// Returns the serializer's error if it does not take text.
pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads a value from the text that its `FromStr` parses.
///
/// # Errors
/// Returns an error if the value is not text, or `FromStr` refuses the text.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
