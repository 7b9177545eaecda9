//! The functions of a chain, and the parameters that each of them takes.

mod load;
mod parameter;

use crate::Error;
pub(crate) use load::steps;
use parameter::Value;
pub(crate) use parameter::{exponent, fraction};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Parameters of a function by name.
pub type Parameters = BTreeMap<String, String>;

/// The largest number of bytes in one parameter. A configuration of the origin is one.
pub const MAX_PARAMETER: usize = 64 << 10;

/// The most copies of a title. Lists of URLs grow with them.
pub(crate) const MAX_COPIES: u64 = 1000;

/// A function that can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// nginx over the files of a title, or over a gateway that makes them a bucket.
    Storage,
    /// `latemux serve`.
    Origin,
    /// nginx as a cache, or as a proxy that keeps nothing.
    Cache,
    /// nginx that spreads requests over several origins.
    Balance,
    /// A network with a rate and a distance.
    Link,
    /// `latemux load`.
    Load,
    /// dash.js in Chromium, on this machine only.
    Player,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 7] =
        [Self::Storage, Self::Origin, Self::Cache, Self::Balance, Self::Link, Self::Load, Self::Player];

    /// Returns the name in files and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Origin => "origin",
            Self::Cache => "cache",
            Self::Balance => "balance",
            Self::Link => "link",
            Self::Load => "load",
            Self::Player => "player",
        }
    }

    /// Finds a function by its name.
    ///
    /// # Errors
    /// If no function has this name. The error lists those that exist.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|function| function.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("unknown function '{name}' (known: {known})"))
        })
    }

    /// Returns true if the function runs on a host. A link lies between two hosts.
    pub fn has_host(self) -> bool {
        self != Self::Link
    }

    /// Returns true for the functions at the end of a chain, which request titles.
    pub(crate) fn is_client(self) -> bool {
        matches!(self, Self::Load | Self::Player)
    }

    /// Returns the number of inputs: the least and the most.
    pub(crate) fn inputs(self) -> (usize, usize) {
        match self {
            Self::Storage => (0, 0),
            Self::Balance => (1, 16),
            // The second one is where index MP4s say that the media is.
            Self::Origin => (1, 2),
            Self::Cache | Self::Link | Self::Load | Self::Player => (1, 1),
        }
    }

    /// Returns the parameters with the values that they take, and whether one must be stated.
    fn parameters(self) -> &'static [(&'static str, Value, bool)] {
        use Value::{
            Bytes, CacheSize, Count, Duration, Durations, Level, OneOf, Path, Percentage, Popularity, Rate,
            RoundTrip, Steps, Text,
        };
        match self {
            Self::Storage => &[
                ("content", Path, true),
                ("kind", OneOf(&["nginx", "versitygw"]), false),
                ("index", OneOf(&["stored", "absolute"]), false),
                ("copies", Count, false),
            ],
            Self::Origin => &[
                ("config", Text, true),
                ("storage", OneOf(&["http", "s3"]), false),
                ("segment-duration", Duration, false),
                ("cache-memory", CacheSize, false),
                ("cores", Count, false),
            ],
            Self::Cache => &[
                ("mode", OneOf(&["off", "segments", "ism", "meta", "exact", "drop", "blocks"]), true),
                ("connections", OneOf(&["kept", "new"]), false),
            ],
            Self::Balance => &[("mode", OneOf(&["hash", "round-robin"]), true)],
            Self::Link => &[
                ("rate", Rate, false),
                ("rtt", RoundTrip, false),
                ("queue", RoundTrip, false),
                ("loss", Percentage, false),
                ("congestion", OneOf(&["reno", "cubic", "bbr"]), false),
            ],
            Self::Load => &[
                ("kind", OneOf(&["list", "single", "sequence", "watch"]), true),
                ("format", OneOf(FORMATS), true),
                ("title", Path, true),
                ("copies", Count, false),
                ("popularity", Popularity, false),
                ("connections", Count, true),
                ("requests", Count, false),
                ("rate", Count, false),
                ("segments", Count, false),
                ("passes", Count, false),
                ("segment-duration", Duration, false),
                ("joined", Durations, false),
                ("rendition", OneOf(&["high", "low"]), false),
                ("steps", Steps, false),
                ("step", Count, false),
                ("duration", Duration, false),
                ("ramp", Duration, false),
                ("streams", Count, false),
                ("chunk", Bytes, false),
                ("gap", RoundTrip, false),
                ("chunk-timeout", Text, false),
                ("order", OneOf(&["decode", "priority"]), false),
                ("on-deadline", OneOf(&["wait", "truncate"]), false),
                ("competing", Level, false),
                ("abr", Text, false),
                ("class", OneOf(&["manifest", "segment"]), false),
                ("before", OneOf(&["none", "same", "dash", "smooth", "hls", "hds"]), false),
            ],
            Self::Player => &[
                ("format", OneOf(&["dash"]), true),
                ("title", Path, true),
                ("starts", Count, false),
                ("before", OneOf(&["none", "same"]), false),
            ],
        }
    }

    /// Returns the first parameter that only a link between hosts can simulate: a TCP relay has
    /// neither a queue nor loss, and uses the congestion control of the machine.
    pub(crate) fn needs_hosts(self, parameters: &Parameters) -> Option<&str> {
        let needed = ["queue", "loss", "congestion"].into_iter().filter(|_| self == Self::Link);
        needed.into_iter().find(|name| parameters.contains_key(*name))
    }

    /// Checks parameters against those that the function takes.
    ///
    /// # Errors
    /// If a parameter is unknown, missing or too long, or has a value that it does not take.
    pub fn check(self, parameters: &Parameters) -> Result<(), Error> {
        let known = self.parameters();
        for (name, value) in parameters {
            let Some((_, takes, _)) = known.iter().find(|(known, ..)| known == name) else {
                let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
                let names = names.join(", ");
                return Err(Error::invalid(format!("{self} has no parameter '{name}' (known: {names})")));
            };
            if value.len() > MAX_PARAMETER {
                return Err(Error::invalid(format!("{name} has more than {MAX_PARAMETER} bytes")));
            }
            takes.check(value).map_err(|why| Error::invalid(format!("{name} = '{value}': {why}")))?;
        }
        match known.iter().find(|(name, _, needed)| *needed && !parameters.contains_key(*name)) {
            Some((name, ..)) => Err(Error::invalid(format!("{self} needs the parameter '{name}'"))),
            None => self.check_together(parameters),
        }
    }

    /// Checks parameters that exclude each other.
    fn check_together(self, parameters: &Parameters) -> Result<(), Error> {
        let stated = |name: &str| parameters.get(name).map(String::as_str);
        if stated("copies")
            .and_then(|copies| copies.parse().ok())
            .is_some_and(|copies: u64| copies > MAX_COPIES)
        {
            return Err(Error::invalid(format!("copies must be from 1 to {MAX_COPIES}")));
        }
        let is_of_titles = matches!(stated("kind"), Some("sequence" | "watch"));
        if self == Self::Load && stated("popularity").is_some() && !is_of_titles {
            return Err(Error::invalid("`popularity` needs `kind = \"sequence\"` or `\"watch\"`"));
        }
        if self == Self::Load && stated("rate").is_some() && is_of_titles {
            return Err(Error::invalid(
                "`rate` counts requests, so it needs `kind = \"list\"` or `\"single\"`",
            ));
        }
        if self == Self::Load && stated("passes").is_some() && stated("kind") != Some("list") {
            return Err(Error::invalid("`passes` needs `kind = \"list\"`"));
        }
        // A signature holds the path that the origin asked for.
        let rewrites = ["copies", "index"].into_iter().find(|name| parameters.contains_key(*name));
        if let Some(name) = rewrites.filter(|_| self == Self::Storage && is_bucket(parameters)) {
            return Err(Error::invalid(format!("a storage of the kind versitygw has no parameter '{name}'")));
        }
        if self == Self::Load { load::check(parameters) } else { Ok(()) }
    }
}

/// Returns true if the parameters of a storage make it a bucket.
pub(crate) fn is_bucket(storage: &Parameters) -> bool {
    storage.get("kind").is_some_and(|kind| kind == "versitygw")
}

/// Returns true if the parameters of an origin make it read a bucket.
pub(crate) fn reads_bucket(origin: &Parameters) -> bool {
    origin.get("storage").is_some_and(|storage| storage == "s3")
}

/// Returns the number of times that a player starts.
pub(crate) fn starts(player: &Parameters) -> u32 {
    player.get("starts").and_then(|starts| starts.parse().ok()).unwrap_or(10)
}

/// The formats in which a title can be requested.
pub const FORMATS: &[&str] = &["dash", "smooth", "hls", "hds"];

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: Function, parameters: &[(&str, &str)]) -> Result<(), String> {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        function.check(&parameters.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_that_a_function_does_not_take_are_refused() {
        assert_eq!(check(Function::Cache, &[("mode", "meta")]), Ok(()));
        assert_eq!(check(Function::Link, &[("rate", "100Mbit/s"), ("rtt", "20ms")]), Ok(()));
        let refused = |function, parameters: &[(&str, &str)], why: &str| {
            let error = check(function, parameters).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused(Function::Cache, &[], "cache needs the parameter 'mode'");
        refused(Function::Cache, &[("mode", "all")], "mode = 'all': not one of off, segments");
        refused(Function::Cache, &[("mode", "off"), ("size", "1")], "cache has no parameter 'size'");
        refused(Function::Link, &[("rate", "100 MB")], "not a bit rate such as");
        refused(Function::Link, &[("rate", "0Mbit/s")], "not a bit rate");
        refused(Function::Link, &[("rtt", "20")], "not a duration");
        refused(Function::Link, &[("rtt", "20m")], "more than 10s");
        assert_eq!(check(Function::Link, &[("loss", "0.5%"), ("queue", "200ms")]), Ok(()));
        for wrong in ["1", "-1%", "101%", "NaN%", "%"] {
            refused(Function::Link, &[("loss", wrong)], "not a percentage from 0% to 100%");
        }
        let chunk = |chunk| {
            [("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", "1"), ("chunk", chunk)]
        };
        assert_eq!(check(Function::Load, &chunk("160kB")), Ok(()));
        let parameters = chunk("0");
        refused(Function::Load, &parameters, "not a size from 1 byte to 16 MiB");
        refused(Function::Link, &[("congestion", "vegas")], "not one of reno, cubic, bbr");
        let popular = |kind, popularity| {
            let base = [("format", "hls"), ("title", "t"), ("connections", "1"), ("copies", "9")];
            [base[0], base[1], base[2], base[3], ("kind", kind), ("popularity", popularity)]
        };
        for right in ["in-turn", "zipf:0", "zipf:1.2"] {
            assert_eq!(check(Function::Load, &popular("sequence", right)), Ok(()));
        }
        for wrong in ["zipf", "zipf:", "zipf:-1", "zipf:11", "zipf:NaN", "1.0"] {
            let parameters = popular("watch", wrong);
            refused(Function::Load, &parameters, "not in-turn, or zipf: with an exponent from 0 to 10");
        }
        refused(Function::Load, &popular("list", "in-turn"), "`popularity` needs");
        let at_rate = |kind, rate| {
            let base = [("format", "hls"), ("title", "t"), ("connections", "1")];
            [base[0], base[1], base[2], ("kind", kind), ("rate", rate)]
        };
        assert_eq!(check(Function::Load, &at_rate("list", "100")), Ok(()));
        refused(Function::Load, &at_rate("list", "0.5"), "rate = '0.5': not a whole number from 1");
        let parameters = at_rate("watch", "100");
        let why = "`rate` counts requests, so it needs `kind = \"list\"` or `\"single\"`";
        refused(Function::Load, &parameters, why);
        let passes = |kind| {
            let base = [("format", "hls"), ("title", "t"), ("connections", "1"), ("passes", "1")];
            [base[0], base[1], base[2], base[3], ("kind", kind)]
        };
        assert_eq!(check(Function::Load, &passes("list")), Ok(()));
        refused(Function::Load, &passes("single"), "`passes` needs");
        let joined = |format, kind, durations| {
            let base = [("title", "t"), ("connections", "1")];
            [base[0], base[1], ("format", format), ("kind", kind), ("joined", durations)]
        };
        assert_eq!(check(Function::Load, &joined("hls", "list", "6s 10s")), Ok(()));
        refused(Function::Load, &joined("dash", "list", "6s"), "joined is for the segments of HLS");
        refused(Function::Load, &joined("hls", "watch", "6s"), "it needs the kind list");
        refused(Function::Load, &joined("hls", "list", "6s 10"), "not a duration");
        refused(Function::Load, &joined("hls", "list", " "), "joined = ' ': must not be empty");
        let origin = |name, value| [("config", "x"), (name, value)];
        assert_eq!(check(Function::Origin, &origin("cache-memory", "1GiB")), Ok(()));
        refused(Function::Origin, &origin("cache-memory", "0"), "not a size from 1 byte to 1 TiB");
        refused(Function::Origin, &origin("cores", "0"), "not a whole number from 1");
        let copied = [("content", "t"), ("copies", "2"), ("index", "absolute")];
        assert_eq!(check(Function::Storage, &copied[..2]), Ok(()));
        assert_eq!(check(Function::Storage, &copied), Ok(()));
        refused(Function::Storage, &[("content", "t"), ("copies", "1001")], "copies must be from 1 to 1000");
        let bucket = [("content", "t"), ("kind", "versitygw"), ("copies", "2")];
        assert_eq!(check(Function::Storage, &bucket[..2]), Ok(()));
        refused(Function::Storage, &bucket, "a storage of the kind versitygw has no parameter 'copies'");
        let count = |count| [("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", count)];
        assert_eq!(check(Function::Load, &count("50")), Ok(()));
        for wrong in ["0", "-1", "many", "1000001"] {
            let parameters = count(wrong);
            refused(Function::Load, &parameters, "not a whole number from 1 to 1000000");
        }
        let long = "x".repeat(MAX_PARAMETER + 1);
        refused(Function::Origin, &[("config", &long)], "config has more than 65536 bytes");
        for outside in ["", "/etc", "../t", "t/./mp4", "t//mp4"] {
            refused(Function::Storage, &[("content", outside)], "not a path such as title/mp4");
        }
        let player = [("title", "t"), ("starts", "10"), ("before", "same"), ("format", "dash")];
        assert_eq!(check(Function::Player, &player), Ok(()));
        refused(Function::Player, &[("title", "t"), ("format", "hls")], "format = 'hls': not one of dash");
        let other = [player[0], player[3], ("before", "hls")];
        refused(Function::Player, &other, "before = 'hls': not one of none, same");
    }

    #[test]
    fn an_unknown_function_is_refused_with_those_that_exist() {
        let error = Function::named("proxy").unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown function 'proxy' (known: storage, origin, cache, balance, link, load, player)"
        );
        for function in Function::ALL {
            assert_eq!(Function::named(function.name()), Ok(function));
        }
    }
}
