//! Presentations of several timelines, captured as one file.

use crate::capturing::{assert_same_content, captured, probe_bytes};
use latemux_testmedia::{
    memory_server::folders_and_documents,
    probe::Stream,
    streams::{dash, dash_of_periods, dash_period, hls, hls_of_segment_lines, hls_segment_lines},
};
use mp4_atom::{Any, Codec, DecodeMaybe as _};
use std::{fs, path::PathBuf};

/// Returns each stream followed by itself, later by a number of ticks.
fn twice(streams: &[Stream], later: impl Fn(&Stream) -> i64) -> Vec<Stream> {
    streams
        .iter()
        .map(|stream| {
            let mut both = stream.clone();
            let by = later(stream);
            both.packets.extend(stream.packets.iter().cloned().map(|mut packet| {
                (packet.dts, packet.pts) = (packet.dts + by, packet.pts + by);
                packet
            }));
            both
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn periods_are_captured_one_after_the_other() {
    let folder = dash("template-timeline", "");
    let source = dash_of_periods(&[dash_period(&folder, "a", r#"duration="PT12S""#)]);
    let both =
        dash_of_periods(&[dash_period(&folder, "a", r#"duration="PT12S""#), dash_period(&folder, "a", "")]);
    let server = folders_and_documents(vec![("/a", folder)], vec![("/one.mpd", source), ("/two.mpd", both)]);
    let (done, one, _) = captured(&server, "one.mpd").await;
    done.unwrap();
    let (done, two, _) = captured(&server, "two.mpd").await;
    done.unwrap();
    let expected = twice(&probe_bytes(&one), |stream| 12 * i64::from(stream.timescale));
    assert_same_content("periods", &probe_bytes(&two), &expected, 48_000.0);
}

/// Returns the sample entries of the first track, and the entry of each of its fragments.
fn entries(bytes: &[u8]) -> (Vec<Codec>, Vec<Codec>) {
    let mut rest = bytes;
    let mut entries = Vec::new();
    let mut used = Vec::new();
    while let Some(found) = Any::decode_maybe(&mut rest).unwrap() {
        match found {
            Any::Moov(moov) => entries.clone_from(&moov.trak[0].mdia.minf.stbl.stsd.codecs),
            Any::Moof(moof) => {
                let of_track = moof.traf.iter().filter(|traf| traf.tfhd.track_id == 1);
                let index = of_track.map(|traf| traf.tfhd.sample_description_index.unwrap_or(1));
                used.extend(index.map(|index| entries[usize::try_from(index - 1).unwrap()].clone()));
            }
            _ => {}
        }
    }
    (entries, used)
}

#[tokio::test(start_paused = true)]
async fn periods_of_different_codings_and_edit_lists_are_captured_as_one_track() {
    // The first one reorders frames, and has an edit list for that; the second one has neither.
    let one = dash("template-timeline", "");
    let two = dash("in-order", "-bf 0");
    let a = dash_period(&one, "a", r#"duration="PT12S""#);
    let b = dash_period(&two, "b", r#"duration="PT12S""#);
    let both = [dash_of_periods(&[a.clone(), b.clone()]), dash_of_periods(&[b.clone(), a.clone()])];
    let server = folders_and_documents(
        vec![("/a", one), ("/b", two)],
        vec![
            ("/a.mpd", dash_of_periods(&[a])),
            ("/b.mpd", dash_of_periods(&[b])),
            ("/ab.mpd", both[0].clone()),
            ("/ba.mpd", both[1].clone()),
        ],
    );
    let mut alone = Vec::new();
    for path in ["a.mpd", "b.mpd"] {
        let (done, bytes, _) = captured(&server, path).await;
        done.unwrap();
        alone.push(bytes);
    }
    for (path, [first, second]) in [("ab.mpd", [0, 1]), ("ba.mpd", [1, 0])] {
        let (done, bytes, _) = captured(&server, path).await;
        done.unwrap();
        let (known, used) = entries(&bytes);
        let ((one, _), (other, _)) = (entries(&alone[first]), entries(&alone[second]));
        assert_ne!(one, other, "the codings differ");
        assert_eq!(known, [one.clone(), other.clone()].concat(), "{path}");
        assert_eq!(used, [vec![one[0].clone(); 6], vec![other[0].clone(); 6]].concat(), "{path}");
        let first = probe_bytes(&alone[first]);
        let second = probe_bytes(&alone[second]);
        let found = probe_bytes(&bytes);
        assert_eq!(found.len(), first.len());
        for ((found, first), second) in found.iter().zip(&first).zip(&second) {
            // The packets of the second are presented 12 s later.
            let shown = |stream: &Stream, later: i64| -> Vec<(i64, String)> {
                let later = later * i64::from(stream.timescale);
                stream.packets.iter().map(|p| (p.pts + later, p.hash.clone())).collect()
            };
            assert_eq!(
                shown(found, 0),
                [shown(first, 0), shown(second, 12)].concat(),
                "{path} {}",
                found.kind
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discontinuities_are_captured_as_one_timeline() {
    for (name, folder) in [("ts", hls("ts", "")), ("cmaf", hls("cmaf", "-hls_segment_type fmp4"))] {
        let a = hls_segment_lines(&folder, "a");
        let b = hls_segment_lines(&folder, "b");
        // A playlist whose durations are shorter than the segments.
        let less = [&a, &b].map(|lines| lines.replace("#EXTINF:2.0", "#EXTINF:1.9"));
        let server = folders_and_documents(
            vec![("/a", folder.clone()), ("/b", folder)],
            vec![
                ("/one.m3u8", hls_of_segment_lines(std::slice::from_ref(&a), "")),
                ("/two.m3u8", hls_of_segment_lines(&[a.clone(), b.clone()], "#EXT-X-DISCONTINUITY\n")),
                ("/less.m3u8", hls_of_segment_lines(&less, "#EXT-X-DISCONTINUITY\n")),
                ("/silent.m3u8", hls_of_segment_lines(&[a, b], "")),
            ],
        );
        let (done, one, _) = captured(&server, "one.m3u8").await;
        done.unwrap();
        let one = probe_bytes(&one);
        for path in ["two.m3u8", "less.m3u8"] {
            let (done, two, _) = captured(&server, path).await;
            done.unwrap();
            let two = probe_bytes(&two);
            // Durations are rounded: the second starts near the end of the first, but not before
            // it.
            let video = &two[0];
            let begin =
                |stream: &Stream, at: usize| stream.packets[at].pts * 1000 / i64::from(stream.timescale);
            let offset = begin(video, one[0].packets.len()) - begin(video, 0);
            assert!((12_000..=12_100).contains(&offset), "{name}: {path}: {offset}");
            let expected = twice(&one, |stream| offset * i64::from(stream.timescale) / 1000);
            assert_same_content(name, &two, &expected, 500.0);
        }
        let (done, ..) = captured(&server, "silent.m3u8").await;
        assert!(done.unwrap_err().to_string().starts_with("wrong_time"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_continue_with_other_pids_after_a_discontinuity() {
    let other = "-hls_segment_options mpegts_start_pid=768:mpegts_pmt_start_pid=4608";
    let one = hls("ts", "");
    let two = hls("ts-pids", other);
    let packet = |folder: &PathBuf| fs::read(folder.join("index0.ts")).unwrap()[..188 * 3].to_vec();
    assert_ne!(packet(&one), packet(&two), "ffmpeg used the option");
    let a = hls_segment_lines(&one, "a");
    let b = hls_segment_lines(&two, "b");
    let server = folders_and_documents(
        vec![("/a", one), ("/b", two)],
        vec![
            ("/same.m3u8", hls_of_segment_lines(&[a.clone(), a.clone()], "#EXT-X-DISCONTINUITY\n")),
            ("/other.m3u8", hls_of_segment_lines(&[a, b], "#EXT-X-DISCONTINUITY\n")),
        ],
    );
    let mut files = Vec::new();
    for path in ["same.m3u8", "other.m3u8"] {
        let (done, bytes, _) = captured(&server, path).await;
        done.unwrap();
        files.push(bytes);
    }
    assert!(files[0] == files[1]);
}
