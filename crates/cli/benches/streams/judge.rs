//! Compares measurements with what was published.

use crate::{cells::Cell, measure::Measured};
use std::collections::BTreeSet;

/// Largest deviation from the model without loss.
const DEVIATION: f64 = 0.15;
/// The least share of cells whose queue does not overflow that are within 15 % of the refined
/// model. The published model must be near in each cell where its assumptions hold.
const NEAR_REFINED: f64 = 0.95;
/// The least ratio of five streams to one download at 2 % loss and 100 ms.
const GAIN: f64 = 2.5;
/// An ordering that must hold without loss only.
const GAPS: &str = "shorter gaps are less fair";
/// The share of a value that the next one of an ordering must reach, because medians of three
/// measurements vary by a few percent.
const NOISE: f64 = 0.95;

/// Returns the medians of the goodput, of the fairness ratio and of the bytes in vain of each cell,
/// in the order of the cells. Measurements of a cell must follow each other.
pub(crate) fn medians(all: &[Measured]) -> Vec<Measured> {
    let rounds = all.chunk_by(|one, next| one.cell == next.cell);
    rounds
        .map(|rounds| {
            let median = |mut values: Vec<f64>| {
                values.sort_by(f64::total_cmp);
                values.get(values.len() / 2).copied()
            };
            let mut middle = rounds[0].clone();
            let mut in_vain: Vec<u64> = rounds.iter().map(|round| round.duplicated).collect();
            in_vain.sort_unstable();
            middle.duplicated = in_vain[in_vain.len() / 2];
            middle.goodput = median(rounds.iter().map(|round| round.goodput).collect()).unwrap();
            middle.fairness = median(rounds.iter().filter_map(|round| round.fairness).collect());
            middle
        })
        .collect()
}

/// Prints which expectations hold. Returns false if one does not.
pub(crate) fn judge(all: &[Measured]) -> bool {
    let near = near_the_model(all);
    let gains = gains(all);
    let orderings = orderings(all);
    near & gains & orderings
}

fn state(what: &str, holds: bool, value: &str) -> bool {
    println!("{} {what}: {value}", if holds { "ok  " } else { "MISS" });
    holds
}

/// Compares goodput without loss and without plain downloads with both models: the refined one
/// where the queue does not overflow, so that no byte arrives in vain, and the published one where
/// its assumptions hold ([`Cell::is_as_published`]).
fn near_the_model(all: &[Measured]) -> bool {
    let lossless = |it: &&Measured| it.cell.competing == 0 && it.cell.loss == 0 && !it.cell.is_plain();
    let lossless: Vec<&Measured> = all.iter().filter(lossless).collect();
    let published = lossless.iter().filter(|it| it.cell.is_as_published()).map(|it| it.goodput / it.model);
    let refined = lossless.iter().map(|it| it.goodput / it.cell.refined());
    let without_overflow = lossless.iter().filter(|it| it.duplicated == 0);
    let without_overflow = without_overflow.map(|it| it.goodput / it.cell.refined());
    let all = lossless.iter().map(|it| it.goodput / it.model);
    println!("     goodput without loss within 15 % of the published model, in any cell: {}", near(all).1);
    println!("     within 15 % of the refined model, in any cell: {}", near(refined).1);
    let refined = near(without_overflow);
    let published = near(published);
    let what = "within 15 % of the refined model where the queue does not overflow";
    state(what, refined.0 >= NEAR_REFINED, &refined.1)
        & state(
            "within 15 % of the published model where its assumptions hold",
            published.0 >= 1.0,
            &published.1,
        )
}

/// Returns the share of the ratios that are near 1, and how many are.
#[allow(clippy::cast_precision_loss, reason = "there are fewer than 2^52 cells")]
fn near(ratios: impl Iterator<Item = f64> + Clone) -> (f64, String) {
    let near = ratios.clone().filter(|ratio| (ratio - 1.0).abs() <= DEVIATION).count();
    let count = ratios.count();
    (near as f64 / count.max(1) as f64, format!("{near} of {count} cells"))
}

fn gains(all: &[Measured]) -> bool {
    let mut passed = true;
    for one in all.iter().filter(|it| it.cell.is_plain() && it.cell.loss == 20 && it.cell.rtt == 100) {
        let five = Cell { chunk: 160_000, streams: 5, ..one.cell };
        let Some(five) = all.iter().find(|it| it.cell == five) else { continue };
        let Cell { rate, congestion, .. } = one.cell;
        let gain = five.goodput / one.goodput;
        let what =
            format!("five streams by one download at 2 % loss and 100 ms, {rate} kbit/s, {congestion}");
        passed &= state(&what, gain >= GAIN, &format!("{gain:.2}"));
    }
    passed
}

/// Compares cells that differ in one parameter, for each loss: with loss, more streams and larger
/// chunks are faster; beside plain downloads, both are less fair, and longer gaps are fairer.
fn orderings(all: &[Measured]) -> bool {
    type Value = fn(&Measured) -> Option<f64>;
    type Choice = fn(&Measured) -> bool;
    let goodput: Value = |it| Some(it.goodput);
    let ratio: Value = |it| it.fairness;
    let lossy: Choice = |it| it.cell.loss > 0 && it.cell.competing == 0 && !it.cell.is_plain();
    let beside: Choice = |it| it.cell.competing == 2;
    let by_streams: fn(&mut Cell) -> f64 = |cell| f64::from(std::mem::take(&mut cell.streams));
    #[allow(clippy::cast_precision_loss, reason = "a chunk has fewer than 2^52 bytes")]
    let by_chunk: fn(&mut Cell) -> f64 = |cell| std::mem::take(&mut cell.chunk) as f64;
    let by_gap: fn(&mut Cell) -> f64 = |cell| -f64::from(std::mem::take(&mut cell.gap));
    let expected = [
        ("more streams are faster", lossy, by_streams, goodput),
        ("larger chunks are faster", lossy, by_chunk, goodput),
        ("more streams are less fair", beside, by_streams, ratio),
        ("larger chunks are less fair", beside, by_chunk, ratio),
        (GAPS, beside, by_gap, ratio),
    ];
    let losses: BTreeSet<u32> = all.iter().map(|it| it.cell.loss).collect();
    let mut passed = true;
    for (what, choice, parameter, value) in expected {
        for &loss in &losses {
            let cells: Vec<&Measured> = all.iter().filter(|it| it.cell.loss == loss && choice(it)).collect();
            let rows = rows(&cells, parameter, value);
            if rows.is_empty() {
                continue;
            }
            let risen = rows.iter().filter(|row| row.last() > row.first()).count();
            let steady = rows.iter().filter(|row| row.is_sorted_by(|one, next| *next >= one * NOISE)).count();
            let count = rows.len();
            let what = format!("{what} at {} % loss", f64::from(loss) / 10.0);
            let value = format!("from end to end in {risen} of {count} rows, at every step in {steady}");
            // Published, but not so where losses already limit each connection
            // (docs/request-response-streams.md, "Orderings").
            if what.starts_with(GAPS) && loss > 0 {
                println!("     {what}: {value}");
            } else {
                passed &= state(&what, risen == count, &value);
            }
        }
    }
    passed
}

/// Groups cells that differ only in one parameter, and returns the values of each group of at least
/// three, in the order of that parameter. `take` returns the parameter and removes it from a cell.
fn rows(
    cells: &[&Measured],
    take: fn(&mut Cell) -> f64,
    value: fn(&Measured) -> Option<f64>,
) -> Vec<Vec<f64>> {
    let mut groups: Vec<(Cell, Vec<(f64, f64)>)> = Vec::new();
    for measured in cells {
        let mut rest = measured.cell;
        let position = take(&mut rest);
        let Some(value) = value(measured) else { continue };
        match groups.iter_mut().find(|(cell, _)| *cell == rest) {
            Some((_, group)) => group.push((position, value)),
            None => groups.push((rest, vec![(position, value)])),
        }
    }
    let mut rows = Vec::new();
    for (_, mut group) in groups.into_iter().filter(|(_, group)| group.len() >= 3) {
        group.sort_by(|one, other| one.0.total_cmp(&other.0));
        rows.push(group.into_iter().map(|(_, value)| value).collect());
    }
    rows
}
