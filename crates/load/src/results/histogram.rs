//! Histograms of three significant digits. Writing, reading and merging them loses nothing.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Deserializer as Reader, Serializer as _, V2Serializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use std::fmt;

/// The significant digits of values.
const DIGITS: u8 = 3;

/// The maximum value: an hour in microseconds, or 3.6 Gbit/s. Larger values count as this one.
const MAX: u64 = 3_600_000_000;

/// A histogram. It is serialised in the V2 format of HdrHistogram, in base 64.
#[derive(Clone)]
pub struct Histogram(Option<Box<hdrhistogram::Histogram<u64>>>);

/// Histograms are equal if they counted the same values.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.recorded().eq(other.recorded())
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.recorded()).finish()
    }
}

impl Default for Histogram {
    /// Makes an empty histogram, which allocates nothing.
    fn default() -> Self {
        Self(None)
    }
}

impl Histogram {
    fn allocated(&mut self) -> Option<&mut hdrhistogram::Histogram<u64>> {
        if self.0.is_none() {
            let mut made = hdrhistogram::Histogram::new(DIGITS).ok()?;
            made.auto(true);
            self.0 = Some(Box::new(made));
        }
        self.0.as_deref_mut()
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        if let Some(histogram) = self.allocated() {
            // The histogram resizes itself up to the maximum, so that recording cannot fail.
            let _ = histogram.record(value.min(MAX));
        }
    }

    /// Adds another histogram exactly, since both have the same buckets. Counts saturate.
    pub fn merge(&mut self, other: &Self) {
        let Some(other) = other.0.as_deref() else { return };
        if let Some(histogram) = self.allocated() {
            // The histogram resizes itself, and both have the same digits, so that adding cannot
            // fail.
            let _ = histogram.add(other);
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.len())
    }

    /// Returns the value that a share of all values, from 0 to 1, does not exceed; 0 if it is
    /// empty.
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.value_at_quantile(share))
    }

    /// Returns the maximum; 0 if it is empty.
    pub fn max(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.max())
    }

    /// Returns the mean; 0 if it is empty.
    pub fn mean(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.mean())
    }

    /// Returns the values in rising order, each with its count.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.0.iter().flat_map(|histogram| histogram.iter_recorded());
        recorded.map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        if let Some(histogram) = &self.0 {
            // The text must not depend on the current number of buckets.
            let mut fixed = hdrhistogram::Histogram::<u64>::new_with_bounds(1, MAX, DIGITS)
                .map_err(ser::Error::custom)?;
            fixed.add(histogram.as_ref()).map_err(ser::Error::custom)?;
            let histogram = &fixed;
            V2Serializer::new().serialize(histogram, &mut bytes).map_err(ser::Error::custom)?;
        }
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        let bytes = STANDARD.decode(text).map_err(de::Error::custom)?;
        let mut read: hdrhistogram::Histogram<u64> = Reader::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| de::Error::custom(format!("{error:?}")))?;
        if read.sigfig() != DIGITS {
            return Err(de::Error::custom(format!("a histogram of {} digits", read.sigfig())));
        }
        read.auto(true);
        Ok(Self(Some(Box::new(read))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Each case writes and reads a dozen histograms.
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn parts_add_up_to_the_whole_in_any_order(values in proptest::collection::vec((0..u64::MAX >> 20, 0..3_usize), 0..200)) {
            let mut whole = Histogram::default();
            let mut parts = [(); 3].map(|()| Histogram::default());
            for &(value, part) in &values {
                whole.record(value);
                parts[part].record(value);
            }
            let text = |histogram: &Histogram| serde_json::to_string(histogram).unwrap();
            for order in [[0, 1, 2], [2, 0, 1]] {
                let mut merged = Histogram::default();
                for part in order {
                    let read: Histogram = serde_json::from_str(&text(&parts[part])).unwrap();
                    prop_assert_eq!(&read, &parts[part]);
                    merged.merge(&read);
                }
                prop_assert_eq!(&merged, &whole);
                prop_assert_eq!(text(&merged), text(&whole));
            }
            prop_assert_eq!(whole.count(), u64::try_from(values.len()).unwrap());
        }
    }

    #[test]
    fn quantiles_have_three_significant_digits() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.record(n * 1000));
        assert!((499_000..=501_000).contains(&histogram.quantile(0.5)));
        assert!((989_000..=991_000).contains(&histogram.quantile(0.99)));
        assert_eq!(Histogram::default().quantile(0.99), 0);
    }

    #[test]
    fn texts_that_are_not_such_histograms_are_refused() {
        for wrong in ["\"!\"", "\"AAAA\"", "3"] {
            assert!(serde_json::from_str::<Histogram>(wrong).is_err(), "{wrong}");
        }
        // A histogram of other buckets could not be added exactly.
        let coarse = hdrhistogram::Histogram::<u64>::new(2).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&coarse, &mut bytes).unwrap();
        let text = format!("\"{}\"", STANDARD.encode(bytes));
        let error = serde_json::from_str::<Histogram>(&text).unwrap_err();
        assert!(error.to_string().contains("2 digits"), "{error}");
    }
}
