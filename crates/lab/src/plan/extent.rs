//! The part of the published durations and cells that is measured.

use crate::{
    Error,
    experiment::{Repeats, Scalar, Title},
    function::Parameters,
};
use latemux_quantity::TimeSpan;
use std::{collections::BTreeMap, time::Duration};

/// The shortest duration to which a longer one is scaled.
const SHORTEST: Duration = Duration::from_secs(5);

/// The shortest step of a load to which a longer one is scaled.
const SHORTEST_STEP: Duration = Duration::from_secs(1);

/// The fewest requests to which a larger number is scaled.
const FEWEST: u64 = 50;

/// The fewest seconds to which a title is scaled, which is that of one encoding.
const SHORTEST_TITLE: u32 = 24;

/// The seconds of which a scaled title is a multiple.
const UNIT: u32 = 4;

/// The part of the published durations and cells that is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Extent {
    /// The factor of durations, ramps, numbers of requests and the length of titles, from 0 to 1.
    pub scale: f64,
    /// The values to which the user limits axes.
    pub only: BTreeMap<String, Vec<String>>,
}

impl Default for Extent {
    /// Returns the published extent.
    fn default() -> Self {
        Self { scale: 1.0, only: BTreeMap::new() }
    }
}

impl Extent {
    /// Returns true if a point is one of those that are measured. `scaled` holds the values to
    /// which the experiment limits axes if durations are scaled.
    pub(super) fn includes(
        &self,
        point: &BTreeMap<&str, &Scalar>,
        scaled: &BTreeMap<String, Vec<Scalar>>,
    ) -> bool {
        point.iter().all(|(axis, value)| match (self.only.get(*axis), scaled.get(*axis)) {
            (Some(chosen), _) => chosen.iter().any(|one| one == value.as_str()),
            (None, Some(values)) => self.scale >= 1.0 || values.contains(value),
            (None, None) => true,
        })
    }

    /// Returns the number of measurements. Only published durations are measured more often than
    /// the least number, because short ones would rarely reach the wanted interval.
    pub(super) fn repeats(&self, stated: Repeats) -> Repeats {
        if self.scale < 1.0 { Repeats { further: None, ..stated } } else { stated }
    }

    /// Returns a title of scaled length, which is not shorter than the experiment states.
    pub(super) fn title(&self, title: Title, shortest: Option<TimeSpan>) -> Title {
        let stated = shortest.map_or(0, |span| u32::try_from(span.0.as_secs()).unwrap_or(u32::MAX));
        let least = title.seconds.min(SHORTEST_TITLE.max(stated));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is at most the length"
        )]
        let scaled = (f64::from(title.seconds) * self.scale) as u32;
        let seconds = if self.scale < 1.0 { (scaled / UNIT * UNIT).max(least) } else { title.seconds };
        Title { seconds, ..title }
    }

    /// Scales the parameters of a load.
    ///
    /// # Errors
    /// If one of them is not what it must be.
    pub(super) fn load(&self, parameters: &mut Parameters) -> Result<(), Error> {
        if self.scale >= 1.0 {
            return Ok(());
        }
        let scaled = |name: &str, text: &str, shortest: Duration| {
            let whole = text.parse::<TimeSpan>().map_err(|why| Error::invalid(format!("{name}: {why}")))?.0;
            let scaled = Duration::from_secs(whole.mul_f64(self.scale).as_secs());
            Ok::<_, Error>(TimeSpan(scaled.max(whole.min(shortest))).to_string())
        };
        for name in ["duration", "ramp"] {
            let Some(text) = parameters.get_mut(name) else { continue };
            *text = scaled(name, text, SHORTEST)?;
        }
        if let Some(text) = parameters.get_mut("steps") {
            let steps = text.split_whitespace().map(|step| match step.split_once('/') {
                Some((count, duration)) => {
                    Ok(format!("{count}/{}", scaled("steps", duration, SHORTEST_STEP)?))
                }
                // The function refuses it.
                None => Ok(step.to_owned()),
            });
            *text = steps.collect::<Result<Vec<_>, Error>>()?.join(" ");
        }
        if let Some(text) = parameters.get_mut("requests")
            && let Ok(whole) = text.parse::<u64>()
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is at most the count"
            )]
            let scaled = (whole as f64 * self.scale) as u64;
            *text = scaled.max(whole.min(FEWEST)).to_string();
        }
        Ok(())
    }
}
