//! Files of keys.
//!
//! ```json
//! {"keys": [{"kid": "UUID", "key": "32 digits", "iv": "32 digits", "tracks": "type==\"video\""}]}
//! ```
//!
//! `iv` and `tracks` may be left out. No error repeats a text of the file, which may be a key.

use latemux_packager::{
    protection::{KeyTracks, TrackKey},
    selection::filter::Filter,
};
use latemux_protect::{ContentKey, Key, key::parse_iv};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::{fs::File, io::Read, path::Path, sync::Arc};
use zeroize::Zeroizing;

/// Most bytes of a file.
const MAX_BYTES: u64 = 1 << 20;
/// Most keys of a file.
const MAX_KEYS: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    keys: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    kid: String,
    key: HexKey,
    iv: Option<String>,
    tracks: Option<String>,
}

/// A key that is parsed in place, so that no copy of its text stays behind.
struct HexKey(Key);

impl<'de> Deserialize<'de> for HexKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        Key::from_hex(&text).map(Self).map_err(D::Error::custom)
    }
}

/// Reads a file.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn read(path: &Path) -> Result<Vec<TrackKey>, String> {
    let text = read_text(path)?;
    parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
}

/// Reads the text of a file with keys.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn read_text(path: &Path) -> Result<Zeroizing<String>, String> {
    let name = path.display();
    let mut text = Zeroizing::new(String::new());
    let file = File::open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let mut file = file.take(MAX_BYTES + 1);
    file.read_to_string(&mut text).map_err(|error| format!("cannot read {name}: {error}"))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!("{name} has more than {MAX_BYTES} bytes"));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<Vec<TrackKey>, String> {
    let parsed = serde_json::from_str::<KeyFile>(text);
    // The text of the error may hold the text of the file.
    let file = parsed.map_err(|error| {
        let line = error.line();
        let column = error.column();
        format!("line {line}, column {column}: not a list of keys of the documented form")
    })?;
    if file.keys.is_empty() || file.keys.len() > MAX_KEYS {
        return Err(format!("a file has 1 to {MAX_KEYS} keys"));
    }
    let mut keys: Vec<TrackKey> = Vec::new();
    for (number, entry) in (1..).zip(file.keys) {
        let named = |problem: &str| format!("key {number}: {problem}");
        let id = entry.kid.parse().map_err(named)?;
        let iv = entry.iv.as_deref().map(parse_iv).transpose().map_err(named)?;
        let tracks = entry.tracks.as_deref().map(Filter::parse).transpose().map_err(|why| named(&why))?;
        if keys.iter().any(|known| known.key.id() == id) {
            return Err(named("its KID occurs twice"));
        }
        let tracks = tracks.map_or(KeyTracks::All, KeyTracks::Filter);
        keys.push(TrackKey { key: Arc::new(ContentKey::new(id, entry.key.0, iv)), scheme: None, tracks });
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KID: &str = "00112233-4455-6677-8899-aabbccddeeff";
    const KEY: &str = "deadbeefdeadbeefdeadbeefdeadbeef";

    #[test]
    fn keys_come_with_ivs_and_filters() {
        let text = format!(
            r#"{{"keys":[{{"kid":"{KID}","key":"{KEY}","iv":"0x{KEY}","tracks":"type==\"video\""}},
                {{"kid":"{}","key":"{KEY}"}}]}}"#,
            "1".repeat(32)
        );
        let keys = parse(&text).unwrap();
        assert_eq!(keys[0].key.id().to_string(), KID.replace('-', ""));
        assert_eq!(keys[0].key.iv().map(|iv| iv[0]), Some(0xde));
        assert!(matches!(&keys[0].tracks, KeyTracks::Filter(f) if f.to_string() == "type==\"video\""));
        assert!(matches!(keys[1].tracks, KeyTracks::All) && keys[1].key.iv().is_none());
    }

    #[test]
    fn what_is_no_list_of_keys_is_refused_without_repeating_it() {
        let entry = |entry: &str| format!("{{\"keys\":[{entry}]}}");
        let two = format!(r#"{{"kid":"{KID}","key":"{KEY}"}},{{"kid":"{KID}","key":"{KEY}"}}"#);
        for (text, problem) in [
            (String::new(), "line 1"),
            (entry(""), "1 to 256"),
            (entry(&format!(r#"{{"kid":"{KID}","key":"{KEY}0"}}"#)), "line 1"),
            (entry(&format!(r#"{{"kid":"{KID}","key":12345678}}"#)), "line 1"),
            (entry(&format!(r#"{{"kid":"{KID}","key":"{KEY}","{KEY}":1}}"#)), "line 1"),
            (entry(&format!(r#"{{"kid":"{KEY}0","key":"{KEY}"}}"#)), "key 1: a KID has"),
            (entry(&format!(r#"{{"kid":"{}","key":"{KEY}"}}"#, "0".repeat(32))), "not encrypted"),
            (entry(&format!(r#"{{"kid":"{KID}","key":"{KEY}","iv":"{KEY}0"}}"#)), "an IV has"),
            (entry(&format!(r#"{{"kid":"{KID}","key":"{KEY}","tracks":"kind==1"}}"#)), "unknown variable"),
            (entry(&two), "twice"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("deadbeef") && !error.contains("12345678"), "{error}");
        }
    }
}
