use super::*;
use latemux_isobmff::fragment::Moof;
use mp4_atom::{Any, DecodeMaybe as _, Header, ReadFrom as _};
use proptest::prelude::*;

fn any_sample() -> impl Strategy<Value = (u32, u64, u32, i32, bool)> {
    let few = |values: &'static [u32]| prop::sample::select(values);
    (
        prop_oneof![few(&[0, 1, 100]), 0_u32..5000],
        // The gap before the sample in the source.
        prop_oneof![Just(0_u64), 0_u64..300],
        prop_oneof![few(&[1, 1024]), any::<u32>()],
        prop_oneof![Just(0), Just(1024), any::<i32>()],
        any::<bool>(),
    )
}

fn samples(list: &[(u32, u64, u32, i32, bool)], decode_time: i64) -> Vec<Sample> {
    let mut offset = 1000;
    let mut decode_time = decode_time;
    list.iter()
        .map(|&(size, gap, duration, composition_offset, sync)| {
            offset += gap;
            let sample = Sample { offset, size, decode_time, duration, composition_offset, sync };
            offset += u64::from(size);
            decode_time += i64::from(duration);
            sample
        })
        .collect()
}

proptest! {
    #[test]
    fn a_segment_states_every_sample_and_its_length(
        list in prop::collection::vec(any_sample(), 1..40),
        start in prop_oneof![Just(0_i64), 0_i64..1 << 40],
        number in 1_u32..,
    ) {
        let samples = samples(&list, start);
        let parts = media(7, number, &samples, SampleForm::Clear).unwrap();
        let length: u64 = parts.iter().map(Part::len).sum();
        prop_assert_eq!(length, segment_bytes(samples.iter().copied()));
        for few in [1, 2, 3, samples.len()] {
            let few = &samples[..few.min(samples.len())];
            let column = |of: fn(&Sample) -> u32| few.iter().map(of).collect::<Vec<_>>();
            let stretch = SampleBatch {
                decode_time: start,
                sizes: &column(|s| s.size),
                durations: &column(|s| s.duration),
                composition_offsets: &few.iter().map(|s| s.composition_offset).collect::<Vec<_>>(),
                sync: &few.iter().map(|s| s.sync).collect::<Vec<_>>(),
            };
            let bytes = segment_bytes(few.iter().copied());
            prop_assert_eq!(stretch_bytes(&stretch, false), bytes);
            if few.iter().any(|s| s.composition_offset != 0) {
                prop_assert_eq!(stretch_bytes(&SampleBatch { composition_offsets: &[], ..stretch }, true), bytes);
            }
        }

        // The source parts are the samples' bytes in order, and no two of them are neighbours.
        let Some((Part::Inline(head), media)) = parts.split_first() else { panic!("head first") };
        let mut bytes = media.iter().flat_map(|part| match part {
            Part::Source(source) => {
                assert_eq!(source.object, 7);
                source.range.clone()
            }
            Part::Inline(_) => panic!("inline media"),
        });
        for sample in &samples {
            for at in sample.offset..sample.offset + u64::from(sample.size) {
                prop_assert_eq!(bytes.next(), Some(at));
            }
        }
        prop_assert_eq!(bytes.next(), None);
        for pair in media.windows(2) {
            let [Part::Source(a), Part::Source(b)] = pair else { panic!("inline media") };
            prop_assert_ne!(a.range.end, b.range.start);
        }

        // Another parser reads the same values.
        let mut cursor = std::io::Cursor::new(head);
        let Some(Any::Styp(_)) = Any::decode_maybe(&mut cursor).unwrap() else { panic!("styp first") };
        let Some(Any::Moof(moof)) = Any::decode_maybe(&mut cursor).unwrap() else { panic!("then moof") };
        let mdat = Header::read_from(&mut cursor).unwrap();
        let size: u64 = samples.iter().map(|s| u64::from(s.size)).sum();
        prop_assert_eq!(mdat.size, Some(usize::try_from(size).unwrap()));
        prop_assert_eq!(cursor.position(), head.len() as u64);
        prop_assert_eq!(moof.mfhd.sequence_number, number);
        let traf = &moof.traf[0];
        prop_assert_eq!(traf.tfdt.as_ref().unwrap().base_media_decode_time, u64::try_from(start).unwrap());
        let trun = &traf.trun[0];
        prop_assert_eq!(trun.samples.len(), samples.len());
        for (got, want) in trun.samples.iter().zip(&samples) {
            prop_assert_eq!(got.size.or(traf.tfhd.default_sample_size), Some(want.size));
            prop_assert_eq!(got.duration.or(traf.tfhd.default_sample_duration), Some(want.duration));
            prop_assert_eq!(got.cts.unwrap_or(0), i64::from(want.composition_offset));
            let flags = got.flags.or(traf.tfhd.default_sample_flags).unwrap();
            prop_assert_eq!(flags & 0x1_0000 == 0, want.sync);
        }
    }
}

/// Twice 2 GiB: the length of the `mdat` needs 64 bits, and the data offset includes the longer
/// header.
#[test]
fn four_gigabytes_need_a_64_bit_header() {
    let samples = samples(&[(1 << 31, 0, 1, 0, true), (1 << 31, 0, 1, 0, true)], 0);
    let parts = media(0, 1, &samples, SampleForm::Clear).unwrap();
    let Part::Inline(head) = &parts[0] else { panic!("head first") };
    assert_eq!(head[head.len() - 16..], [&[0, 0, 0, 1][..], b"mdat", &[0, 0, 0, 1, 0, 0, 0, 16]].concat());
    assert_eq!(parts.iter().map(Part::len).sum::<u64>(), segment_bytes(samples.into_iter()));
    let styp = usize::try_from(segment_type(&BRANDS).size()).unwrap();
    let moof = Moof::parse(&head.slice(styp..head.len() - 16), 0).unwrap();
    let offset = moof.tracks[0].runs[0].data_offset.unwrap();
    assert_eq!(usize::try_from(offset).unwrap(), head.len() - styp);
}

#[test]
fn the_smallest_header_has_the_announced_size() {
    let parts = media(0, 1, &samples(&[(9, 0, 1, 0, true)], 0), SampleForm::Clear).unwrap();
    assert_eq!(parts[0].len(), MIN_SEGMENT_HEADER);
}
