//! Notes on the load generator: if it was the limit, a run says nothing about the server.

use super::Part;
use crate::usage::LIMIT;

/// The delay in microseconds above which a note says that the generator was late.
const LATE: u64 = 10_000;

/// The minimum time of saturation, in milliseconds, for a note that the generator was the limit.
const MIN_SATURATED: u64 = 2000;

/// The reciprocal of the share of the run that must be saturated for the same note.
const MIN_SATURATED_SHARE: u64 = 20;

/// Returns the resources that the generator used, in words.
pub(crate) fn generator(part: &Part) -> String {
    format!(
        "the generator used {:.0} % of {} cores and {:.0} MB",
        cpu_share(part) * 100.0,
        part.generator.cores,
        part.generator.memory as f64 / 1e6,
    )
}

/// Returns sentences that say if the generator, and not the server, was the limit.
pub(crate) fn generator_notes(part: &Part) -> Vec<String> {
    let mut notes = Vec::new();
    let used = cpu_share(part);
    let waited = share_of_cores(part, part.generator.waited);
    let saturated = part.generator.saturated;
    let sometimes = saturated >= MIN_SATURATED && saturated.saturating_mul(MIN_SATURATED_SHARE) >= part.took;
    if used + waited > LIMIT || sometimes {
        let when = if used + waited > LIMIT {
            String::new()
        } else {
            format!(" in {} of {} s", saturated / 1000, part.took / 1000)
        };
        notes.push(format!(
            "the load generator was the limit{when}: it used {:.0} % of its cores' time and waited for cores another {:.0} %; to measure the server, use more machines or fewer players",
            used * 100.0,
            waited * 100.0
        ));
    }
    let late = part.results.lag.quantile(0.99);
    if late > LATE {
        notes.push(format!(
            "the load generator was late: it sent 1 % of its requests {} ms or more after they were due; this delay is part of their latency",
            late / 1000
        ));
    }
    notes
}

/// Returns the share of all cores' time that the generator used.
fn cpu_share(part: &Part) -> f64 {
    share_of_cores(part, part.generator.cpu)
}

fn share_of_cores(part: &Part, milliseconds: u64) -> f64 {
    milliseconds as f64 / (part.took as f64 * part.generator.cores as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Generator;
    use std::collections::BTreeMap;

    fn noted(took: u64, generator: Generator, lag: &[u64]) -> String {
        let mut part = Part::new("0/1".to_owned(), 0, BTreeMap::new());
        (part.took, part.generator) = (took, generator);
        lag.iter().for_each(|micros| part.results.lag.record(*micros));
        generator_notes(&part).join("; ")
    }

    #[test]
    fn notes_say_when_the_generator_was_the_limit() {
        let two = Generator { cores: 2, ..Generator::default() };
        let noted_of = |generator| noted(60_000, generator, &[100; 1000]);
        assert_eq!(noted_of(Generator { cpu: 90_000, waited: 10_000, saturated: 1000, ..two }), "");
        let used = noted_of(Generator { cpu: 110_000, ..two });
        assert!(
            used.starts_with("the load generator was the limit: it used 92 % of its cores' time"),
            "{used}"
        );
        // Other processes used the cores.
        let waited = noted_of(Generator { cpu: 60_000, waited: 66_000, ..two });
        assert!(
            waited
                .contains("was the limit: it used 50 % of its cores' time and waited for cores another 55 %"),
            "{waited}"
        );
        let sometimes = noted_of(Generator { cpu: 60_000, saturated: 12_000, ..two });
        assert!(sometimes.starts_with("the load generator was the limit in 12 of 60 s: "), "{sometimes}");
        let rarely = Generator { cpu: 60_000, saturated: 2000, ..two };
        assert_eq!(noted_of(rarely), "", "of a minute");
        assert_ne!(noted(6000, Generator { cpu: 6000, ..rarely }, &[]), "", "of six seconds");
        let late: Vec<u64> = (0..100).map(|request| if request < 97 { 0 } else { 25_000 }).collect();
        let late = noted(60_000, two, &late);
        assert!(
            late.starts_with("the load generator was late: it sent 1 % of its requests 25 ms or more"),
            "{late}"
        );
    }
}
