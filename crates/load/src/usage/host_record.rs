//! The usage of a machine in each second of a run.

use super::{Host, host::Traffic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum number of samples: a day of seconds.
const MAX_SAMPLES: usize = 86_400;

/// The usage of a machine during a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRecord {
    /// The number of cores.
    pub cores: u64,
    /// The memory in bytes.
    pub memory: u64,
    /// The usage, sampled about once a second.
    pub samples: Vec<HostSample>,
}

/// The usage of a machine between two readings of its counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSample {
    /// The time from the start of the run to the end of the sample, in milliseconds.
    pub at: u64,
    /// The time between the readings, in milliseconds.
    pub took: u64,
    /// The time of all cores together, in ticks.
    pub ticks: u64,
    /// The ticks in which the cores were neither idle nor waiting for a disk.
    pub busy: u64,
    /// Bytes of memory in use at the end.
    pub memory: u64,
    /// Open TCP sockets at the end.
    pub sockets: u64,
    /// TCP connections that were opened, by the machine or by its peers.
    pub opened: u64,
    /// TCP segments that were sent again.
    pub retransmits: u64,
    /// Bytes over each interface that was used.
    pub interfaces: BTreeMap<String, Traffic>,
}

/// Keeps the usage of a machine.
#[derive(Debug, Default)]
pub struct HostRecorder {
    before: Option<Host>,
    record: HostRecord,
}

impl HostRecorder {
    /// Adds a reading that was made `at` milliseconds after the start of the run. The first one is
    /// the beginning of the first sample. A reading that is not newer than the last one is ignored.
    pub fn add(&mut self, at: u64, now: &Host) {
        if let Some(before) = &self.before {
            if now.at == before.at {
                return;
            }
            if let Some(sample) = sample(at, before, now).filter(|_| self.record.samples.len() < MAX_SAMPLES)
            {
                self.record.samples.push(sample);
            }
        }
        (self.record.cores, self.record.memory) = (now.cores, now.memory);
        self.before = Some(now.clone());
    }

    /// Returns the usage so far.
    pub const fn record(&self) -> &HostRecord {
        &self.record
    }
}

/// Returns the usage between two readings; `None` if the machine has restarted between them.
fn sample(at: u64, before: &Host, now: &Host) -> Option<HostSample> {
    // Counts of a removed interface are lost, and a new one has none before.
    let interfaces = now.interfaces.iter().filter_map(|(name, now)| {
        let before = before.interfaces.get(name).copied().unwrap_or_default();
        let received = now.received.saturating_sub(before.received);
        let sent = now.sent.saturating_sub(before.sent);
        (received > 0 || sent > 0).then(|| (name.clone(), Traffic { received, sent }))
    });
    Some(HostSample {
        at,
        took: now.at.checked_sub(before.at)?,
        ticks: now.ticks.checked_sub(before.ticks)?,
        busy: now.busy.checked_sub(before.busy)?,
        memory: now.used,
        sockets: now.sockets,
        opened: now.opened.saturating_sub(before.opened),
        retransmits: now.retransmits.saturating_sub(before.retransmits),
        interfaces: interfaces.collect(),
    })
}

/// The usage of a machine during a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostTotals {
    /// The used share of the time of all cores, from 0 to 1.
    pub cpu: f64,
    /// The maximum of bytes of memory in use.
    pub memory: u64,
    /// The maximum of open TCP sockets.
    pub sockets: u64,
    /// TCP connections that were opened.
    pub opened: u64,
    /// TCP segments that were sent again.
    pub retransmits: u64,
    /// Bytes received over all interfaces.
    pub received: u64,
    /// Bytes sent over all interfaces.
    pub sent: u64,
}

impl HostRecord {
    /// Returns the usage of the whole run.
    pub fn totals(&self) -> HostTotals {
        let sum = |of: fn(&HostSample) -> u64| {
            self.samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(of(sample)))
        };
        let max = |of: fn(&HostSample) -> u64| self.samples.iter().map(of).max().unwrap_or(0);
        let traffic = |of: fn(&Traffic) -> u64| {
            let all = self.samples.iter().flat_map(|sample| sample.interfaces.values());
            all.fold(0_u64, |sum, traffic| sum.saturating_add(of(traffic)))
        };
        HostTotals {
            cpu: sum(|sample| sample.busy) as f64 / sum(|sample| sample.ticks).max(1) as f64,
            memory: max(|sample| sample.memory),
            sockets: max(|sample| sample.sockets),
            opened: sum(|sample| sample.opened),
            retransmits: sum(|sample| sample.retransmits),
            received: traffic(|traffic| traffic.received),
            sent: traffic(|traffic| traffic.sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(at: u64, busy: u64, eth0: Option<u64>) -> Host {
        let traffic = |sent| ("eth0".to_owned(), Traffic { received: 0, sent });
        Host {
            at,
            busy,
            ticks: at / 5,
            cores: 2,
            sockets: at / 1000,
            opened: busy,
            interfaces: eth0.map(traffic).into_iter().collect(),
            ..Host::default()
        }
    }

    #[test]
    fn each_second_is_the_difference_of_two_readings() {
        let mut recorder = HostRecorder::default();
        recorder.add(0, &host(10_000, 100, Some(50)));
        assert_eq!((recorder.record().samples.len(), recorder.record().cores), (0, 2));
        recorder.add(1000, &host(11_000, 150, Some(80)));
        // The same reading again, as of a machine that did not answer since.
        recorder.add(2000, &host(11_000, 150, Some(80)));
        // The interface was removed, and nothing was sent.
        recorder.add(3000, &host(13_000, 150, None));
        let [first, second] = recorder.record().samples.as_slice() else { panic!("{recorder:?}") };
        assert_eq!((first.at, first.took, first.busy, first.ticks), (1000, 1000, 50, 200));
        assert_eq!((first.interfaces["eth0"].sent, first.sockets), (30, 11));
        assert_eq!((second.took, second.busy, second.interfaces.len()), (2000, 0, 0));
        let totals = recorder.record().totals();
        assert_eq!((totals.sockets, totals.opened, totals.sent), (13, 50, 30));
        assert!((totals.cpu - 50.0 / 600.0).abs() < 1e-9, "{totals:?}");
    }

    #[test]
    fn a_machine_that_restarts_begins_anew() {
        let mut recorder = HostRecorder::default();
        recorder.add(0, &host(10_000, 100, Some(50)));
        recorder.add(1000, &host(500, 7, Some(5)));
        recorder.add(2000, &host(1500, 9, Some(6)));
        let samples = &recorder.record().samples;
        assert_eq!((samples.len(), samples[0].busy, samples[0].interfaces["eth0"].sent), (1, 2, 1));
    }
}
