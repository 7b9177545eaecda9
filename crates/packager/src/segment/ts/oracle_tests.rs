//! Other demultiplexers read the segments: ffprobe and `mpeg2ts-reader`. ffmpeg makes the sources
//! and describes their samples.

use super::{
    OwnedTrack, TsPlan, annexb,
    demux_tests::Demuxed,
    plan_owned, reader_tests as reader,
    stream::{Coding, Stream},
    tests::{adts, run},
};
use bytes::Bytes;
use latemux_index::Sample;
use latemux_isobmff::{Timescale, codec::Avc};
use latemux_testmedia::{probe, recipe};
use std::{fs, path::Path};

/// A source with its samples, cut into segments at the key frames of video, or every 2 s.
struct Source {
    bytes: Vec<u8>,
    tracks: Vec<(Stream, Vec<Sample>)>,
}

impl Source {
    /// Opens a source. `audio` is the coding of its audio.
    fn open(file: &Path, audio: &Coding) -> Self {
        let bytes = fs::read(file).unwrap();
        let tracks = probe::probe(file, &[])
            .streams
            .iter()
            .map(|stream| {
                let video = stream.kind == "video";
                let samples = stream.packets.iter().map(|packet| Sample {
                    offset: packet.pos.unwrap(),
                    size: u32::try_from(packet.size).unwrap(),
                    decode_time: packet.dts,
                    duration: u32::try_from(packet.duration).unwrap(),
                    composition_offset: i32::try_from(packet.pts - packet.dts).unwrap(),
                    sync: packet.key,
                });
                let stream = Stream {
                    coding: if video { avc(&bytes) } else { audio.clone() },
                    timescale: Timescale::new(stream.timescale).unwrap(),
                    media_time: 0,
                    decode_lead: 0,
                    sample_rate: if video { 0 } else { stream.timescale },
                    frame_length: match *audio {
                        _ if video => 0,
                        Coding::Aac(_) => 1024,
                        Coding::Mp3 => 1152,
                        _ => 1536,
                    },
                    language: None,
                    encryption: None,
                };
                (stream, samples.collect())
            })
            .collect();
        Self { bytes, tracks }
    }

    fn track(&self, video: bool) -> &(Stream, Vec<Sample>) {
        self.tracks.iter().find(|(stream, _)| stream.is_video() == video).unwrap()
    }

    /// Returns all segments.
    fn segments(&self) -> Vec<Vec<u8>> {
        let starts: Vec<f64> = match self.tracks.iter().find(|(stream, _)| stream.is_video()) {
            Some((stream, samples)) => {
                samples.iter().filter(|sample| sample.sync).map(|s| shown(stream, s)).collect()
            }
            None => (0..6).map(|n| f64::from(n) * 2.0).collect(),
        };
        let mut segments = Vec::new();
        for (number, start) in starts.iter().enumerate() {
            let end = starts.get(number + 1).copied().unwrap_or(f64::MAX);
            let tracks = self.tracks.iter().map(|(stream, samples)| {
                // Video is cut by decoding, from key frame to key frame; audio is cut by
                // presentation time.
                let at = |time: f64| {
                    samples
                        .iter()
                        .position(|s| s.sync && shown(stream, s) >= time - 1e-9)
                        .unwrap_or(samples.len())
                };
                let range = if number == 0 { 0 } else { at(*start) }..at(end);
                OwnedTrack { stream: stream.clone(), object: 0, samples: samples[range].to_vec(), clocks: 0 }
            });
            let plan = plan_owned(tracks.collect(), u32::try_from(number).unwrap(), None);
            let TsPlan::Ready(segment) = plan else { panic!("four-byte lengths") };
            segments.push(run(segment, &[&self.bytes], &[4096, 1, 65_536]));
        }
        segments
    }

    fn bytes_of(&self, sample: &Sample) -> &[u8] {
        let at = usize::try_from(sample.offset).unwrap();
        &self.bytes[at..at + sample.size as usize]
    }
}

#[expect(clippy::cast_precision_loss, reason = "times of seconds")]
fn shown(stream: &Stream, sample: &Sample) -> f64 {
    (sample.decode_time + i64::from(sample.composition_offset)) as f64 / f64::from(stream.timescale.get())
}

/// Reads the `avcC`, wherever it is in the file.
fn avc(file: &[u8]) -> Coding {
    let at = file.windows(4).position(|w| w == b"avcC").unwrap() + 4;
    let mut rest = &file[at + 5..];
    let mut sets = |mask: u8| {
        let count = rest[0] & mask;
        rest = &rest[1..];
        let mut list = Vec::new();
        for _ in 0..count {
            let len = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            list.push(Bytes::copy_from_slice(&rest[2..2 + len]));
            rest = &rest[2 + len..];
        }
        list
    };
    let sps = sets(0x1F);
    let pps = sets(0xFF);
    let avc = Avc {
        nal_length_size: 4,
        profile: [0; 3],
        sps: sps.into(),
        pps: pps.into(),
        sps_ext: Box::default(),
        has_layers: false,
    };
    Coding::Avc { parameter_sets: annexb::parameter_sets(&avc), length_size: 4 }
}

fn aac_coding(rate: u32) -> Coding {
    Coding::Aac(adts(rate))
}

fn in_90khz(time: i64, scale: u32) -> i64 {
    (time * 90_000).div_euclid(i64::from(scale)) + 900_000
}

/// Returns the NAL units of a byte stream with their lengths, without delimiters and parameter
/// sets.
fn with_lengths(stream: &[u8]) -> Vec<u8> {
    let starts: Vec<usize> =
        stream.windows(4).enumerate().filter(|(_, w)| *w == [0, 0, 0, 1]).map(|(at, _)| at + 4).collect();
    let mut out = Vec::new();
    for (n, &start) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(stream.len(), |next| next - 4);
        let nal = &stream[start..end];
        if !matches!(nal[0] & 0x1F, 7..=9) {
            out.extend_from_slice(&u32::try_from(nal.len()).unwrap().to_be_bytes());
            out.extend_from_slice(nal);
        }
    }
    out
}

/// Checks that the segments hold every packet of the source in order, with its times and bytes, and
/// that the readers report no errors.
fn check(name: &str, source: &Source) {
    let segments = source.segments();
    let whole = segments.concat();
    let file = recipe::folder().join(format!("{name}-{}.ts", std::process::id()));
    fs::write(&file, &whole).unwrap();
    let probed = probe::probe(&file, &[]);
    assert_eq!(probed.warnings, "");
    assert_eq!(probed.streams.len(), source.tracks.len());
    for (index, got) in probed.streams.iter().enumerate() {
        let (stream, samples) = source.track(got.kind == "video");
        let data = probe::data(&file, index, &got.packets);
        assert_eq!(got.packets.len(), samples.len(), "{name} {}", got.kind);
        for (n, ((packet, data), sample)) in got.packets.iter().zip(&data).zip(samples).enumerate() {
            let what = format!("{name} {} packet {n}", got.kind);
            let scale = stream.timescale.get();
            let dts = in_90khz(sample.decode_time, scale);
            let pts = in_90khz(sample.decode_time + i64::from(sample.composition_offset), scale);
            if stream.is_video() {
                assert_eq!((packet.dts, packet.pts), (dts, pts), "{what}");
                assert_eq!(with_lengths(data), source.bytes_of(sample), "{what}");
                assert_eq!(packet.key, sample.sync, "{what}");
            } else {
                // Only the first frame of a PES packet has a time stamp. ffprobe counts on from it
                // in whole ticks.
                assert!(
                    (packet.pts - pts).abs() <= if 90_000 % scale == 0 || scale == 48_000 { 0 } else { 4 },
                    "{what}: {} {pts}",
                    packet.pts
                );
                let header = if matches!(stream.coding, Coding::Aac(_)) { 7 } else { 0 };
                assert_eq!(&data[header..], source.bytes_of(sample), "{what}");
            }
        }
    }
    fs::remove_file(&file).unwrap();
    check_stream(name, &whole, &segments);
}

fn check_stream(name: &str, whole: &[u8], segments: &[Vec<u8>]) {
    let demuxed = Demuxed::of(whole);
    assert_eq!(demuxed.jumps, 0, "{name}");
    assert_eq!((demuxed.pat, demuxed.pmt.len()), (segments.len(), segments.len()));
    assert!(demuxed.longest_pcr_gap().unwrap() <= 9000, "{name}");
    assert_eq!(demuxed.late, 0, "{name}");
    for segment in segments {
        let alone = Demuxed::of(segment);
        assert_eq!((alone.pat, alone.pmt.len(), alone.jumps), (1, 1, 0));
    }
    let read = reader::read(whole);
    assert_eq!(read.continuity_errors, 0, "{name}");
    let pes: usize = demuxed.pes.values().map(Vec::len).sum();
    assert_eq!(read.pes, pes, "{name}");
}

/// AVC with B-frames and AAC: `-bf 2` gives decode times before 0 and composition offsets.
#[test]
fn avc_with_aac_is_read_back() {
    let file = recipe::avc_aac("ts-avc-aac", "");
    check("avc-aac", &Source::open(&file, &aac_coding(48_000)));
}

/// NTSC rates and 44.1 kHz do not divide 90 kHz.
#[test]
fn rates_that_do_not_divide_90_khz_are_read_back() {
    let args = format!(
        "-f lavfi -i testsrc2=size=192x108:rate=30000/1001:duration=10 \
         -f lavfi -i sine=frequency=440:sample_rate=44100:duration=10 {} -bf 3 -g 60 -keyint_min 60 \
         -video_track_timescale 30000 -c:a aac -b:a 64k -ac 2",
        recipe::AVC
    );
    let file = recipe::make("ts-odd", "mp4", &args);
    check("odd", &Source::open(&file, &aac_coding(44_100)));
}

/// Sources with their own delimiters: the muxer must not add another.
#[test]
fn delimiters_of_the_source_are_not_doubled() {
    let args = format!(
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 {} -bsf:v h264_metadata=aud=insert",
        recipe::AVC
    );
    let file = recipe::make("ts-own-aud", "mp4", &args);
    let source = Source::open(&file, &aac_coding(48_000));
    let demuxed = Demuxed::of(&source.segments().concat());
    for (n, pes) in demuxed.pes[&super::VIDEO_PID].iter().enumerate() {
        let (_, samples) = source.track(true);
        let delimiters = pes.data.windows(5).filter(|w| matches!(w, [0, 0, 0, 1, 0x09])).count();
        assert_eq!(delimiters, 1, "access unit {n}");
        let sets = if samples[n].sync { parameter_bytes(&source) } else { 0 };
        assert_eq!(pes.data.len(), samples[n].size as usize + sets);
    }
    let read = reader::read(&source.segments().concat());
    assert_eq!(read.continuity_errors, 0);
}

fn parameter_bytes(source: &Source) -> usize {
    match &source.track(true).0.coding {
        Coding::Avc { parameter_sets, .. } => parameter_sets.len(),
        _ => 0,
    }
}

#[test]
fn ac3_with_video_is_read_back() {
    let file = recipe::coded("ts-ac3", &format!("{} -c:a ac3 -b:a 192k -ac 2", recipe::AVC));
    check("ac3", &Source::open(&file, &Coding::Ac3));
}

#[test]
fn eac3_with_video_is_read_back() {
    let file = recipe::coded("ts-eac3", &format!("{} -c:a eac3 -b:a 192k -ac 2", recipe::AVC));
    check("eac3", &Source::open(&file, &Coding::Eac3));
}

#[test]
fn mp3_with_video_is_read_back() {
    let file = recipe::coded("ts-mp3", &format!("{} -c:a libmp3lame -b:a 128k -ac 2", recipe::AVC));
    check("mp3", &Source::open(&file, &Coding::Mp3));
}

#[test]
fn audio_alone_is_read_back() {
    let file = recipe::aac("ts-aac", "eng", "");
    check("aac", &Source::open(&file, &aac_coding(48_000)));
}

/// Five pictures a second: PCR-only packets fill the time between them.
#[test]
fn slow_video_is_read_back() {
    let args = "-f lavfi -i testsrc2=size=192x108:rate=5:duration=12 -c:v libx264 -preset ultrafast -bf 0 -g 10 \
                -keyint_min 10 -sc_threshold 0 -pix_fmt yuv420p";
    let file = recipe::make("ts-slow", "mp4", args);
    check("slow", &Source::open(&file, &aac_coding(48_000)));
}

/// The cost of padding in a 1 Mbit/s title with segments of 4 s, for one PID.
#[test]
fn padding_is_less_than_half_a_percent() {
    let video: Vec<Sample> = (0..100_u32)
        .map(|n| Sample {
            offset: 0,
            size: if n == 0 { 60_000 } else { 4100 + n * 17 % 997 },
            decode_time: i64::from(n) * 3600,
            duration: 3600,
            composition_offset: 0,
            sync: n == 0,
        })
        .collect();
    let coding = Coding::Avc { parameter_sets: Bytes::from_static(&[0; 40]), length_size: 4 };
    let stream = Stream {
        coding,
        timescale: Timescale::MPEG,
        media_time: 0,
        decode_lead: 0,
        sample_rate: 0,
        frame_length: 0,
        language: None,
        encryption: None,
    };
    let packets = super::layout::packets(&stream, video.iter().copied());
    // The padding is 7.5 packets on average.
    assert!(7.5 / packets as f64 <= 0.005, "{packets}");
}
