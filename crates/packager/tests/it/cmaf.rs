//! CMAF segments of ffmpeg's files, demuxed by ffprobe: every packet equals the source's, and every
//! length equals the planned one.

use crate::{
    media::{
        Source, assert_same_packets, avc_aac, fragmented, hevc, hevc_open, probe_without_warnings, shared,
        signed, with_mfra, with_sidx,
    },
    oracles::{self, Fragment, moov},
};
use latemux_index::media::{Samples, TrackKind};
use latemux_packager::{PackError, Resource, address::IFrameNumber, carry::Protocol, plan::Class, sizes};
use latemux_testmedia::origin::Origin;
use std::{path::Path, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

/// Asserts that every track of a file, packaged as a whole, holds the packets of the file.
fn assert_file_packets(what: &str, file: &Path) {
    assert_source_packets(what, &Source::files(&[file]));
}

/// Asserts that every track of a title, packaged as a whole, holds its packets with their
/// durations.
pub(crate) fn assert_source_packets(what: &str, source: &Source) {
    let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
    let mut packed = 0;
    for kind in [TrackKind::Video, TrackKind::Audio, TrackKind::Text] {
        for (n, name) in origin.names(kind).into_iter().enumerate() {
            let (mut bytes, segments) = origin.cmaf(&name);
            let moov = moov(&bytes);
            let durations: Vec<i64> = segments
                .iter()
                .flat_map(|segment| Fragment::read(&moov, segment).samples)
                .map(|(_, _, duration)| duration)
                .collect();
            let slices: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
            let issues = transmux::validate::validate_cmaf_track(&bytes, &slices);
            assert!(issues.is_empty(), "{what} {name}: {issues:#?}");
            segments.iter().for_each(|s| bytes.extend_from_slice(s));
            let streams = probe_without_warnings(&format!("{what}-{name}"), &bytes);
            let kind = match kind {
                TrackKind::Video => "video",
                TrackKind::Audio => "audio",
                TrackKind::Text => "subtitle",
            };
            let (file, number, want) = source.streams().filter(|(_, _, s)| s.kind == kind).nth(n).unwrap();
            assert_eq!(streams.len(), 1);
            let hidden = assert_same_packets(&format!("{what} {name}"), &streams[0], want);
            // The file itself does not have the packets that repeat others.
            let is_repeated = want.packets.windows(2).any(|pair| pair[0].pos == pair[1].pos);
            let stated = if is_repeated {
                want.packets.iter().map(|packet| packet.duration).collect()
            } else {
                oracles::durations(file, number, want).expect("the other parser reads it too")
            };
            assert_eq!(durations, stated[hidden..], "{what} {name}: durations");
            packed += 1;
        }
    }
    assert!(packed > 0, "{what}: no track was packaged");
}

#[test]
fn avc_and_aac_with_edits_and_b_frames_keep_their_packets() {
    assert_file_packets("avc-aac", &avc_aac());
}

#[test]
fn hevc_with_b_frames_keeps_its_packets() {
    assert_file_packets("hevc", &hevc());
    assert_file_packets("hevc-open", &hevc_open());
}

#[test]
fn fragments_without_an_index_keep_their_packets() {
    assert_file_packets("fragmented", &fragmented());
}

#[test]
fn fragments_with_sidx_keep_their_packets() {
    assert_file_packets("sidx", &with_sidx());
    assert_file_packets("signed", &signed());
}

#[test]
fn fragments_with_mfra_keep_their_packets() {
    assert_file_packets("mfra", &with_mfra());
}

#[test]
fn sizes_from_tables_equal_those_of_the_plans() {
    for file in [avc_aac(), hevc(), hevc_open(), fragmented()] {
        let mut origin = Origin::open(&[&file], TARGET);
        for index in 0..origin.title.tracks().len() {
            let name = origin.title.tracks()[index].name.clone();
            assert!(matches!(origin.title.track(&origin.title.tracks()[index]).samples, Samples::Table(_)));
            let sizes = sizes::segment_sizes(&origin.title, index, Protocol::Dash);
            assert_eq!(sizes.len(), usize::try_from(origin.segment_count(&name)).unwrap());
            assert!(sizes.len() > 3);
            for (n, size) in (1..).zip(sizes) {
                let response = origin.get(&Resource::DashSegment(name.clone(), n)).unwrap();
                assert_eq!(response.content_length, size, "{name} {n}");
                let content_type = if name.stem == "video" { "video/mp4" } else { "audio/mp4" };
                assert_eq!((response.class, response.content_type), (Class::Media, content_type));
            }
            for (n, size) in (1..).zip(sizes::segment_sizes(&origin.title, index, Protocol::HlsTs)) {
                match origin.get(&Resource::HlsTsSegment(vec![name.clone()], n)) {
                    Ok(response) => assert_eq!(response.content_length, size, "{name} {n} in TS"),
                    Err(PackError::CannotCarry { .. }) => assert_eq!(size, 376),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let lead = (0..origin.title.tracks().len()).collect::<Vec<_>>();
        let names: Vec<_> = lead.iter().map(|&i| origin.title.tracks()[i].name.clone()).collect();
        if names.len() == 2 {
            for (n, size) in (1..).zip(sizes::muxed_sizes(&origin.title, &lead, Protocol::HlsTs)) {
                let response = origin.get(&Resource::HlsTsSegment(names.clone(), n)).unwrap();
                assert_eq!(response.content_length, size, "{n} muxed");
            }
        }
    }
}

/// Only the sizes of the source's fragments are known here, so the estimate is an upper bound.
#[test]
fn estimated_sizes_of_fragments_are_upper_bounds() {
    for file in [with_sidx(), with_mfra()] {
        let mut origin = Origin::open(&[&file], TARGET);
        for index in 0..origin.title.tracks().len() {
            let name = origin.title.tracks()[index].name.clone();
            assert!(matches!(
                origin.title.track(&origin.title.tracks()[index]).samples,
                Samples::Fragments(_)
            ));
            let cmaf = |n| Resource::HlsSegment(vec![name.clone()], n);
            let ts = |n| Resource::HlsTsSegment(vec![name.clone()], n);
            let protocols: [(_, &dyn Fn(u32) -> Resource); 2] =
                [(Protocol::HlsCmaf, &cmaf), (Protocol::HlsTs, &ts)];
            for (protocol, resource) in protocols {
                let mut totals = (0, 0);
                for (n, estimate) in (1..).zip(sizes::segment_sizes(&origin.title, index, protocol)) {
                    let length = origin.get(&resource(n)).unwrap().content_length;
                    assert!(
                        length <= estimate,
                        "{} {name} {protocol:?} {n}: {length} > {estimate}",
                        file.display()
                    );
                    totals = (totals.0 + length, totals.1 + estimate);
                }
                assert!(totals.0 > 0);
                eprintln!("{} {name} {protocol:?}: {} of {}", file.display(), totals.0, totals.1);
            }
        }
    }
}

#[test]
fn an_iframe_is_a_sync_sample_of_its_segment_alone() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let name = origin.names(TrackKind::Video).remove(0);
    let index = origin.title.find(&name).unwrap();
    let sizes = sizes::iframe_sizes(&origin.title, index, Protocol::HlsCmaf);
    let in_ts = sizes::iframe_sizes(&origin.title, index, Protocol::HlsTs);
    let mut sizes = sizes.into_iter().zip(in_ts);
    let init = origin.get(&Resource::HlsInit(vec![name.clone()])).unwrap().bytes;
    for segment in 1..=origin.segment_count(&name) {
        let whole = origin.get(&Resource::HlsSegment(vec![name.clone()], segment)).unwrap();
        let packets = |bytes: &[u8], what: &str| {
            let name = format!("iframe-{segment}-{what}");
            probe_without_warnings(&name, &[&init, bytes].concat()).remove(0).packets
        };
        let keys = packets(&whole.bytes, "all").into_iter().filter(|packet| packet.key);
        for (place, key) in (1..).zip(keys) {
            let number = IFrameNumber { segment, place };
            let frame = origin.get(&Resource::HlsIFrameCmaf(name.clone(), number)).unwrap();
            let ts = origin.get(&Resource::HlsIFrameTs(name.clone(), number)).unwrap();
            assert_eq!(Some((frame.content_length, ts.content_length)), sizes.next());
            assert_ne!(frame.digest, whole.digest);
            let alone = packets(&frame.bytes, "alone");
            assert_eq!(alone.len(), 1);
            assert_eq!((&alone[0].hash, alone[0].pts, alone[0].dts), (&key.hash, key.pts, key.dts));
            assert!(alone[0].key);
        }
    }
    assert_eq!(sizes.next(), None);
}

#[test]
fn a_segment_has_the_same_body_under_every_url() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    for name in [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat() {
        let track = origin.title.find(&name).unwrap();
        for n in 1..=origin.segment_count(&name) {
            let start = origin.title.tracks()[track].segment(n - 1).unwrap().start;
            let responses = [
                Resource::DashSegmentAt(name.clone(), u64::try_from(start).unwrap()),
                Resource::DashSegment(name.clone(), n),
                Resource::HlsSegment(vec![name.clone()], n),
            ]
            .map(|resource| origin.get(&resource).unwrap());
            let first = &responses[0];
            assert!(responses.iter().all(|r| r.bytes == first.bytes && r.digest == first.digest));
        }
    }
}

#[test]
fn a_slice_of_a_plan_is_that_range_of_its_body() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let name = origin.names(TrackKind::Audio).remove(0);
    let resource = Resource::DashSegment(name, 2);
    let body = origin.get(&resource).unwrap().bytes;
    let plan = origin.plan(&resource).unwrap();
    assert!(plan.parts.len() > 2, "interleaved audio has several source ranges");
    for (from, to) in [(0, 1), (0, 700), (100, 101), (500, 9000), (body.len() - 1, body.len() + 5)] {
        let mut plan = origin.plan(&resource).unwrap();
        assert_eq!(plan.cut(from as u64..to as u64), 0);
        let bytes: Vec<u8> = plan.parts.iter().flat_map(|part| origin.part(part)).collect();
        assert_eq!(bytes, body[from..to.min(body.len())], "{from}..{to}");
    }
}

#[test]
fn absent_tracks_and_segments_are_refused() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    let audio = origin.names(TrackKind::Audio).remove(0);
    let mut unknown = video.clone();
    unknown.bitrate += 1;
    let past = origin.segment_count(&video) + 1;
    for (resource, reason) in [
        (Resource::DashInit(unknown.clone()), "no_such_track"),
        (Resource::DashSegment(unknown, 1), "no_such_track"),
        (Resource::DashSegment(video.clone(), past), "no_such_segment"),
        (Resource::DashSegmentAt(video.clone(), 1), "no_such_segment"),
        (Resource::DashSegmentAt(video.clone(), u64::MAX), "no_such_segment"),
        (Resource::HlsIFrameCmaf(audio.clone(), IFrameNumber::first_of(1)), "no_such_track"),
        (Resource::HlsTsSegment(vec![video.clone(), video.clone()], 1), "no_such_track"),
        (Resource::HlsTsSegment(vec![video.clone(), audio.clone()], past), "no_such_segment"),
    ] {
        assert_eq!(
            origin.plan(&resource).map(drop).map_err(|e: PackError| e.reason()),
            Err(reason),
            "{resource:?}"
        );
    }
}

/// Real files from other writers. Warnings of ffprobe about the source itself do not count.
#[test]
fn shared_media_keep_their_packets() {
    let files = [
        "androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4",
        "androidx/bbb_800x640_768kbps_30fps_vp9.mp4",
        "androidx/bt601.mp4",
        "androidx/edit_list_positive_shift.mp4",
        "androidx/emsg1.mp4",
        "androidx/fragmented_captions_h265.mp4",
        "androidx/h265_bframes.mp4",
        "androidx/hdr10-av1.mp4",
        "androidx/long_edit_list_audioonly.mp4",
        "androidx/sample.mp4",
        "androidx/sample_2_byte_NAL_length.mp4",
        "androidx/sample_ac3.mp4",
        "androidx/sample_ac3_aac.mp4",
        "androidx/sample_av1.mp4",
        "androidx/sample_eac3_fragmented.mp4",
        "androidx/sample_eac3joc.mp4",
        "androidx/sample_fragmented.mp4",
        "androidx/sample_fragmented_seekable.mp4",
        "androidx/sample_fragmented_seekable_multiple_sidx.mp4",
        "androidx/sample_mdat_too_long.mp4",
        "androidx/sample_opus.mp4",
        "androidx/sample_opus_fragmented.mp4",
        "androidx/sample_portrait.mp4",
        "androidx/sample_with_btrt.mp4",
        "mp4ff/bbb5s_aac.isma",
        "mp4ff/bbb_prog_10s.mp4",
        "mp4ff/ed_hevc.mp4",
        "mp4ff/prog_8s.mp4",
        "mp4ff/v300_multiple_segments.mp4",
    ];
    let present: Vec<_> = files.iter().filter_map(|name| Some((*name, shared(name)?))).collect();
    let failed: Vec<_> = present
        .iter()
        .filter(|(name, file)| {
            let what = name.replace('/', "-");
            std::panic::catch_unwind(|| assert_file_packets(&what, file)).is_err()
        })
        .map(|(name, _)| name)
        .collect();
    let skipped = files.len() - present.len();
    eprintln!("{} of {} shared files are present, {skipped} skipped", present.len(), files.len());
    assert!(failed.is_empty(), "{failed:#?}");
}
