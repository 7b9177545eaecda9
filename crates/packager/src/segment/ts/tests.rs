//! Segments of generated samples, taken apart by the tests' own demultiplexer.

use super::{
    AUDIO_PID, OwnedTrack, PSI_BYTES, TsPlan, TsSegment, VIDEO_PID,
    adts::Adts,
    annexb,
    demux_tests::{Demuxed, Pes},
    layout, plan_owned,
    stream::{Coding, Stream},
};
use crate::part::{Part, SourceRange};
use bytes::{Bytes, BytesMut};
use latemux_index::Sample;
use latemux_isobmff::{Time, Timescale, codec::Aac};
use proptest::prelude::*;
use std::ops::Range;

const PARAMETERS: &[u8] = &[0, 0, 0, 1, 0x67, 1, 2, 3, 0, 0, 0, 1, 0x68, 4];

fn video(timescale: u32, length_size: u8) -> Stream {
    Stream {
        coding: Coding::Avc { parameter_sets: Bytes::from_static(PARAMETERS), length_size },
        timescale: Timescale::new(timescale).unwrap(),
        media_time: 0,
        decode_lead: 0,
        sample_rate: 0,
        frame_length: 0,
        language: None,
        encryption: None,
    }
}

/// Returns the ADTS framing of stereo AAC-LC.
pub(super) fn adts(rate: u32) -> Adts {
    let config = Aac {
        asc: Bytes::new(),
        core_object_type: 2,
        object_type: 2,
        core_sample_rate: rate,
        channel_config: 2,
        program_config: false,
        frame_length: 1024,
    };
    Adts::of(&config).unwrap()
}

fn aac(rate: u32) -> Stream {
    Stream {
        coding: Coding::Aac(adts(rate)),
        timescale: Timescale::new(rate).unwrap(),
        media_time: 0,
        decode_lead: 0,
        sample_rate: rate,
        frame_length: 1024,
        language: Some(*b"eng"),
        encryption: None,
    }
}

/// Creates samples that follow one another in time and in the file.
fn samples(start: i64, offset: u64, list: &[(u32, u32, i32, bool)]) -> Vec<Sample> {
    let mut decode_time = start;
    let mut offset = offset;
    list.iter()
        .map(|&(size, duration, composition_offset, sync)| {
            let sample = Sample { offset, size, decode_time, duration, composition_offset, sync };
            decode_time += i64::from(duration);
            offset += u64::from(size);
            sample
        })
        .collect()
}

fn ready(tracks: Vec<OwnedTrack>, number: u32) -> TsSegment {
    match plan_owned(tracks, number, None) {
        TsPlan::Ready(segment) => segment,
        TsPlan::NeedsMedia(_) => panic!("four-byte lengths"),
    }
}

fn source_range(source: &SourceRange) -> Range<usize> {
    usize::try_from(source.range.start).unwrap()..usize::try_from(source.range.end).unwrap()
}

/// Returns the bytes of a segment's parts.
fn input_of(segment: &TsSegment, objects: &[&[u8]]) -> Vec<u8> {
    let mut input = Vec::new();
    for part in &segment.parts {
        match part {
            Part::Source(source) => {
                input.extend_from_slice(&objects[source.object][source_range(source)]);
            }
            Part::Inline(bytes) => input.extend_from_slice(bytes),
        }
    }
    input
}

/// Runs a segment over its objects' bytes, in pieces of the given sizes, repeated.
pub(super) fn run(mut segment: TsSegment, objects: &[&[u8]], pieces: &[usize]) -> Vec<u8> {
    let input = input_of(&segment, objects);
    let mut out = BytesMut::new();
    let mut rest = &input[..];
    for &piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at(piece.clamp(1, rest.len()));
        segment.muxer.write(now, &mut out);
        rest = later;
    }
    segment.muxer.finish(&mut out);
    assert_eq!(out.len() as u64, segment.content_length);
    out.to_vec()
}

/// Returns the bytes of a video sample in the stream, computed in a simple and slow way.
fn access_unit(sample: &[u8], sync: bool) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = sample;
    let mut own = false;
    while !rest.is_empty() {
        let Some((len, after)) = rest.split_at_checked(4) else {
            body.resize(body.len() + rest.len(), 0);
            break;
        };
        let len = u32::from_be_bytes(len.try_into().unwrap()) as usize;
        let (nal, after) = after.split_at(len.min(after.len()));
        if body.is_empty() && len == 2 && nal.len() == 2 && nal[0] & 0x1F == 9 {
            own = true;
        }
        body.extend_from_slice(if nal.is_empty() { &[0; 4] } else { &[0, 0, 0, 1] });
        body.extend_from_slice(nal);
        rest = after;
    }
    let parameters = if sync { PARAMETERS } else { &[] };
    if own {
        [&body[..6], parameters, &body[6..]].concat()
    } else {
        [&[0, 0, 0, 1, 9, 0xF0], parameters, &body[..]].concat()
    }
}

fn ticks(time: i64, scale: u32) -> u64 {
    let clock = (i128::from(time) * 90_000).div_euclid(i128::from(scale)) + 900_000;
    u64::try_from(clock.rem_euclid(1 << 33)).unwrap()
}

/// Returns pseudo-random bytes in which some NAL lengths are right.
fn media(list: &[Sample], seed: u64) -> Vec<u8> {
    let end = list.last().map_or(0, |s| s.offset + u64::from(s.size));
    let mut state = seed | 1;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    let mut bytes: Vec<u8> = (0..end).map(|_| next()).collect();
    for sample in list {
        let at = usize::try_from(sample.offset).unwrap();
        let sample = &mut bytes[at..at + sample.size as usize];
        let kind = next();
        let mut at = 0;
        if kind & 1 == 0 && sample.len() >= 6 {
            sample[..6].copy_from_slice(&[0, 0, 0, 2, 9, 0x30]);
            at = 6;
        }
        if kind & 2 == 0 {
            while sample.len() - at > 4 {
                let len = usize::from(next()).min(sample.len() - at - 4);
                sample[at..at + 4].copy_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
                at += 4 + len;
            }
        }
    }
    bytes
}

prop_compose! {
    fn video_samples()(
        list in prop::collection::vec((0u32..2500, 1u32..9000, -3000i32..9000, any::<bool>()), 1..40),
        start in -20_000i64..100_000,
    ) -> Vec<Sample> {
        samples(start, 0, &list)
    }
}

prop_compose! {
    fn audio_samples()(
        list in prop::collection::vec((0u32..1200, prop_oneof![8 => Just(1024u32), 1 => 0u32..9000]), 0..60),
        start in -20_000i64..100_000,
    ) -> Vec<Sample> {
        let list: Vec<_> = list.into_iter().map(|(size, duration)| (size, duration, 0, true)).collect();
        samples(start, 0, &list)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// For all samples and pieces: the planned length, every byte in its place, times exact to the
    /// tick.
    #[test]
    fn every_sample_is_in_the_segment(
        v in video_samples(),
        a in audio_samples(),
        with in 1u8..4,
        pieces in prop::collection::vec(1usize..3000, 1..20),
        scale in prop_oneof![Just(90_000u32), Just(24_000), Just(12_288)],
        seed in any::<u64>(),
        number in any::<u32>(),
    ) {
        let mut vs = video(scale, 4);
        let au = aac(44_100);
        vs.raise_decode_lead(&v);
        let v_media = media(&v, seed);
        let a_media = media(&a, !seed);
        let mut tracks = Vec::new();
        let mut expected = PSI_BYTES;
        if with & 2 != 0 {
            tracks.push(OwnedTrack { stream: au.clone(), object: 1, samples: a.clone(), clocks: 0 });
            expected += layout::packets(&au, a.iter().copied()) * 188;
        }
        if with & 1 != 0 {
            tracks.push(OwnedTrack { stream: vs.clone(), object: 0, samples: v.clone(), clocks: 0 });
            expected += layout::packets(&vs, v.iter().copied()) * 188;
        }
        let lead = i64::from(v.iter().map(|s| -s.composition_offset).max().unwrap().max(0));
        let segment = ready(tracks, number);
        prop_assert_eq!(segment.content_length, expected);
        let out = run(segment, &[&v_media, &a_media], &pieces);
        let demuxed = Demuxed::of(&out);
        prop_assert_eq!(demuxed.jumps, 0);
        prop_assert_eq!((demuxed.pat, demuxed.pmt.len()), (1, 1));
        let empty = Vec::new();
        if with & 1 != 0 {
            let pes = &demuxed.pes[&VIDEO_PID];
            prop_assert_eq!(pes.len(), v.len());
            for (pes, sample) in pes.iter().zip(&v) {
                let at = usize::try_from(sample.offset).unwrap();
                let bytes = &v_media[at..at + sample.size as usize];
                prop_assert_eq!(&pes.data, &access_unit(bytes, sample.sync));
                prop_assert_eq!(pes.dts, ticks(sample.decode_time - lead, scale));
                let pts = sample.decode_time + i64::from(sample.composition_offset);
                prop_assert_eq!(pes.pts, ticks(pts, scale));
                prop_assert_eq!(pes.random_access, sample.sync);
                prop_assert!(pes.stated > 0);
            }
            prop_assert_eq!(demuxed.late, 0);
        }
        if with & 2 != 0 {
            let pes = demuxed.pes.get(&AUDIO_PID).unwrap_or(&empty);
            check_audio(pes, &a, &a_media)?;
        }
        let gap = demuxed.longest_pcr_gap();
        // Video frames last up to 9000 ticks of a scale that may be slow. PCR-only packets fill the
        // time.
        prop_assert!(gap.is_some_and(|gap| gap <= 9000), "{gap:?}");
    }

    /// A range of a segment took all media before it.
    #[test]
    fn a_window_takes_only_the_units_in_it(
        v in video_samples(),
        a in audio_samples(),
        seed in any::<u64>(),
        window in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let tracks = || {
            let video = OwnedTrack { stream: video(90_000, 4), object: 0, samples: v.clone(), clocks: 0 };
            vec![OwnedTrack { stream: aac(44_100), object: 1, samples: a.clone(), clocks: 0 }, video]
        };
        let objects = [media(&v, seed), media(&a, !seed)];
        let objects = [&objects[0][..], &objects[1][..]];
        let whole = run(ready(tracks(), 7), &objects, &[999]);
        let ends = [window.0.index(whole.len()), window.1.index(whole.len()) + 1];
        let from = ends[0].min(ends[1] - 1);
        let until = ends[1].max(ends[0] + 1);
        let mut segment = ready(tracks(), 7);
        let input = input_of(&segment, &objects);
        let trimmed = segment.muxer.trim(from as u64..until as u64);
        let at = |n: u64| usize::try_from(n).unwrap();
        let mut out = BytesMut::new();
        segment.muxer.write(&input[at(trimmed.input.start)..at(trimmed.input.end)], &mut out);
        segment.muxer.finish(&mut out);
        let made = &out[at(trimmed.before)..];
        prop_assert_eq!(&made[..until - from], &whole[from..until]);
        // At most the rest of the last unit is made besides, and what precedes in the first.
        let units = [layout::units(&video(90_000, 4), &v), layout::units(&aac(44_100), &a)].concat();
        let longest = units.iter().map(|unit| unit.packets * 188).max().unwrap();
        prop_assert!(trimmed.before < longest.max(PSI_BYTES));
        prop_assert!(made.len() - (until - from) < at(longest));
    }

    /// The continuity counter continues: each PID takes a multiple of 16 packets as soon as it has
    /// enough bytes to spread.
    #[test]
    fn continuity_counters_end_at_15(v in video_samples(), a in audio_samples()) {
        for (stream, list) in [(video(90_000, 4), v), (aac(48_000), a)] {
            let units = layout::units(&stream, &list);
            let counted: u64 = units.iter().filter(|unit| unit.count > 0).map(|unit| unit.packets).sum();
            let bytes: u64 = list.iter().map(|sample| u64::from(sample.size)).sum();
            prop_assert!(counted.is_multiple_of(16) || bytes < 64, "{counted} packets of {bytes} bytes");
        }
    }

    /// Numbers from a broken file cause no panic and no overflow.
    #[test]
    fn the_largest_times_that_an_index_states_do_not_panic(
        list in prop::collection::vec((0u32..300, any::<u32>(), any::<i32>(), any::<bool>()), 1..6),
        start in 0..=2 * Time::MAX_TICKS,
        media_time in 0..=Time::MAX_TICKS,
        scale in 1u32..,
    ) {
        let mut decode_time = start;
        let mut offset = 0;
        let list: Vec<Sample> = list.iter().map(|&(size, duration, composition_offset, sync)| {
            let sample = Sample { offset, size, decode_time, duration, composition_offset, sync };
            decode_time = decode_time.wrapping_add(i64::from(duration) << 20);
            offset += u64::from(size);
            sample
        }).collect();
        for stream in [video(scale, 4), aac(48_000)] {
            let mut stream = Stream { media_time, timescale: Timescale::new(scale).unwrap(), ..stream };
            stream.raise_decode_lead(&list);
            let expected = layout::packets(&stream, list.iter().copied()) * 188 + PSI_BYTES;
            let segment = ready(vec![OwnedTrack { stream, object: 0, samples: list.clone(), clocks: 0 }], 0);
            prop_assert_eq!(segment.content_length, expected);
            let bytes = media(&list, 1);
            Demuxed::of(&run(segment, &[&bytes], &[100]));
        }
    }

    /// With short NAL lengths the media is read first. The segment is then the same as with lengths
    /// of four bytes.
    #[test]
    fn short_nal_lengths_give_the_same_segment(
        nals in prop::collection::vec(prop::collection::vec(1usize..200, 1..4), 1..10),
        length_size in 1u8..3,
        a in audio_samples(),
    ) {
        let mut short = Vec::new();
        let mut long = Vec::new();
        let mut short_list = Vec::new();
        let mut long_list = Vec::new();
        for sample in &nals {
            let from = short.len();
            let from_long = long.len();
            for &len in sample {
                let len32 = u32::try_from(len).unwrap();
                short.extend_from_slice(&len32.to_be_bytes()[4 - usize::from(length_size)..]);
                long.extend_from_slice(&len32.to_be_bytes());
                short.resize(short.len() + len, 0x41);
                long.resize(long.len() + len, 0x41);
            }
            short_list.push((u32::try_from(short.len() - from).unwrap(), 3000, 0, from == 0));
            long_list.push((u32::try_from(long.len() - from_long).unwrap(), 3000, 0, from == 0));
        }
        let a_media = media(&a, 3);
        let tracks = |length_size, list: &[_]| vec![
            OwnedTrack { stream: video(90_000, length_size), object: 0, samples: samples(0, 0, list), clocks: 0 },
            OwnedTrack { stream: aac(44_100), object: 1, samples: a.clone(), clocks: 0 },
        ];
        let expected = run(ready(tracks(4, &long_list), 3), &[&long, &a_media], &[999]);
        let TsPlan::NeedsMedia(plan) = plan_owned(tracks(length_size, &short_list), 3, None) else {
            return Err(TestCaseError::fail("ready before the media is read"));
        };
        let mut input = Vec::new();
        for part in &plan.parts {
            let Part::Source(source) = part else { continue };
            let object = if source.object == 0 { &short } else { &a_media };
            input.extend_from_slice(&object[source_range(source)]);
        }
        prop_assert_eq!(&plan.segment(&input).unwrap()[..], &expected[..]);
    }
}

/// Checks frames and their headers, in order, and the time of the first frame of each PES packet.
fn check_audio(pes: &[Pes], list: &[Sample], media: &[u8]) -> Result<(), TestCaseError> {
    let mut list = list.iter();
    for pes in pes {
        let mut data = &pes.data[..];
        let mut first = true;
        while !data.is_empty() {
            let sample = list.next().unwrap();
            if first {
                prop_assert_eq!(pes.pts, ticks(sample.decode_time, 44_100));
            }
            first = false;
            let len = usize::from(data[3] & 3) << 11 | usize::from(data[4]) << 3 | usize::from(data[5] >> 5);
            let at = usize::try_from(sample.offset).unwrap();
            prop_assert_eq!(len, sample.size as usize + 7);
            prop_assert_eq!(&data[7..len], &media[at..at + len - 7]);
            data = &data[len..];
        }
    }
    prop_assert!(list.next().is_none());
    Ok(())
}

#[test]
fn frames_too_long_for_adts_are_left_out() {
    let stream = aac(48_000);
    let list = samples(0, 0, &[(100, 1024, 0, true), (8185, 1024, 0, true), (50, 1024, 0, true)]);
    let bytes = media(&list, 5);
    let segment = ready(vec![OwnedTrack { stream, object: 0, samples: list, clocks: 0 }], 0);
    assert_eq!(segment.parts.len(), 2);
    let demuxed = Demuxed::of(&run(segment, &[&bytes], &[77]));
    let pes = &demuxed.pes[&AUDIO_PID];
    assert_eq!(pes.iter().map(|pes| pes.data.len()).collect::<Vec<_>>(), [107, 57]);
    assert_eq!(pes[1].pts - pes[0].pts, 2 * 1920);
}

#[test]
fn a_source_that_ends_early_keeps_the_length() {
    let list = samples(
        0,
        0,
        &[(5000, 3000, 0, true), (3, 3000, 0, false), (0, 3000, 0, false), (900, 3000, 0, false)],
    );
    let mut segment =
        ready(vec![OwnedTrack { stream: video(90_000, 4), object: 0, samples: list, clocks: 0 }], 0);
    let mut out = BytesMut::new();
    segment.muxer.write(&[0, 0, 19, 132, 0x65], &mut out);
    segment.muxer.finish(&mut out);
    assert_eq!(out.len() as u64, segment.content_length);
    assert_eq!(Demuxed::of(&out).pes[&VIDEO_PID].len(), 4);
}

#[test]
fn time_stamps_wrap_at_33_bits() {
    // 26.5 hours of 90 kHz are 33 bits.
    let start = (1 << 33) - 900_000 - 6000;
    let list = samples(start, 0, &[(10, 3000, 3000, true), (10, 3000, 0, false), (10, 3000, 3000, false)]);
    let bytes = media(&list, 9);
    let segment =
        ready(vec![OwnedTrack { stream: video(90_000, 4), object: 0, samples: list, clocks: 0 }], 0);
    let demuxed = Demuxed::of(&run(segment, &[&bytes], &[5]));
    let times: Vec<_> = demuxed.pes[&VIDEO_PID].iter().map(|pes| (pes.dts, pes.pts)).collect();
    let top = 1 << 33;
    assert_eq!(times, [(top - 6000, top - 3000), (top - 3000, top - 3000), (0, 3000)]);
    assert_eq!(demuxed.late, 0);
    assert_eq!(demuxed.longest_pcr_gap(), Some(3000));
}

#[test]
fn audio_that_starts_long_before_video_carries_the_clock() {
    let v = samples(90_000, 0, &[(500, 3600, 0, true), (500, 3600, 0, false)]);
    let a = samples(0, 0, &[(200, 1024, 0, true); 60]);
    let v_media = media(&v, 1);
    let a_media = media(&a, 2);
    let tracks = vec![
        OwnedTrack { stream: video(90_000, 4), object: 0, samples: v, clocks: 0 },
        OwnedTrack { stream: aac(48_000), object: 1, samples: a, clocks: 0 },
    ];
    let demuxed = Demuxed::of(&run(ready(tracks, 0), &[&v_media, &a_media], &[1000]));
    assert_eq!(demuxed.pmt[0].0, AUDIO_PID);
    assert!(demuxed.pcr.iter().all(|&(pid, _)| pid == AUDIO_PID));
    assert_eq!(demuxed.late, 0);
    assert!(demuxed.longest_pcr_gap().unwrap() <= 9000);
    // The PCR stops before the end of video, where the next segment's clock begins.
    let last = demuxed.pcr.last().unwrap().1;
    assert!(last <= 900_000 + 90_000 + 7200 - 63_000);
}

#[test]
fn the_program_map_lists_the_streams() {
    let tracks = vec![
        OwnedTrack {
            stream: aac(48_000),
            object: 0,
            samples: samples(0, 0, &[(9, 1024, 0, true)]),
            clocks: 0,
        },
        OwnedTrack {
            stream: video(90_000, 4),
            object: 0,
            samples: samples(0, 9, &[(9, 3000, 0, true)]),
            clocks: 0,
        },
    ];
    let demuxed = Demuxed::of(&run(ready(tracks, 5), &[&[7; 18]], &[4]));
    let language = vec![0x0A, 4, b'e', b'n', b'g', 0];
    assert_eq!(demuxed.pmt, [(0x100, vec![(0x1B, 0x100, vec![]), (0x0F, 0x101, language)])]);
}

#[test]
fn an_added_delimiter_has_six_bytes() {
    assert_eq!(annexb::DELIMITER.len(), 6);
    assert_eq!(access_unit(&[0, 0, 0, 2, 9, 0x10, 0, 0, 0, 1, 0x65], true).len(), PARAMETERS.len() + 11);
}
