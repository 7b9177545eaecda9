//! Rules for the parameters of a load that depend on each other.

use super::Parameters;
use crate::Error;
use latemux_quantity::TimeSpan;
use std::time::Duration;

/// Checks parameters that need or exclude each other. The rules for `order` and `on-deadline` are
/// those of the flags of `latemux load`.
pub(super) fn check(load: &Parameters) -> Result<(), Error> {
    let stated = |name: &str| load.get(name).map(String::as_str);
    let has_players = matches!(stated("kind"), Some("sequence" | "watch"));
    let refused = |why: &str| Err(Error::invalid(why));
    if stated("order").is_some() && !has_players {
        return refused("order is that of players: it needs the kind sequence or watch");
    }
    if stated("joined").is_some() {
        if stated("kind") != Some("list") || stated("format") != Some("hls") {
            return refused("joined is for the segments of HLS: it needs the kind list and the format hls");
        }
        if stated("rate").is_some() {
            return refused("joined and rate exclude each other");
        }
    }
    let of_streams = ["gap", "chunk-timeout", "on-deadline"].into_iter().find(|name| stated(name).is_some());
    if let Some(name) = of_streams.filter(|_| stated("streams").is_none()) {
        return Err(Error::invalid(format!("{name} needs streams")));
    }
    if stated("on-deadline") == Some("truncate") && !has_players {
        return refused("on-deadline = 'truncate' is for players: it needs the kind sequence or watch");
    }
    let has_steps = ["steps", "step"].iter().any(|name| load.contains_key(*name));
    if has_steps && ["requests", "rate"].iter().any(|name| load.contains_key(*name)) {
        return refused("a load with steps or a step has neither requests nor a rate");
    }
    if stated("step").is_none() {
        return if stated("steps").and(stated("duration")).is_some() {
            refused("steps state durations themselves, so the load must not")
        } else {
            Ok(())
        };
    }
    if stated("steps").is_some() {
        return refused("step and steps exclude each other");
    }
    match (span(load, "ramp"), span(load, "duration")) {
        (None, _) | (_, None) => refused("step needs ramp and duration"),
        (Some(ramp), Some(duration)) if ramp.is_zero() || duration < ramp => {
            refused("step needs a ramp above 0 that is not longer than the duration")
        }
        _ => Ok(()),
    }
}

/// Returns the steps of a load as numbers of connections with durations: those of `steps`, or
/// `step` connections more at a time over the ramp, of which the last are held until the end.
pub(crate) fn steps(load: &Parameters) -> Vec<String> {
    let count = |name: &str| load.get(name).and_then(|count| count.parse::<u32>().ok());
    let (Some(step), Some(connections)) = (count("step").filter(|step| *step > 0), count("connections"))
    else {
        let steps = load.get("steps").map_or("", String::as_str);
        return steps.split_whitespace().map(str::to_owned).collect();
    };
    let number = connections.div_ceil(step).max(1);
    let each = span(load, "ramp").unwrap_or_default() / number;
    let last = span(load, "duration").unwrap_or_default().saturating_sub(each * (number - 1));
    let level = |index: u32| {
        let duration = if index == number { last } else { each };
        let level = connections.min(step.saturating_mul(index));
        format!("{level}/{}", TimeSpan(duration))
    };
    (1..=number).map(level).collect()
}

fn span(load: &Parameters, name: &str) -> Option<Duration> {
    Some(load.get(name)?.parse::<TimeSpan>().ok()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;

    fn load(more: &[(&str, &str)]) -> Parameters {
        let base = [("kind", "watch"), ("format", "dash"), ("title", "t"), ("connections", "12")];
        let all = base.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_that_need_others_are_refused_without_them() {
        let refused = |more: &[(&str, &str)], why: &str| {
            let error = Function::Load.check(&load(more)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        let accepted = |more: &[(&str, &str)]| assert_eq!(Function::Load.check(&load(more)), Ok(()));
        accepted(&[("order", "priority")]);
        accepted(&[("kind", "sequence"), ("order", "priority")]);
        accepted(&[("streams", "2"), ("on-deadline", "truncate")]);
        accepted(&[("kind", "list"), ("streams", "2"), ("on-deadline", "wait")]);
        accepted(&[("step", "5"), ("ramp", "30s"), ("duration", "30s")]);
        refused(&[("order", "size")], "not one of decode, priority");
        refused(&[("on-deadline", "drop")], "not one of wait, truncate");
        refused(&[("kind", "list"), ("order", "decode")], "order is that of players: it needs the kind");
        refused(&[("on-deadline", "wait")], "on-deadline needs streams");
        accepted(&[("streams", "2"), ("gap", "210ms"), ("chunk-timeout", "adaptive")]);
        refused(&[("gap", "210ms")], "gap needs streams");
        refused(&[("chunk-timeout", "3s")], "chunk-timeout needs streams");
        let list = [("kind", "list"), ("streams", "2"), ("on-deadline", "truncate")];
        refused(&list, "on-deadline = 'truncate' is for players: it needs the kind sequence or watch");
        let step = [("step", "5"), ("ramp", "30s"), ("duration", "20s"), ("steps", "1/5s")];
        refused(&step, "step and steps exclude each other");
        refused(&step[2..], "steps state durations themselves");
        refused(&[step[3], ("requests", "9")], "has neither requests nor a rate");
        refused(&[("kind", "list"), step[0], ("rate", "9")], "has neither requests nor a rate");
        refused(&step[..2], "step needs ramp and duration");
        refused(&step[..1], "step needs ramp and duration");
        refused(&step[..3], "a ramp above 0 that is not longer than the duration");
        refused(&[step[0], ("ramp", "0s"), step[2]], "a ramp above 0");
        refused(&[("step", "0"), step[1], step[2]], "step = '0': not a whole number");
    }

    #[test]
    fn connections_are_added_in_steps_and_held() {
        let raised = [("step", "5"), ("ramp", "30s"), ("duration", "60s")];
        assert_eq!(steps(&load(&raised)), ["5/10s", "10/10s", "12/40s"]);
        let whole = [("step", "20"), raised[1], ("duration", "30s")];
        assert_eq!(steps(&load(&whole)), ["12/30s"]);
        assert_eq!(steps(&load(&[("steps", "1/5s  10/5s")])), ["1/5s", "10/5s"]);
        assert_eq!(steps(&load(&raised[1..])), [""; 0]);
    }
}
