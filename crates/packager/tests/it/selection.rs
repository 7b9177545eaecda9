//! Filters and joined segments.

use crate::{
    media::{avc_aac, ladder},
    player::{BASE, fetch, multivariant, play},
};
use latemux_index::media::TrackKind;
use latemux_packager::selection::filter::Filter;
use latemux_testmedia::origin::Origin;
use latemux_testmedia::probe;
use std::{fs, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

/// Percent-encodes a filter as the packager writes it.
fn encoded(filter: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    filter.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[test]
fn a_filter_selects_tracks_by_their_properties() {
    let origin = Origin::open(&ladder(), TARGET);
    let title = &origin.title;
    let names: Vec<String> = title.tracks().iter().map(|t| t.name.to_string()).collect();
    let video = origin.names(TrackKind::Video);
    let middle = video[1].bitrate;
    for (filter, chosen) in [
        (r#"type=="video""#.to_owned(), &[0, 1, 2][..]),
        (r#"type=="audio""#.to_owned(), &[3, 4]),
        (r#"type!="video""#.to_owned(), &[3, 4]),
        (r#"type=="textstream""#.to_owned(), &[]),
        (r#"(type=="audio")||(type=="video"&&MaxHeight<=288)"#.to_owned(), &[0, 1, 3, 4]),
        ("MaxHeight<288".to_owned(), &[0]),
        ("MaxHeight>=288".to_owned(), &[1, 2]),
        ("MaxWidth>320".to_owned(), &[1, 2]),
        // Audio has no width, so only this comparison is true for it.
        ("MaxWidth!=320".to_owned(), &[1, 2, 3, 4]),
        (format!("systemBitrate=={middle}"), &[1]),
        (format!(r#"systemBitrate<={middle}&&type=="video""#), &[0, 1]),
        (r#"systemLanguage=="fra""#.to_owned(), &[4]),
        (r#"systemLanguage=="FRA""#.to_owned(), &[4]),
        (r#"systemLanguage!="fra""#.to_owned(), &[0, 1, 2, 3]),
        ("trackID==2".to_owned(), &[4]),
        (r#"trackName=="video""#.to_owned(), &[0, 1, 2]),
        (r#"trackName=="audio""#.to_owned(), &[3, 4]),
        (r#"trackName=="audio_eng""#.to_owned(), &[3]),
        (r#"FourCC=="AVC1""#.to_owned(), &[0, 1, 2]),
        (r#"FourCC=="aacl""#.to_owned(), &[3, 4]),
        (r#"FourCC=="mp4a""#.to_owned(), &[3, 4]),
        ("Channels==1&&SamplingRate>44100".to_owned(), &[3, 4]),
        ("Channels>1".to_owned(), &[]),
    ] {
        let parsed = Filter::parse(&filter).unwrap();
        let found: Vec<usize> = (0..title.tracks().len()).filter(|&i| parsed.matches(title, i)).collect();
        assert_eq!(found, chosen, "{filter} of {names:?}");
    }
}

#[test]
fn manifests_list_the_filtered_tracks_with_unchanged_segments() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let names: Vec<String> = origin.title.tracks().iter().map(|t| t.name.to_string()).collect();
    let filter = encoded(r#"type=="video"&&MaxHeight==288||systemLanguage=="fra""#);
    let chosen = [1, 4];
    for path in [".mpd", ".m3u8", "Manifest", ".f4m"] {
        let text = |origin: &mut Origin, query: &str| {
            String::from_utf8(fetch(origin, &format!("{BASE}{path}{query}")).unwrap().bytes).unwrap()
        };
        let whole = text(&mut origin, "");
        let filtered = text(&mut origin, &format!("?filter={filter}"));
        for (i, name) in names.iter().enumerate() {
            let (stem, bitrate) = name.split_once('=').unwrap();
            let listed = if path == "Manifest" { format!("Bitrate=\"{bitrate}\"") } else { name.clone() };
            // All audio has one bit rate, and one stream for each language.
            let listed = if path == "Manifest" && i > 2 { format!("Name=\"{stem}\"") } else { listed };
            assert_eq!(filtered.contains(&listed), chosen.contains(&i), "{path}: {name}\n{filtered}");
        }
        // The times of segments do not depend on the other tracks of the manifest.
        if path == "Manifest" {
            let lines = |text: &str| {
                text.lines()
                    .filter(|l| l.trim_start().starts_with("<c "))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let whole = lines(&whole);
            assert!(
                !whole.is_empty() && lines(&filtered).iter().all(|line| whole.contains(line)),
                "{filtered}"
            );
        }
    }
    // Playlists pass the filter on, segments do not.
    let (text, list) = multivariant(&mut origin, &format!("?filter={filter}"));
    let uris: Vec<&str> = list.variants.iter().map(|v| v.uri.as_str()).collect();
    assert_eq!(uris.len(), 2, "{text}");
    for uri in uris {
        assert!(uri.ends_with(&format!("?filter={filter}")), "{uri}");
        let played = play(&mut origin, uri);
        assert!(played.playlist.segments.iter().all(|s| !s.uri.contains('?')), "{}", played.text);
    }
    // A playlist of a track that the filter leaves out does not exist.
    let filtered_out = format!("{BASE}x-{}.m3u8?filter={filter}", names[0]);
    assert_eq!(fetch(&mut origin, &filtered_out).map(drop).map_err(|e| e.reason()), Err("no_such_track"));
    for path in [".mpd", ".m3u8", "Manifest", ".f4m"] {
        let none = fetch(&mut origin, &format!("{BASE}{path}?filter=trackID%3D%3D77"));
        assert_eq!(none.map(drop).map_err(|e| e.reason()), Err("filter_selects_nothing"), "{path}");
    }
}

/// Times and hashes of a stream's packets.
type Packets = Vec<(i64, String)>;

/// Returns durations and URLs of a playlist's segments, and the packets of all its streams.
fn packets(origin: &mut Origin, query: &str, name: &str) -> (Vec<u64>, Vec<String>, Vec<Packets>) {
    let (_, list) = multivariant(origin, query);
    let played = play(origin, &list.variants[0].uri.clone());
    let file = crate::media::write(name, &played.whole());
    let streams = probe::probe(&file, &[]).streams;
    fs::remove_file(file).unwrap();
    let of = |s: &probe::Stream| s.packets.iter().map(|p| (p.pts, p.hash.clone())).collect();
    let uris = played.playlist.segments.iter().map(|s| s.uri.clone()).collect();
    (played.durations, uris, streams.iter().map(of).collect())
}

#[test]
fn joined_segments_hold_the_packets_of_their_parts() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    for (option, extension) in [("?", "ts"), ("?hls_fmp4&", "mp4")] {
        let plain = option.strip_suffix(['?', '&']).unwrap_or_default();
        let name = format!("joined.{extension}");
        let (durations, uris, all) = packets(&mut origin, plain, &name);
        // 2, 2, 2, 2 and 1 s, and the rest of the audio.
        assert_eq!(durations.len(), 5);
        for (minimum, count) in [(500, 5), (2000, 4), (2500, 2), (4000, 2), (5000, 1), (600_000, 1)] {
            let seconds = minimum / 1000;
            let fraction = minimum % 1000 / 100;
            let point = if fraction > 0 { format!(".{fraction}") } else { String::new() };
            let query = format!("{option}hls_minimum_fragment_length={seconds}{point}");
            let (joined, names, packets) = packets(&mut origin, &query, &name);
            assert_eq!(joined.len(), count, "{query}: {joined:?}");
            let least = minimum * 1000;
            assert!(joined.iter().all(|&d| d >= least.min(durations.iter().sum())), "{query}: {joined:?}");
            assert_eq!(joined.iter().sum::<u64>(), durations.iter().sum::<u64>(), "{query}");
            assert_eq!(packets, all, "{query}");
            for (name, duration) in names.iter().zip(&joined) {
                let number = name.split('?').next().unwrap();
                let whole = uris.iter().position(|uri| uri == number).unwrap();
                // A segment that is not joined keeps its URL.
                assert_eq!(name.contains('?'), *duration != durations[whole], "{query}: {name}");
            }
        }
        // A clip from 3 s on, joined.
        let query = format!("{option}vbegin=3&hls_minimum_fragment_length=2.5");
        let (joined, _, _) = packets(&mut origin, &query, &name);
        assert_eq!(joined[0] / 1_000_000, 3, "{joined:?}");
    }
    // Other protocols have the segments of the grid.
    let mpd = |origin: &mut Origin, query: &str| fetch(origin, &format!("{BASE}.mpd{query}")).unwrap().bytes;
    assert_eq!(mpd(&mut origin, ""), mpd(&mut origin, "?hls_minimum_fragment_length=4"));
}
