//! DASH media presentation descriptions (ISO/IEC 23009-1), parsed by `dash-mpd-core`.

use super::{Budget, MAX_RENDITIONS, ManifestError, dash_segments::Addressing, join};
use crate::presentation::{Kind, Presentation, Protocol, Rendition, RenditionSet};
use dash_mpd_core::{AdaptationSet, BaseURL, MPD, Period, Representation};
use url::Url;

pub(super) fn read(url: &Url, text: &str) -> Result<Presentation, ManifestError> {
    let mpd = dash_mpd_core::parse(text).map_err(|error| ManifestError::invalid(error.to_string()))?;
    if mpd.mpdtype.as_deref() == Some("dynamic") {
        return Err(ManifestError::unsupported("a live presentation"));
    }
    let [period] = mpd.periods.as_slice() else {
        return Err(match mpd.periods.len() {
            0 => ManifestError::invalid("an MPD without periods"),
            _ => ManifestError::unsupported("a presentation of several periods"),
        });
    };
    let base = below(&below(url, &mpd.base_url)?, &period.BaseURL)?;
    let seconds = duration(&mpd, period);
    let mut budget = Budget::default();
    let mut sets: Vec<RenditionSet> = Vec::new();
    for (kind, wanted) in [(Kind::Video, "video"), (Kind::Audio, "audio")] {
        // What plays unless the viewer chooses: the one marked so (§5.8.5.5), else the first.
        let of_kind = || period.adaptations.iter().filter(|set| kind_of(set) == Some(wanted));
        if let Some(set) = of_kind().find(|set| is_main(set)).or_else(|| of_kind().next()) {
            let scene = Scene { base: &base, period, set, seconds };
            sets.push(RenditionSet { kind, renditions: scene.renditions(&mut budget)? });
        }
    }
    if sets.is_empty() {
        return Err(ManifestError::invalid("neither video nor audio"));
    }
    Ok(Presentation { protocol: Protocol::Dash, sets })
}

/// Seconds of the one period there is (§5.3.2.1).
fn duration(mpd: &MPD, period: &Period) -> Option<f64> {
    let start = period.start.unwrap_or_default();
    let rest = mpd.mediaPresentationDuration.map(|all| all.saturating_sub(start));
    period.duration.or(rest).map(|duration| duration.as_secs_f64())
}

/// `contentType`, or what the types of its media say.
fn kind_of(set: &AdaptationSet) -> Option<&'static str> {
    let first = set.representations.first();
    let mime = set.mimeType.as_deref().or(first.and_then(|r| r.mimeType.as_deref()));
    let stated = set.contentType.as_deref().or(first.and_then(|r| r.contentType.as_deref()));
    let text = stated.or(mime).unwrap_or_default();
    // Pictures for fast seeking are no video (§5.3.11).
    let trick = |scheme: &str| scheme.contains("trickmode") || scheme.contains("thumbnail_tile");
    if set.essential_property.iter().any(|property| trick(&property.schemeIdUri)) {
        return None;
    }
    ["video", "audio"].into_iter().find(|kind| text.starts_with(kind))
}

fn is_main(set: &AdaptationSet) -> bool {
    set.Role.iter().any(|role| role.value.as_deref() == Some("main"))
}

/// `BaseURL`s are alternatives: the first is taken (§5.6.5).
fn below(base: &Url, references: &[BaseURL]) -> Result<Url, ManifestError> {
    references.first().map_or(Ok(base.clone()), |reference| join(base, &reference.base))
}

struct Scene<'a> {
    base: &'a Url,
    period: &'a Period,
    set: &'a AdaptationSet,
    /// Of the period.
    seconds: Option<f64>,
}

impl Scene<'_> {
    fn renditions(&self, budget: &mut Budget) -> Result<Vec<Rendition>, ManifestError> {
        let all = &self.set.representations;
        if all.len() > MAX_RENDITIONS {
            return Err(ManifestError::TooMuch { what: "representations", limit: MAX_RENDITIONS });
        }
        // Of one coding: players do not switch between them.
        let family = |r: &Representation| {
            let codecs = r.codecs.as_deref().or(self.set.codecs.as_deref()).unwrap_or_default();
            codecs.split('.').next().unwrap_or_default().to_owned()
        };
        let first = all.first().map(family).ok_or_else(|| ManifestError::invalid("no representations"))?;
        let mut renditions = Vec::new();
        for representation in all.iter().filter(|r| family(r) == first) {
            renditions.push(self.rendition(representation, budget)?);
        }
        renditions.sort_by_key(|rendition| rendition.bandwidth);
        Ok(renditions)
    }

    fn rendition(&self, r: &Representation, budget: &mut Budget) -> Result<Rendition, ManifestError> {
        let base = below(&below(self.base, &self.set.BaseURL)?, &r.BaseURL)?;
        let name = r.id.clone().unwrap_or_default();
        let bandwidth = r.bandwidth.unwrap_or(0);
        let levels = [
            (&self.period.SegmentTemplate, &self.period.SegmentList, &self.period.SegmentBase),
            (&self.set.SegmentTemplate, &self.set.SegmentList, &self.set.SegmentBase),
            (&r.SegmentTemplate, &r.SegmentList, &r.SegmentBase),
        ];
        let mut addressing = Addressing::default();
        for (template, list, one_file) in levels {
            addressing.inherit(template.as_ref(), list.as_ref(), one_file.as_ref());
        }
        let index = addressing.index(&base, &name, bandwidth, self.seconds, budget)?;
        Ok(Rendition { name, bandwidth, index, coding: None })
    }
}
