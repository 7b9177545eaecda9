//! Keys of encrypted titles: the rules that the configuration states, and where keys come from.
//!
//! A title that a rule matches is never served without its keys: whatever is missing is an error.

mod access;
mod derive;
mod file;
mod pattern;

use crate::{
    Error,
    config::{DrmRule, KeysConfig},
};
use access::Access;
use derive::Secret;
use http::{HeaderMap, Uri};
use latemux_index::{Title, media::TrackKind};
use latemux_packager::{
    Protection,
    protection::{KeyUri, Schemes, TrackKey},
};
use latemux_protect::{DrmSystem, Scheme};
use std::sync::Arc;

/// The rules of an origin, with the keys that are read at the start.
#[derive(Debug, Default)]
pub(crate) struct KeyRules(Vec<Rule>);

/// One rule.
#[derive(Debug)]
struct Rule {
    patterns: Vec<String>,
    schemes: Schemes,
    systems: Vec<DrmSystem>,
    clear: Vec<TrackKind>,
    has_clear_thumbnails: bool,
    uri: KeyUri,
    /// Source of the keys, or a sentence for the operator that says why there are none.
    source: Result<KeySource, String>,
    access: Access,
}

#[derive(Debug)]
enum KeySource {
    /// The same keys for all titles.
    Fixed(Vec<TrackKey>),
    /// A key for each title, derived from a secret.
    Derived(Secret),
}

/// The protection of a title, and who may have its keys.
#[derive(Debug)]
pub(crate) struct TitleKeys {
    pub(crate) protection: Protection,
    access: Access,
}

impl TitleKeys {
    /// Checks that a request for a key may be answered. Fails with [`Error::NoSuchUrl`] if keys are
    /// not served, with [`Error::KeyDenied`] without the right token.
    pub(crate) fn check_access(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Error> {
        self.access.check(headers, uri)
    }
}

impl KeyRules {
    /// Reads the keys of all rules. A rule whose keys cannot be read stays, and its titles are
    /// refused.
    pub(crate) fn new(rules: &[DrmRule]) -> Self {
        Self(rules.iter().map(Rule::new).collect())
    }

    /// Checks that the keys of all rules were read.
    ///
    /// # Errors
    /// A sentence for the operator, without a key.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (number, rule) in (1..).zip(&self.0) {
            let problem = rule.source.as_ref().err().map(String::as_str).or(rule.access.problem());
            if let Some(problem) = problem {
                return Err(format!("drm, rule {number}: {problem}"));
            }
        }
        Ok(())
    }

    /// Returns the keys of a title that has this base and these files. `None` if no rule matches.
    pub(crate) fn of(
        &self,
        base: &str,
        files: &[&str],
        title: &Title,
    ) -> Result<Option<Arc<TitleKeys>>, Error> {
        let is_named = |name: &str, rule: &Rule| {
            rule.patterns.iter().any(|pattern| pattern::matches(pattern.as_bytes(), name.as_bytes()))
        };
        let matches = |rule: &&Rule| is_named(base, rule) || files.iter().any(|file| is_named(file, rule));
        self.0.iter().find(matches).map(|rule| rule.keys_of(base, title).map(Arc::new)).transpose()
    }
}

impl Rule {
    fn new(rule: &DrmRule) -> Self {
        // The configuration was checked. A scheme that it cannot name would refuse the protocol.
        let scheme = |name: &Option<String>| name.as_deref().and_then(Scheme::of_name);
        let mut systems: Vec<DrmSystem> =
            rule.systems.iter().filter_map(|name| DrmSystem::of_name(name)).collect();
        if systems.is_empty() {
            systems.push(DrmSystem::ClearKey);
        }
        let source = match &rule.keys {
            KeysConfig { file: Some(path), .. } => file::read(path).map(KeySource::Fixed),
            KeysConfig { derive: Some(value), .. } => Secret::read(value).map(KeySource::Derived),
            KeysConfig { .. } => Err("there is no source of keys".to_owned()),
        };
        Self {
            patterns: rule.titles.clone(),
            schemes: Schemes {
                dash: scheme(&rule.dash),
                hls_cmaf: scheme(&rule.hls_fmp4),
                hls_ts: scheme(&rule.hls_ts),
            },
            systems,
            clear: rule.clear.iter().filter(|kind| *kind == "audio").map(|_| TrackKind::Audio).collect(),
            has_clear_thumbnails: rule.clear.iter().any(|kind| kind == "thumbnails"),
            uri: rule.key_uri.clone().map_or(KeyUri::Own, KeyUri::Template),
            source,
            access: Access::new(rule.serve_keys.as_deref()),
        }
    }

    fn keys_of(&self, base: &str, title: &Title) -> Result<TitleKeys, Error> {
        let derived;
        let keys = match self.source.as_ref().map_err(|_| Error::KeysUnavailable)? {
            KeySource::Fixed(keys) => keys.as_slice(),
            KeySource::Derived(secret) => {
                derived = [TrackKey { key: Arc::new(secret.key_of(base)), tracks: None }];
                &derived
            }
        };
        let protection = Protection::new(
            title,
            (self.schemes, self.systems.clone()),
            keys,
            &self.clear,
            self.uri.clone(),
        )?;
        let protection = protection.with_clear_thumbnails(self.has_clear_thumbnails);
        Ok(TitleKeys { protection, access: self.access.clone() })
    }
}
