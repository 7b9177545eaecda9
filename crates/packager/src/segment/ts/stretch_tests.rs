use super::*;
use crate::segment::ts::{PACKET, tests::adts};
use bytes::Bytes;
use proptest::prelude::*;

fn stream(coding: Coding, timescale: u32, rate: u32, frame_length: u32, decode_lead: i64) -> Stream {
    Stream {
        coding,
        timescale: Timescale::new(timescale).unwrap(),
        media_time: 700,
        decode_lead,
        sample_rate: rate,
        frame_length,
        language: None,
        encryption: None,
    }
}

fn streams() -> impl Strategy<Value = Stream> {
    let sets = prop_oneof![Just(0), 0..200_usize].prop_map(|len| Bytes::from(vec![0; len]));
    let avc = (sets, prop_oneof![Just(0_i64), 0..2000_i64], prop_oneof![Just(12_800_u32), 10..100_000_u32]);
    let avc = avc.prop_map(|(parameter_sets, lead, scale)| {
        stream(Coding::Avc { parameter_sets, length_size: 4 }, scale, 0, 0, lead)
    });
    let audio = prop_oneof![
        Just((Coding::Aac(adts(48_000)), 1024)),
        Just((Coding::Mp3, 1152)),
        Just((Coding::Ac3, 1536)),
        Just((Coding::Eac3, 0))
    ];
    let scale = prop_oneof![Just(48_000_u32), Just(44_100_u32), Just(1000_u32)];
    let audio = (audio, scale).prop_map(|((coding, length), scale)| stream(coding, scale, 48_000, length, 0));
    prop_oneof![avc, audio]
}

/// Generates columns: as in usual tables, or entirely different.
fn columns() -> impl Strategy<Value = Vec<(u32, u32, i32, bool)>> {
    let size = prop_oneof![4 => 0..3000_u32, 1 => Just(371_u32), 1 => 8000..9000_u32, 1 => 0..200_000_u32];
    let duration = prop_oneof![
        Just(1024_u32),
        Just(512_u32),
        Just(1152_u32),
        Just(1536_u32),
        Just(21_u32),
        Just(0_u32),
        0..20_000_u32
    ];
    let offset = prop_oneof![Just(0_i32), (-4..6_i32).prop_map(|n| n * 512)];
    let alike =
        (duration.clone(), any::<bool>(), prop::collection::vec((size.clone(), offset.clone()), 0..90));
    let alike = alike.prop_map(|(duration, reordered, samples)| {
        let sample = |(i, (size, offset)): (usize, (u32, i32))| {
            (size, duration, if reordered { offset } else { 0 }, i % 12 == 0)
        };
        samples.into_iter().enumerate().map(sample).collect()
    });
    let unlike = prop::collection::vec((size, duration, offset, any::<bool>()), 0..60);
    // Too few bytes to be spread over sixteen packets.
    let tiny = prop::collection::vec((0..9_u32, Just(512_u32), Just(0_i32), any::<bool>()), 1..5);
    prop_oneof![3 => alike, 1 => unlike, 1 => tiny]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn columns_take_as_many_packets_as_samples(
        stream in streams(),
        columns in columns(),
        decode_time in -5000..50_000_000_i64,
        more in prop_oneof![Just(0_u32), Just(16_u32)],
    ) {
        let sizes: Vec<u32> = columns.iter().map(|c| c.0).collect();
        let durations: Vec<u32> = columns.iter().map(|c| c.1).collect();
        let composition_offsets: Vec<i32> = columns.iter().map(|c| c.2).collect();
        let sync: Vec<bool> = columns.iter().map(|c| c.3).collect();
        let stretch = SampleBatch {
            decode_time,
            sizes: &sizes,
            durations: &durations,
            composition_offsets: &composition_offsets,
            sync: &sync,
        };
        prop_assert_eq!(packets(&stream, &stretch, more), layout::packets(&stream, samples(&stretch, more)));
        let first = stretch.one_by_one().get(0);
        prop_assert_eq!(packets(&stream, &first, more), layout::packets(&stream, samples(&first, more)));
    }
}

/// Usual media takes the fast path.
#[test]
fn usual_media_takes_the_fast_path() {
    let sizes = [900; 100];
    let durations = [1024; 100];
    let offsets = [0, 512, 1024, 512];
    let sync = [true; 100];
    let stretch = SampleBatch {
        decode_time: 1 << 40,
        sizes: &sizes,
        durations: &durations,
        composition_offsets: &[0; 100],
        sync: &sync,
    };
    for coding in [Coding::Aac(adts(48_000)), Coding::Eac3] {
        assert!(audio_tally(&stream(coding, 48_000, 48_000, 1024, 0), &stretch, 0).is_some());
    }
    let avc = Coding::Avc { parameter_sets: Bytes::new(), length_size: 4 };
    let reordered = SampleBatch {
        sizes: &sizes[..4],
        durations: &durations[..4],
        composition_offsets: &offsets,
        sync: &sync[..4],
        ..stretch
    };
    assert!(video_tally(&stream(avc, 25_600, 0, 0, 0), 30, &reordered, 0).is_some());
    assert_eq!(PACKET, 188);
}
