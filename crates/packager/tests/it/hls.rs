//! HLS playlists, parsed and followed as a player does.

use crate::{
    media::{avc_aac, avc_open, hevc, hevc_open, ladder, probed, shared, with_mfra, with_sidx},
    player::{Presentation, fetch, multivariant, play},
};
use latemux_index::media::TrackKind;
use latemux_packager::{PackError, Resource, address::HlsContainer};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::{probe::probe, recipe::make};
use m3u8_rs::{MasterPlaylist, MediaPlaylistType, VariantStream};
use std::{ops::Range, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

pub(crate) fn variants(playlist: &MasterPlaylist) -> Vec<&VariantStream> {
    playlist.variants.iter().filter(|variant| !variant.is_i_frame).collect()
}

/// Checks the tags that every playlist of segments must have.
fn check_playlist(what: &str, played: &Presentation, total: f64) {
    let playlist = &played.playlist;
    assert!(playlist.end_list && playlist.playlist_type == Some(MediaPlaylistType::Vod), "{what}");
    assert!(playlist.unknown_tags.is_empty(), "{what}");
    // The GOPs of video are known, but for that in fragments.
    assert_eq!(playlist.independent_segments, what != "sidx", "{what}");
    let longest = played.durations.iter().map(|micros| (micros + 500_000) / 1_000_000).max().unwrap();
    assert_eq!(playlist.target_duration, longest.max(1), "{what}");
    let sum: u64 = played.durations.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let seconds = sum as f64 / 1e6;
    assert!((seconds - total).abs() < 0.001, "{what}: {seconds} of {total}");
    let version = match (&played.init, playlist.i_frames_only) {
        (Some(_), _) => 6,
        (None, true) => 4,
        (None, false) => 3,
    };
    assert_eq!(playlist.version, Some(version), "{what}");
}

/// Returns the kinds of the streams that ffprobe finds in segments.
fn kinds(name: &str, played: &Presentation) -> Vec<String> {
    let mut kinds: Vec<String> =
        probed(&format!("{name}.ts"), &played.whole()).streams.iter().map(|s| s.kind.clone()).collect();
    kinds.sort();
    kinds
}

/// Returns the sums of the peak and of the average bit rates of playlists, from their segments as
/// sent. The peak is that of any run of segments that lasts half to one and a half times the target
/// duration (RFC 8216bis §4.1), or of all of them if there is none.
pub(crate) fn rates(played: &[&Presentation]) -> (u64, u64) {
    let rates = played.iter().map(|played| {
        let target = played.playlist.target_duration * 1_000_000;
        let sum = |run: Range<usize>| -> (u64, u64) {
            let bits = played.segments[run.clone()].iter().map(|segment| segment.len() as u64 * 8).sum();
            (bits, played.durations[run].iter().sum())
        };
        let rate = |(bits, micros): (u64, u64)| (bits * 1_000_000).div_ceil(micros);
        let count = played.segments.len();
        let average = rate(sum(0..count));
        let runs = (0..count).flat_map(|start| (start + 1..=count).map(move |end| sum(start..end)));
        let counted = runs.filter(|&(_, micros)| 2 * micros >= target && 2 * micros <= 3 * target);
        (counted.map(rate).max().unwrap_or(average), average)
    });
    rates.fold((0, 0), |sum, rate| (sum.0 + rate.0, sum.1 + rate.1))
}

/// Some players lose their position over an `EXT-X-MEDIA` without URI, which stands for audio that
/// the variants hold.
#[test]
fn no_audio_of_several_in_ts_is_without_a_uri() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let (text, playlist) = multivariant(&mut origin, "");
    assert!(text.starts_with("#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-INDEPENDENT-SEGMENTS\n"), "{text}");
    let audio: Vec<_> = playlist
        .alternatives
        .iter()
        .map(|a| (a.name.as_str(), a.language.as_deref(), a.default, a.autoselect, a.channels.as_deref()))
        .collect();
    let expected = [("eng", Some("en"), true, true, Some("1")), ("fra", Some("fr"), false, true, Some("1"))];
    assert_eq!(audio, expected);
    let list = variants(&playlist);
    assert_eq!(list.len(), 3);
    let sizes: Vec<_> = list.iter().map(|v| v.resolution.unwrap()).map(|r| (r.width, r.height)).collect();
    assert_eq!(sizes, [(320, 180), (512, 288), (640, 360)]);
    let audio: Vec<Presentation> = playlist
        .alternatives
        .iter()
        .map(|a| play(&mut origin, a.uri.as_ref().unwrap_or_else(|| panic!("{text}"))))
        .collect();
    for played in &audio {
        check_playlist("audio", played, 9.0);
        assert_eq!(kinds("hls-audio", played), ["audio"]);
    }
    for variant in &list {
        assert_eq!(variant.frame_rate, Some(25.0));
        assert!(variant.codecs.as_ref().unwrap().starts_with("avc1."));
        assert!(variant.codecs.as_ref().unwrap().ends_with(",mp4a.40.2"));
        assert_eq!(variant.audio.as_deref(), Some("audio"));
        let range = &variant.other_attributes.as_ref().unwrap()["VIDEO-RANGE"];
        assert_eq!(range.to_string(), "SDR");
        let played = play(&mut origin, &variant.uri);
        check_playlist(&variant.uri, &played, 9.0);
        assert_eq!(kinds("hls-video", &played), ["video"]);
        let with: Vec<(u64, u64)> = audio.iter().map(|audio| rates(&[&played, audio])).collect();
        assert_eq!(Some(variant.bandwidth), with.iter().map(|&(peak, _)| peak).max());
        assert_eq!(variant.average_bandwidth, with.iter().map(|&(_, average)| average).max());
    }
    for variant in playlist.variants.iter().filter(|variant| variant.is_i_frame) {
        let played = play(&mut origin, &variant.uri);
        check_playlist(&variant.uri, &played, 9.0);
        assert!(played.playlist.i_frames_only);
        let (peak, average) = rates(&[&played]);
        assert_eq!((variant.bandwidth, variant.average_bandwidth), (peak, Some(average)));
    }
    assert_eq!(playlist.variants.iter().filter(|variant| variant.is_i_frame).count(), 3);
}

/// URLs of playlists that muxed video with one of several languages still work.
#[test]
fn any_audio_can_be_muxed_with_the_video() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    for audio in origin.names(TrackKind::Audio) {
        let played = play(&mut origin, &format!("x-{audio}-{video}.m3u8"));
        check_playlist("muxed", &played, 9.0);
        assert_eq!(kinds("hls-muxed", &played), ["audio", "video"]);
    }
}

/// Without a choice there is no rendition.
#[test]
fn a_single_muxed_audio_track_is_no_rendition() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let (text, playlist) = multivariant(&mut origin, "");
    assert!(playlist.alternatives.is_empty(), "{text}");
    let variant = variants(&playlist)[0];
    assert_eq!((variant.audio.as_deref(), variant.uri.contains("-audio=")), (None, true), "{text}");
    assert!(variant.codecs.as_ref().unwrap().ends_with(",mp4a.40.2"));
    let played = play(&mut origin, &variant.uri);
    check_playlist("muxed", &played, 9.1);
    assert_eq!(variant.average_bandwidth, Some(rates(&[&played]).1));
    // In CMAF it is separate from the video, and must be listed.
    let (text, playlist) = multivariant(&mut origin, "?hls_fmp4");
    assert_eq!(
        (playlist.alternatives.len(), variants(&playlist)[0].audio.as_deref()),
        (1, Some("audio")),
        "{text}"
    );
}

#[test]
fn cmaf_lists_all_audio_as_renditions() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let (text, playlist) = multivariant(&mut origin, "?hls_fmp4");
    assert!(text.starts_with("#EXTM3U\n#EXT-X-VERSION:6\n"), "{text}");
    assert!(
        text.lines().filter(|line| line.contains(".m3u8")).all(|line| line.contains(".m3u8?hls_fmp4")),
        "{text}"
    );
    let audio: Vec<Presentation> =
        playlist.alternatives.iter().map(|a| play(&mut origin, a.uri.as_ref().unwrap())).collect();
    assert_eq!(audio.len(), 2);
    for played in &audio {
        check_playlist("audio", played, 9.0);
        assert!(played.text.contains("#EXT-X-MAP:URI=\"hls/x-audio_"), "{}", played.text);
    }
    for variant in variants(&playlist) {
        let played = play(&mut origin, &variant.uri);
        check_playlist(&variant.uri, &played, 9.0);
        let with: Vec<(u64, u64)> = audio.iter().map(|audio| rates(&[&played, audio])).collect();
        assert_eq!(Some(variant.bandwidth), with.iter().map(|&(peak, _)| peak).max());
        assert_eq!(variant.average_bandwidth, with.iter().map(|&(_, average)| average).max());
    }
    for variant in playlist.variants.iter().filter(|variant| variant.is_i_frame) {
        let played = play(&mut origin, &variant.uri);
        check_playlist(&variant.uri, &played, 9.0);
        assert!(played.text.contains("#EXT-X-MAP:URI=\"../hls/"), "{}", played.text);
    }
}

#[test]
fn mp3_in_ts_is_not_named_by_its_object_type() {
    // hls.js takes `mp4a.6B` in fMP4 only.
    let file = make(
        "hls-mp3",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 \
         -f lavfi -i sine=frequency=440:sample_rate=44100:duration=6 \
         -c:v libx264 -preset ultrafast -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p \
         -c:a libmp3lame -b:a 64k",
    );
    let mut origin = Origin::open(&[&file], TARGET);
    for (query, codec) in [("", ",mp4a.40.34"), ("?hls_fmp4", ",mp4a.6B")] {
        let (text, playlist) = multivariant(&mut origin, query);
        assert!(variants(&playlist)[0].codecs.as_ref().unwrap().ends_with(codec), "{text}");
    }
}

#[test]
fn codecs_that_ts_cannot_carry_are_sent_in_cmaf() {
    let mut origin = Origin::open(&[hevc()], TARGET);
    let (_, playlist) = multivariant(&mut origin, "");
    let list = variants(&playlist);
    assert_eq!(list.len(), 1);
    assert!(list[0].uri.ends_with(".m3u8?hls_fmp4"));
    assert_eq!(list[0].frame_rate, Some(29.97));
    assert!(play(&mut origin, &list[0].uri).init.is_some());
    // The name without the query gives the same playlist.
    let plain = list[0].uri.trim_end_matches("?hls_fmp4").to_owned();
    assert!(play(&mut origin, &plain).init.is_some());
    let name = origin.names(TrackKind::Video).remove(0);
    let refused = origin.get(&Resource::HlsTsSegment(vec![name], 1));
    assert!(matches!(refused, Err(PackError::CannotCarry { .. })), "{refused:?}");
}

#[test]
fn each_audio_codec_has_its_own_group() {
    let file = make(
        "hls-codecs",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration=6 -map 0 -map 1 -map 1 -map 1 \
         -c:v libx264 -preset ultrafast -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p \
         -c:a:0 aac -b:a:0 64k -c:a:1 ac3 -b:a:1 192k -ac:a:1 6 -c:a:2 libopus -b:a:2 64k -strict -2",
    );
    let mut origin = Origin::open(&[&file], TARGET);
    let (text, playlist) = multivariant(&mut origin, "");
    let groups: Vec<_> =
        playlist.alternatives.iter().map(|a| (a.group_id.as_str(), a.channels.as_deref())).collect();
    // TS has no mapping for Opus.
    assert_eq!(groups, [("audio-1", Some("1")), ("audio-2", Some("6"))], "{text}");
    let codecs: Vec<_> = variants(&playlist).iter().map(|v| v.codecs.clone().unwrap()).collect();
    assert!(codecs[0].ends_with(",mp4a.40.2") && codecs[1].ends_with(",ac-3"), "{codecs:?}");
    let (_, playlist) = multivariant(&mut origin, "?hls_fmp4");
    assert_eq!(variants(&playlist).len(), 3);
}

#[test]
fn audio_alone_is_listed_as_variants() {
    let file = make(
        "hls-audio",
        "mp4",
        "-f lavfi -i sine=frequency=440:sample_rate=44100:duration=9 -map 0 -map 0 -map 0 -c:a aac \
         -b:a:0 32k \
         -b:a:1 96k -b:a:2 64k -metadata:s:a:0 language=eng -metadata:s:a:1 language=eng \
         -metadata:s:a:2 language=deu",
    );
    let mut origin = Origin::open(&[&file], TARGET);
    for query in ["", "?hls_fmp4"] {
        let (text, playlist) = multivariant(&mut origin, query);
        let list = variants(&playlist);
        assert_eq!(list.len(), 2, "{text}");
        assert_eq!(playlist.variants.len(), 2, "{text}");
        for variant in list {
            assert_eq!(variant.codecs.as_deref(), Some("mp4a.40.2"));
            assert!(variant.resolution.is_none() && variant.frame_rate.is_none());
            let played = play(&mut origin, &variant.uri);
            check_playlist(&variant.uri, &played, 9.0);
            // The rendition in another language may play in its place.
            let german = play(&mut origin, playlist.alternatives[1].uri.as_ref().unwrap());
            let [own, other] = [&played, &german].map(|played| rates(&[played]));
            let highest = (own.0.max(other.0), Some(own.1.max(other.1)));
            assert_eq!((variant.bandwidth, variant.average_bandwidth), highest, "{text}");
        }
        let renditions: Vec<_> =
            playlist.alternatives.iter().map(|a| (a.language.as_deref(), a.default)).collect();
        assert_eq!(renditions, [(Some("en"), true), (Some("de"), false)], "{text}");
        // The default plays from the playlist of its variant.
        let of = |n: usize| playlist.alternatives[n].uri.as_ref();
        assert!(of(0) == Some(&playlist.variants[0].uri) && of(1).is_some(), "{text}");
    }
}

#[test]
fn fragments_play_in_either_container() {
    let mut origin = Origin::open(&[with_sidx()], TARGET);
    for query in ["", "?hls_fmp4"] {
        let (text, playlist) = multivariant(&mut origin, query);
        let variant = variants(&playlist)[0];
        let played = play(&mut origin, &variant.uri);
        check_playlist("sidx", &played, 9.0);
        let (peak, average) = rates(&[&played]);
        assert!(variant.bandwidth >= peak && variant.average_bandwidth.unwrap() >= average, "{text}");
    }
}

#[test]
fn text_is_a_rendition_group_of_webvtt() {
    let Some(file) = shared("androidx/webvtt-in-mp4.mp4") else { return };
    let mut origin = Origin::open(&[avc_aac(), file], TARGET);
    let (text, playlist) = multivariant(&mut origin, "?hls_fmp4");
    let Some(subtitles) = playlist.alternatives.iter().find(|a| a.group_id == "subtitles") else {
        panic!("{text}")
    };
    assert!(!subtitles.default && subtitles.uri.is_some());
    assert!(variants(&playlist).iter().all(|v| v.subtitles.as_deref() == Some("subtitles")));
    assert!(!variants(&playlist)[0].codecs.as_ref().unwrap().contains("wvtt"));
    let segments = play(&mut origin, subtitles.uri.as_ref().unwrap()).segments;
    assert!(segments.iter().all(|segment| segment.starts_with(b"WEBVTT\n")) && !segments.is_empty());
    let (text, _) = multivariant(&mut origin, "");
    assert!(text.contains("SUBTITLES=\"subtitles\""), "{text}");
}

#[test]
fn invalid_combinations_of_tracks_are_refused() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let video = origin.names(TrackKind::Video);
    let audio = origin.names(TrackKind::Audio);
    let mut get = |tracks: Vec<_>, container| origin.get(&Resource::HlsPlaylist(tracks, container));
    let twice = get(vec![video[0].clone(), video[1].clone()], HlsContainer::Auto);
    assert!(matches!(twice, Err(PackError::NoSuchTrack(_))), "{twice:?}");
    let none = get(vec![], HlsContainer::Auto);
    assert!(none.is_err(), "{none:?}");
    let no_video = origin.get(&Resource::HlsIFramePlaylist(audio[0].clone(), HlsContainer::Auto));
    assert!(matches!(no_video, Err(PackError::NoSuchTrack(_))), "{no_video:?}");
    // A segment has one URL, for any order of the tracks.
    let one =
        origin.text(&Resource::HlsPlaylist(vec![audio[0].clone(), video[0].clone()], HlsContainer::Auto));
    let other =
        origin.text(&Resource::HlsPlaylist(vec![video[0].clone(), audio[0].clone()], HlsContainer::Auto));
    assert_eq!(one, other);
}

/// Each entry of an I-frame playlist is one key frame.
#[test]
fn iframe_playlists_hold_one_key_frame_for_each_entry() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let (_, playlist) = multivariant(&mut origin, "");
    let variant = playlist.variants.iter().find(|variant| variant.is_i_frame).unwrap().uri.clone();
    let played = play(&mut origin, &variant);
    let file = crate::media::write("keyframes.ts", &played.whole());
    let probed = probe(&file, &[]);
    assert_eq!(probed.warnings, "");
    let packets = &probed.streams[0].packets;
    assert_eq!((probed.streams.len(), packets.len()), (1, played.segments.len()));
    assert!(packets.iter().all(|packet| packet.key));
    std::fs::remove_file(file).unwrap();
    assert!(fetch(&mut origin, "/a/x.mp4/keyframes/x-video=1-1.ts").is_err());
}

#[test]
fn segments_of_open_gops_were_called_independent() {
    for (file, query, promised) in [
        (hevc(), "", true),
        (hevc(), "?vbegin=1.1&vend=4", true),
        (hevc_open(), "", false),
        (hevc_open(), "?vbegin=1.1&vend=4", false),
        (avc_aac(), "", true),
        (avc_open(), "", false),
        (avc_open(), "?hls_fmp4", false),
        // Without its video, every sample is an access point.
        (avc_open(), "?filter=type%3D%3D%22audio%22", true),
        // The samples of fragments are not known.
        (with_sidx(), "", false),
        (with_mfra(), "?hls_fmp4", false),
        (with_mfra(), "?filter=type%3D%3D%22audio%22", true),
    ] {
        let mut origin = Origin::open(&[&file], TARGET);
        let (text, playlist) = multivariant(&mut origin, query);
        assert_eq!(playlist.independent_segments, promised, "{} {query}: {text}", file.display());
        for variant in &playlist.variants {
            let played = play(&mut origin, &variant.uri);
            // A key frame alone needs no other segment.
            let promised = promised || variant.is_i_frame;
            assert_eq!(played.playlist.independent_segments, promised, "{} {}", file.display(), variant.uri);
        }
        for audio in playlist.alternatives.iter().filter_map(|audio| audio.uri.as_ref()) {
            assert!(play(&mut origin, audio).playlist.independent_segments, "{} {audio}", file.display());
        }
    }
}

/// Asserts that all segments of the CMAF playlists have the same bytes as in DASH.
pub(crate) fn assert_equals_dash(objects: &[bytes::Bytes]) {
    let mut origin = Origin::of(objects.to_vec(), TARGET).unwrap();
    let (_, playlist) = multivariant(&mut origin, "?hls_fmp4");
    let names = [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat();
    let mut dash: Vec<Vec<u8>> = names
        .iter()
        .map(|name| {
            let (init, segments) = origin.cmaf(name);
            [vec![init], segments].concat().concat()
        })
        .collect();
    let audio = playlist.alternatives.iter().filter_map(|a| a.uri.as_deref());
    let uris = variants(&playlist).into_iter().map(|variant| variant.uri.as_str()).chain(audio);
    for uri in uris {
        let whole = play(&mut origin, uri).whole();
        let before = dash.len();
        dash.retain(|bytes| *bytes != whole);
        assert_eq!(dash.len() + 1, before, "{uri}");
    }
    assert!(dash.is_empty());
}
