//! Tiles of AV1: where they begin, compared with the headers that ffmpeg reads, and where they end,
//! by the sizes that tile groups state.

use crate::slices::{encoded, samples_of_ivf, trace_of, traced_by};
use latemux_isobmff::codec::Av1Frames;
use std::{collections::BTreeSet, ops::Range};

/// obu_type of a tile group, and of a frame.
const TILE_GROUP: u8 = 4;
const FRAME: u8 = 6;

/// Splits a sample into units: obu_type and place. This walk is independent of the crate under
/// test.
fn units(sample: &[u8]) -> Vec<(u8, Range<usize>)> {
    let mut at = 0;
    let mut found = Vec::new();
    while at < sample.len() {
        let header = sample[at];
        let mut end = at + 1 + usize::from(header >> 2 & 1);
        let mut size = 0;
        let mut shift = 0;
        loop {
            size |= usize::from(sample[end] & 0x7f) << shift;
            shift += 7;
            end += 1;
            if sample[end - 1] < 0x80 {
                break;
            }
        }
        found.push((header >> 3 & 0xf, at..end + size));
        at = end + size;
    }
    found
}

/// A unit with tiles, as ffmpeg reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TracedUnit {
    /// Bytes of its headers.
    header: usize,
    /// Bytes of the size of each tile but the last.
    size_bytes: usize,
}

/// Returns all units with tiles, and adds the names of the fields that were set. A unit is the part
/// of the trace behind one title.
fn traced(trace: &str, features: &mut BTreeSet<String>) -> Vec<TracedUnit> {
    let mut found = Vec::new();
    let mut kind = 0;
    let mut end = 0_usize;
    let mut size_bytes = 0;
    for line in traced_by(trace).chain(["OBU header"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.first().and_then(|word| word.parse::<usize>().ok()) else {
            if line.trim() == "OBU header" && matches!(std::mem::take(&mut kind), TILE_GROUP | FRAME) {
                found.push(TracedUnit { header: end.div_ceil(8), size_bytes });
            }
            continue;
        };
        // The place of a field, its name, its bits, and its value.
        let [_, name, bits, "=", value] = words[..] else { continue };
        end = at + bits.len();
        match name {
            "obu_type" => kind = u8::from_str_radix(bits, 2).unwrap(),
            "tile_size_bytes_minus1" => size_bytes = value.parse::<usize>().unwrap() + 1,
            "frame_type" => drop(features.insert(format!("frame_type {bits}"))),
            "base_q_idx" if value == "0" => drop(features.insert("lossless".to_owned())),
            "segmentation_update_data" if value == "0" => drop(features.insert("old segments".to_owned())),
            _ if value != "0" => {
                features.insert(name.split('[').next().unwrap_or(name).to_owned());
            }
            _ => {}
        }
    }
    found
}

/// Checks the tiles of one unit: all but the last follow their size, and the last ends the unit.
fn check(sample: &[u8], unit: &Range<usize>, tiles: &[Range<usize>], traced: TracedUnit) {
    let mut at = unit.start + traced.header;
    for tile in &tiles[..tiles.len() - 1] {
        let size = &sample[at..at + traced.size_bytes];
        let size = 1 + size.iter().rev().fold(0, |size, &byte| size << 8 | usize::from(byte));
        at += traced.size_bytes;
        assert_eq!(*tile, at..at + size);
        at += size;
    }
    assert_eq!(tiles.last(), Some(&(at..unit.end)));
}

/// Features that the streams of the encoders hold.
#[derive(Default)]
struct Seen {
    features: BTreeSet<String>,
    /// Most tiles and most groups of tiles in a sample.
    tiles: usize,
    groups: usize,
}

fn compare(encoder: &str, options: &str, seen: &mut Seen) {
    let (file, trace) = encoded(encoder, options, "ivf");
    let mut reader = Av1Frames::default();
    let mut expected = traced(&trace, &mut seen.features).into_iter();
    for sample in samples_of_ivf(&file) {
        let mut tiles = Vec::new();
        reader.read(sample, &mut tiles).unwrap_or_else(|error| panic!("{options}: {error}"));
        let mut rest = &tiles[..];
        let mut groups = 0;
        for (kind, unit) in units(sample) {
            let count = rest.iter().take_while(|tile| tile.end <= unit.end).count();
            let (of_unit, others) = rest.split_at(count);
            rest = others;
            assert_eq!(!of_unit.is_empty(), matches!(kind, TILE_GROUP | FRAME), "{options}: {unit:?}");
            if !of_unit.is_empty() {
                check(sample, &unit, of_unit, expected.next().unwrap());
                groups += 1;
            }
        }
        assert!(rest.is_empty());
        seen.tiles = seen.tiles.max(tiles.len());
        seen.groups = seen.groups.max(groups);
    }
    assert_eq!(expected.next(), None, "{options}");
}

#[test]
fn tiles_of_libaom_begin_where_ffmpeg_says() {
    let mut seen = Seen::default();
    for options in [
        "-cpu-used 8 -lag-in-frames 19 -b:v 100k -frames:v 30",
        "-cpu-used 8 -usage realtime -frames:v 8 -tile-columns 2 -tile-rows 1 -aom-params num-tile-groups=3",
        "-cpu-used 8 -usage realtime -frames:v 8 -aom-params film-grain-test=3:sb-size=128",
        "-cpu-used 8 -usage realtime -frames:v 30 -aq-mode 3 -b:v 150k",
        "-cpu-used 8 -aq-mode 1 -lag-in-frames 10 -frames:v 20 -b:v 100k",
        "-cpu-used 8 -usage realtime -frames:v 6 -aom-params lossless=1",
        "-cpu-used 8 -usage realtime -frames:v 6 -pix_fmt gray",
        "-cpu-used 8 -usage realtime -frames:v 6 -pix_fmt yuv444p10le -aom-params enable-qm=1",
        "-cpu-used 8 -usage realtime -frames:v 6 -pix_fmt yuv422p12le",
        "-cpu-used 8 -usage realtime -frames:v 1 -still-picture 1",
        "-cpu-used 8 -usage realtime -frames:v 10 -error-resilience default",
        "-cpu-used 5 -lag-in-frames 10 -frames:v 12 -aom-params deltaq-mode=2:delta-lf-mode=1",
    ] {
        compare("libaom-av1", options, &mut seen);
    }
    for feature in [
        "show_existing_frame",
        "showable_frame",
        "skip_mode_present",
        "apply_grain",
        "use_128x128_superblock",
        "segmentation_enabled",
        "old segments",
        "lossless",
        "mono_chrome",
        "using_qmatrix",
        "twelve_bit",
        "reduced_still_picture_header",
        "error_resilient_mode",
        "ref_order_hint",
        "frame_id_numbers_present_flag",
        "delta_q_present",
        "delta_lf_present",
        "tile_start_and_end_present_flag",
    ] {
        assert!(seen.features.contains(feature), "{feature} of {:?}", seen.features);
    }
    assert!(seen.tiles >= 8 && seen.groups >= 3, "{} {}", seen.tiles, seen.groups);
}

#[test]
fn tiles_of_other_encoders_begin_where_ffmpeg_says() {
    let mut seen = Seen::default();
    for parameters in [
        "superres-mode=2",
        "resize-mode=2",
        "pred-struct=1:sframe-dist=6:sframe-mode=2",
        "pred-struct=1:sframe-dist=6:sframe-mode=1",
        "tile-rows=1:tile-columns=2",
        "film-grain=20",
        "scm=1:lookahead=32:enable-overlays=1",
    ] {
        let options = format!("-preset 8 -g 25 -frames:v 30 -svtav1-params {parameters}");
        compare("libsvtav1", &options, &mut seen);
    }
    compare("librav1e", "-speed 10 -rav1e-params tiles=4:low_latency=false -frames:v 12", &mut seen);
    for feature in [
        "use_superres",
        "frame_size_override_flag",
        "frame_type 11",
        "ref_order_hint",
        "allow_intrabc",
        "apply_grain",
        "lr_type",
        "diff_uv_delta",
        "old segments",
        "skip_mode_present",
    ] {
        assert!(seen.features.contains(feature), "{feature} of {:?}", seen.features);
    }
    assert!(seen.tiles >= 6, "{}", seen.tiles);
}

/// Headers depend on frames before, from the key frame on. Without these, and without all tiles of
/// a frame, samples are refused.
#[test]
fn samples_are_refused_unless_all_they_need_is_there() {
    let options = "-cpu-used 8 -lag-in-frames 19 -frames:v 12 -tile-columns 2 -aom-params num-tile-groups=2";
    let (file, _) = encoded("libaom-av1", options, "ivf");
    let samples = samples_of_ivf(&file);
    let is_read = |reader: &mut Av1Frames, sample: &[u8]| reader.read(sample, &mut Vec::new()).is_ok();
    let mut after_key = Av1Frames::default();
    assert!(!is_read(&mut after_key.clone(), samples[1]), "without a sequence header");
    assert!(is_read(&mut after_key, samples[0]) && is_read(&mut after_key.clone(), samples[1]));
    // The sequence header alone, as `av1C` holds it.
    let sequence = units(samples[0]).into_iter().find(|(kind, _)| *kind == 1).unwrap().1;
    let of_entry = Av1Frames::new(&samples[0][sequence.clone()]);
    assert!(is_read(&mut of_entry.clone(), &samples[0][sequence.end..]));
    assert!(!is_read(&mut of_entry.clone(), samples[1]), "without references");
    for (number, (kind, unit)) in units(samples[1]).into_iter().enumerate().skip(1) {
        let without = [&samples[1][..unit.start], &samples[1][unit.end..]].concat();
        assert!(!is_read(&mut after_key.clone(), &without), "without unit {number} of kind {kind}");
    }
}

/// A stream of pairs of samples: a key frame, and one behind it in whose headers some bits differ.
struct Damaged {
    samples: Vec<Vec<u8>>,
    state: u64,
}

impl Damaged {
    fn random(&mut self, below: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    fn add(&mut self, samples: &[&[u8]]) {
        let mut sample = samples[1 + self.random(samples.len() - 1)].to_vec();
        let frames: Vec<_> = units(&sample).into_iter().filter(|(kind, _)| matches!(kind, 3 | 6)).collect();
        let (_, unit) = &frames[self.random(frames.len())];
        for _ in 0..=self.random(3) {
            // Behind the header of the unit and its size.
            let at = unit.start + 3 + self.random(14);
            if at < unit.end {
                sample[at] ^= 1 << self.random(8);
            }
        }
        self.samples.extend([samples[0].to_vec(), sample]);
    }
}

/// Checks that both readers agree on all samples that both accept. Returns the number of units with
/// tiles in these, and of the samples that only ffmpeg accepts.
fn agree(samples: &[Vec<u8>], header: &[u8], features: &mut BTreeSet<String>) -> (usize, usize) {
    let mut file = header.to_vec();
    for (time, sample) in samples.iter().enumerate() {
        file.extend_from_slice(&(sample.len() as u32).to_le_bytes());
        file.extend_from_slice(&(time as u64).to_le_bytes());
        file.extend_from_slice(sample);
    }
    let trace = trace_of(&file, "ivf");
    let packets: Vec<&str> = trace.split("] Packet: ").skip(1).collect();
    assert_eq!(packets.len(), samples.len());
    let mut reader = Av1Frames::default();
    let mut same = 0;
    let mut refused = 0;
    for (sample, packet) in samples.iter().zip(packets) {
        let mut tiles = Vec::new();
        let read = reader.read(sample, &mut tiles);
        if packet.contains("Failed to read unit") {
            continue;
        }
        if read.is_err() {
            refused += 1;
            continue;
        }
        let mut traced = traced(packet, features).into_iter();
        for (_, unit) in units(sample).into_iter().filter(|(kind, _)| matches!(*kind, TILE_GROUP | FRAME)) {
            let of_unit: Vec<_> = tiles.iter().filter(|tile| unit.contains(&tile.start)).cloned().collect();
            check(sample, &unit, &of_unit, traced.next().unwrap());
            same += 1;
        }
    }
    (same, refused)
}

/// Frames whose quantizer index is 0 are lossless, and have no filters, unless their segments
/// differ from it. They may take their segments from another frame.
#[test]
fn segments_of_other_frames_decide_what_is_lossless() {
    let options = "-cpu-used 8 -aq-mode 1 -lag-in-frames 10 -frames:v 20 -b:v 100k";
    let (file, trace) = encoded("libaom-av1", options, "ivf");
    let mut samples: Vec<Vec<u8>> = samples_of_ivf(&file).into_iter().map(<[u8]>::to_vec).collect();
    for (sample, packet) in samples.iter_mut().zip(trace.split("] Packet: ").skip(1)) {
        let places = traced_by(packet).filter_map(|line| {
            let (at, rest) = line.trim().split_once(' ')?;
            rest.trim_start().starts_with("base_q_idx").then(|| at.parse::<usize>().unwrap())
        });
        for (at, (_, unit)) in places.zip(units(sample).into_iter().filter(|(kind, _)| *kind == FRAME)) {
            for bit in (8 * unit.start + at..).take(8) {
                sample[bit / 8] &= !(0x80 >> (bit % 8));
            }
        }
    }
    let mut features = BTreeSet::new();
    let (same, refused) = agree(&samples, &file[..32], &mut features);
    assert!(features.contains("lossless") && features.contains("old segments"));
    assert!(same >= 8 && refused == 0, "{same} {refused}");
}

/// Headers with random bits hold what no encoder at hand writes: sizes of other frames, references
/// by short signalling, global motion. Where both readers accept them, they agree.
#[test]
fn damaged_headers_end_where_ffmpeg_says() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut features = BTreeSet::new();
    let mut same = 0;
    let mut refused = 0;
    for (encoder, options) in [
        ("libaom-av1", "-cpu-used 8 -lag-in-frames 19 -b:v 60k -frames:v 20"),
        ("libaom-av1", "-cpu-used 8 -usage realtime -frames:v 8 -error-resilience default"),
        ("libsvtav1", "-preset 8 -g 25 -frames:v 12 -svtav1-params resize-mode=2"),
        ("libsvtav1", "-preset 8 -g 25 -frames:v 12 -svtav1-params superres-mode=2:film-grain=20"),
    ] {
        let (file, _) = encoded(encoder, options, "ivf");
        let samples = samples_of_ivf(&file);
        let mut damaged = Damaged { samples: Vec::new(), state: seed };
        (0..500).for_each(|_| damaged.add(&samples));
        let (of_stream, refusals) = agree(&damaged.samples, &file[..32], &mut features);
        same += of_stream;
        refused += refusals;
    }
    println!("{same} frames are the same, {refused} are refused");
    assert!(same > 2000 && refused < 300, "{same} {refused}");
    // Other seeds may miss one.
    for feature in ["found_ref", "frame_refs_short_signaling", "is_global", "is_rot_zoom", "is_translation"] {
        assert!(seed != 1 || features.contains(feature), "{feature}");
    }
}
