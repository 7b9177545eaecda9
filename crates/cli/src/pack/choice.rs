//! The choice of tracks for each file.

use super::Pack;
use anyhow::{Result, bail, ensure};
use latemux_index::{Title, media::TrackKind, title::TitleTrack};
use latemux_packager::carry::{Protocol, carries};

/// A file to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Path or URL of the file.
    pub(super) output: String,
    /// Names of its tracks, for the report.
    pub(super) tracks: String,
    pub(super) content: Content,
}

/// The tracks of a file, as 0-based indexes into [`Title::tracks`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Cmaf(usize),
    Ismv(Vec<usize>),
}

/// Returns the files to write, and a sentence for each requested track that is left out.
///
/// # Errors
/// Returns an error if a requested track does not exist, no track can be written, or several tracks
/// would go into one CMAF file.
pub(super) fn jobs(title: &Title, flags: &Pack) -> Result<(Vec<Job>, Vec<String>)> {
    let output = &flags.output;
    let protocol = if flags.ismv { Protocol::Smooth } else { Protocol::Dash };
    let extension = output.rsplit('/').next().and_then(|name| Some(name.rsplit_once('.')?.1)).unwrap_or("");
    let kind_of_extension = [TrackKind::Video, TrackKind::Audio, TrackKind::Text]
        .into_iter()
        .find(|&kind| !flags.ismv && extension.eq_ignore_ascii_case(cmaf_extension(kind)));

    for wanted in &flags.track {
        let found = title.tracks().iter().any(|track| is_named(title, track, wanted));
        ensure!(found, "{}: there is no track '{wanted}', only {}", flags.source, track_names(title));
    }
    let wanted = |track: &TitleTrack| {
        let is_chosen = flags.track.iter().any(|name| is_named(title, track, name));
        let has_kind = kind_of_extension.is_none_or(|kind| title.track(track).kind == kind);
        is_chosen || (flags.track.is_empty() && has_kind)
    };
    let mut tracks = Vec::new();
    let mut left_out = Vec::new();
    for (index, track) in title.tracks().iter().enumerate().filter(|(_, track)| wanted(track)) {
        match carries(protocol, title.track(track)) {
            Ok(()) => tracks.push(index),
            Err(why) => left_out.push(format!("{}: {why}", track.name)),
        }
    }
    match (tracks.as_slice(), left_out.first()) {
        ([], Some(why)) => bail!("{}: {why}", flags.source),
        ([], None) => bail!("{}: no track fits .{extension}, only {}", flags.source, track_names(title)),
        _ => {}
    }

    let name = |index: &usize| title.tracks().get(*index).map(|t| t.name.to_string()).unwrap_or_default();
    let jobs = if flags.ismv {
        ensure!(!is_pattern(output), "{output}: one ismv file holds all tracks; name a file");
        let names: Vec<String> = tracks.iter().map(name).collect();
        vec![Job { output: output.clone(), tracks: names.join(", "), content: Content::Ismv(tracks) }]
    } else if is_pattern(output) {
        tracks
            .iter()
            .filter_map(|&index| {
                let output = output_name(output, title, title.tracks().get(index)?);
                Some(Job { output, tracks: name(&index), content: Content::Cmaf(index) })
            })
            .collect()
    } else {
        let [index] = *tracks.as_slice() else {
            let names: Vec<String> = tracks.iter().map(name).collect();
            bail!(
                "{output}: a CMAF file holds one track, not {}; choose one with --track, or write a file for each \
                 with -o FOLDER/",
                names.join(", ")
            )
        };
        vec![Job { output: output.clone(), tracks: name(&index), content: Content::Cmaf(index) }]
    };
    Ok((jobs, left_out))
}

/// Returns true if the output stands for one file for each track.
fn is_pattern(output: &str) -> bool {
    output.contains("{track}") || output.ends_with('/') || std::path::Path::new(output).is_dir()
}

/// Returns the name of a track's file.
fn output_name(pattern: &str, title: &Title, track: &TitleTrack) -> String {
    let pattern = match pattern.contains("{track}") {
        true => pattern.to_owned(),
        false => format!("{}/{{track}}.{{ext}}", pattern.trim_end_matches('/')),
    };
    // Bit rates in names are multiples of 1000, so the file names are as distinct as the track
    // names.
    let name = format!("{}-{}k", track.name.stem, track.name.bitrate / 1000);
    pattern.replace("{ext}", cmaf_extension(title.track(track).kind)).replace("{track}", &name)
}

/// Returns true if `wanted` is the kind of this track, its name, or its name without the bit rate.
fn is_named(title: &Title, track: &TitleTrack, wanted: &str) -> bool {
    let kind = match title.track(track).kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
        TrackKind::Text => "text",
    };
    wanted == kind || wanted == track.name.stem || wanted == track.name.to_string()
}

/// Returns the names of all tracks.
fn track_names(title: &Title) -> String {
    title.tracks().iter().map(|track| track.name.to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the extension of CMAF track files (ISO/IEC 23000-19 annex E.2).
fn cmaf_extension(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "cmfv",
        TrackKind::Audio => "cmfa",
        TrackKind::Text => "cmft",
    }
}
