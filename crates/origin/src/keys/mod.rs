//! Keys of encrypted titles: the rules that the configuration states, and where keys come from.
//!
//! A title that a rule matches is never served without its keys: whatever is missing is an error.

mod access;
mod derive;
mod document;
mod file;
mod key_server;
mod pattern;

use crate::{
    Error,
    config::{DrmRule, FairPlayConfig, KeysConfig},
};
use access::Access;
use derive::Secret;
use document::{DocumentSource, KeptDocument};
use http::{HeaderMap, Uri};
use latemux_index::{Title, media::TrackKind};
use latemux_packager::{
    Protection,
    protection::{FairPlay, FairPlayIv, KeyTracks, KeyUri, Schemes, TrackKey},
};
use latemux_protect::{DrmSystem, Scheme, cpix, key::parse_iv};
use latemux_storage::Storage;
use std::{path::Path, sync::Arc, time::Duration};

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
    clear_lead: Duration,
    uri: KeyUri,
    fairplay: FairPlay,
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
    /// Keys that are asked for when a title is loaded.
    Documents(Arc<DocumentSource>),
}

/// The protection of a title, and who may have its keys.
#[derive(Debug)]
pub(crate) struct TitleKeys {
    pub(crate) protection: Protection,
    access: Access,
    /// The document of the title, and the keys of it that the protection has.
    document: Option<(Arc<KeptDocument>, Arc<[TrackKey]>)>,
}

impl TitleKeys {
    /// Returns true if the source of the keys still states the same ones, as far as is known. Keys
    /// that are not fresh are asked for beside the request.
    pub(crate) fn are_current(&self) -> bool {
        let is_current = |(document, used): &(Arc<KeptDocument>, Arc<[TrackKey]>)| {
            document.keys().is_some_and(|keys| Arc::ptr_eq(&keys, used))
        };
        self.document.as_ref().is_none_or(is_current)
    }

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
    /// `known` are the keys that the title of this base had before.
    pub(crate) async fn of(
        &self,
        base: &str,
        files: &[&str],
        title: &Title,
        known: Option<&TitleKeys>,
        storage: &Arc<dyn Storage>,
    ) -> Result<Option<Arc<TitleKeys>>, Error> {
        let is_named = |name: &str, rule: &Rule| {
            rule.patterns.iter().any(|pattern| pattern::matches(pattern.as_bytes(), name.as_bytes()))
        };
        let matches = |rule: &&Rule| is_named(base, rule) || files.iter().any(|file| is_named(file, rule));
        let Some(rule) = self.0.iter().find(matches) else { return Ok(None) };
        rule.keys_of(base, title, known, storage).await.map(|keys| Some(Arc::new(keys)))
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
        let schemes = Schemes {
            dash: scheme(&rule.dash),
            hls_cmaf: scheme(&rule.hls_fmp4),
            hls_ts: scheme(&rule.hls_ts),
            smooth: scheme(&rule.mss),
        };
        let source = KeySource::new(&rule.keys, schemes, &systems);
        Self {
            patterns: rule.titles.clone(),
            schemes,
            systems,
            clear: rule.clear.iter().filter(|kind| *kind == "audio").map(|_| TrackKind::Audio).collect(),
            has_clear_thumbnails: rule.clear.iter().any(|kind| kind == "thumbnails"),
            clear_lead: rule.clear_lead,
            uri: rule.key_uri.clone().map_or(KeyUri::Own, KeyUri::Template),
            // The configuration was checked. Without an IV, keys that state none are refused.
            fairplay: FairPlay {
                uri: rule.fairplay.uri.clone(),
                iv: rule.fairplay.iv.as_deref().and_then(|iv| match iv {
                    FairPlayConfig::KID => Some(FairPlayIv::Kid),
                    digits => parse_iv(digits).ok().map(FairPlayIv::Bytes),
                }),
            },
            source,
            access: Access::new(rule.serve_keys.as_deref()),
        }
    }

    async fn keys_of(
        &self,
        base: &str,
        title: &Title,
        known: Option<&TitleKeys>,
        storage: &Arc<dyn Storage>,
    ) -> Result<TitleKeys, Error> {
        let derived;
        let mut document = None;
        let keys = match self.source.as_ref().map_err(|_| Error::KeysUnavailable)? {
            KeySource::Fixed(keys) => keys.as_slice(),
            KeySource::Derived(secret) => {
                let key = Arc::new(secret.key_of(base));
                derived = [TrackKey { key, scheme: None, tracks: KeyTracks::All }];
                &derived
            }
            KeySource::Documents(source) => {
                let kept = known.and_then(|known| Some(known.document.as_ref()?.0.clone()));
                let kept = kept.and_then(|kept| Some((kept.keys()?, kept)));
                let (keys, kept) = match kept {
                    Some(kept) => kept,
                    None => {
                        let new = KeptDocument::new(source, storage, base).await?;
                        (new.keys().ok_or(Error::KeysUnavailable)?, new)
                    }
                };
                &*document.insert((kept, keys)).1
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
        let protection = protection.with_clear_lead(title, self.clear_lead);
        let protection = protection.with_fairplay(&self.fairplay)?;
        Ok(TitleKeys { protection, access: self.access.clone(), document })
    }
}

impl KeySource {
    /// Returns the source that a rule names.
    ///
    /// # Errors
    /// A sentence for the operator.
    fn new(config: &KeysConfig, schemes: Schemes, systems: &[DrmSystem]) -> Result<Self, String> {
        match config {
            KeysConfig { file: Some(path), .. } => file::read(path).map(Self::Fixed),
            KeysConfig { derive: Some(value), .. } => Secret::read(value).map(Self::Derived),
            KeysConfig { cpix: Some(path), .. } if !path.contains("{title}") && !path.contains("://") => {
                let text = file::read_text(Path::new(path))?;
                let keys = cpix::read(&text).map_err(|error| format!("{path}: {error}"))?;
                Ok(Self::Fixed(keys.into_iter().map(TrackKey::from).collect()))
            }
            _ => {
                let source = DocumentSource::new(config, schemes.all().collect(), systems.to_vec())?;
                let source = source.ok_or("there is no source of keys")?;
                Ok(Self::Documents(Arc::new(source)))
            }
        }
    }
}
