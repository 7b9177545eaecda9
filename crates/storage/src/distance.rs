//! The distance of storage: the least time that an exchange with it took lately.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The least round trip at which storage counts as far.
const FAR: Duration = Duration::from_millis(10);
/// The numbers of connections and of responses whose least time counts.
const CONNECTIONS: usize = 4;
const RESPONSES: usize = 16;
/// The least number of both together from which a distance follows.
const LEAST_SAMPLES: usize = 3;

/// Measures the round trip to a back end. TCP takes one round trip to connect. A response takes
/// one at least, and more if the server is slow, so the least time of all is the closest.
#[derive(Debug, Default)]
pub(crate) struct Distance(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    /// Times that TCP took to connect, the oldest first.
    connections: VecDeque<Duration>,
    /// Times from requests to the heads of their responses, the oldest first.
    responses: VecDeque<Duration>,
}

impl Distance {
    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time that TCP took to connect.
    pub(crate) fn note_connection(&self, time: Duration) {
        push(&mut self.samples().connections, time, CONNECTIONS);
    }

    /// Notes the time from a request to the head of its response.
    pub(crate) fn note_response(&self, time: Duration) {
        push(&mut self.samples().responses, time, RESPONSES);
    }

    /// Returns the latest times that TCP took to connect.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> Vec<Duration> {
        self.samples().connections.iter().copied().collect()
    }

    /// Returns the round trip; `None` before enough samples.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let samples = self.samples();
        let all = samples.connections.iter().chain(&samples.responses);
        all.clone().nth(LEAST_SAMPLES - 1)?;
        all.min().copied()
    }

    /// Returns true if storage is known to be so far that several requests at once may help.
    pub(crate) fn is_far(&self) -> bool {
        self.round_trip().is_some_and(|round_trip| round_trip >= FAR)
    }
}

fn push(samples: &mut VecDeque<Duration>, time: Duration, most: usize) {
    if samples.len() >= most {
        samples.pop_front();
    }
    samples.push_back(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn the_distance_follows_from_three_samples_and_from_recent_ones() {
        let distance = Distance::default();
        distance.note_response(40 * MILLI);
        distance.note_response(40 * MILLI);
        assert_eq!((distance.round_trip(), distance.is_far()), (None, false));
        distance.note_connection(41 * MILLI);
        assert_eq!((distance.round_trip(), distance.is_far()), (Some(40 * MILLI), true));
        // One fast response shows that storage is near, until it is long ago.
        distance.note_response(9 * MILLI);
        assert!(!distance.is_far());
        (0..RESPONSES - 1).for_each(|_| distance.note_response(FAR));
        assert!(!distance.is_far());
        distance.note_response(FAR);
        assert_eq!((distance.round_trip(), distance.is_far()), (Some(FAR), true));
    }

    #[test]
    fn a_slow_server_was_taken_for_a_far_one() {
        let distance = Distance::default();
        (0..100).for_each(|_| distance.note_response(300 * MILLI));
        assert!(distance.is_far(), "nothing else is known");
        distance.note_connection(MILLI);
        assert_eq!((distance.round_trip(), distance.is_far()), (Some(MILLI), false));
        (0..100).for_each(|_| distance.note_response(300 * MILLI));
        assert!(!distance.is_far());
        // Its address now leads to a server far away.
        (0..CONNECTIONS).for_each(|_| distance.note_connection(50 * MILLI));
        assert_eq!(distance.round_trip(), Some(50 * MILLI));
    }
}
