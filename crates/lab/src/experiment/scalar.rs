//! Values in the files: a text or a whole number.

use serde::{Deserialize, Deserializer, Serialize, de};
use std::{collections::BTreeMap, fmt};

/// A text, or a whole number as text. A text that begins with `$` names an axis of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Scalar(String);

impl Scalar {
    /// Returns the axis that this value names.
    pub fn axis(&self) -> Option<&str> {
        self.0.strip_prefix('$')
    }

    /// Returns the text, or the value of the axis that it names.
    pub fn resolve<'a>(&'a self, point: &BTreeMap<&str, &'a Self>) -> &'a str {
        let value = self.axis().and_then(|axis| point.get(axis));
        value.map_or(&self.0, |value| &value.0)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a whole number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
