//! Slice headers, compared with those that ffmpeg reads.

use bytes::Bytes;
use latemux_isobmff::{
    bits::without_emulation_prevention,
    codec::{Avc, Hevc, SliceReader, Vp9Frame, Vp9Frames},
};
use std::{io::Write as _, process::Command};

/// Encodes noise that moves, and returns the stream with start codes, and what ffmpeg says of it.
pub(crate) fn encoded(encoder: &str, options: &str, format: &str) -> (Vec<u8>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(format!("stream.{format}"));
    let filter = "testsrc2=size=320x192:rate=25:duration=2,noise=alls=20:allf=t,fade=in:0:20";
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-nostdin", "-f", "lavfi", "-i", filter, "-c:v", encoder]);
    ffmpeg.args(options.split_whitespace()).args(["-f", format]).arg(&file);
    let out = ffmpeg.output().unwrap();
    assert!(out.status.success(), "{options}: {}", String::from_utf8_lossy(&out.stderr));
    let stream = std::fs::read(&file).unwrap();
    let trace = trace_of(&stream, format);
    (stream, trace)
}

/// Returns what ffmpeg says of a stream's headers.
pub(crate) fn trace_of(stream: &[u8], format: &str) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(stream).unwrap();
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "verbose", "-nostdin", "-f", format, "-i"]).arg(file.path());
    let traced = ffmpeg.args(["-c", "copy", "-bsf:v", "trace_headers", "-f", "null", "-"]).output().unwrap();
    String::from_utf8_lossy(&traced.stderr).into_owned()
}

/// Returns the NAL units of a stream with start codes.
fn nal_units(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> =
        (0..stream.len().saturating_sub(3)).filter(|&at| stream[at..at + 3] == [0, 0, 1]).collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    let unit = |(&start, end): (&usize, usize)| {
        let unit = &stream[start + 3..end];
        let zeros = unit.iter().rev().take_while(|&&byte| byte == 0).count();
        &unit[..unit.len() - zeros]
    };
    starts.iter().zip(ends).map(unit).collect()
}

/// Returns the lines of the trace of headers. Progress may stand before one.
pub(crate) fn traced_by(trace: &str) -> impl Iterator<Item = &str> {
    let lines = trace.lines().filter_map(|line| line.split_once("[trace_headers"));
    lines.filter_map(|(_, line)| Some(line.split_once("] ")?.1))
}

/// Returns the bits of each slice header that ffmpeg traced, in the order of the stream.
fn traced(trace: &str, title: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_slice = false;
    for line in traced_by(trace) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first().and_then(|word| word.parse::<usize>().ok()) {
            Some(at) if is_slice => {
                let bits = words.iter().rev().nth(2).unwrap();
                if let Some(last) = found.last_mut() {
                    *last = at + bits.len();
                }
            }
            Some(_) => {}
            None => {
                is_slice = line.trim() == title;
                if is_slice {
                    found.push(0);
                }
            }
        }
    }
    found
}

fn compare(mut reader: SliceReader, stream: &[u8], expected: &[usize], what: &str) {
    let mut headers = Vec::new();
    for unit in nal_units(stream) {
        if let Some(len) = reader.header_len(unit).unwrap() {
            headers.push(without_emulation_prevention(&unit[..len]).len());
        }
    }
    let expected: Vec<usize> = expected.iter().map(|bits| bits.div_ceil(8)).collect();
    assert!(expected.len() >= 40, "{what}: {} slices", expected.len());
    assert_eq!(headers, expected, "{what}");
}

#[test]
fn headers_of_avc_are_those_of_ffmpeg() {
    for options in [
        "-preset veryfast",
        "-preset slow -bf 3 -refs 5 -x264-params weightp=2:weightb=1:b-pyramid=normal",
        "-preset medium -x264-params slices=4:cabac=0",
        "-preset medium -x264-params interlaced=1:bff=1:slices=2",
        "-preset medium -x264-params fake-interlaced=1",
        "-preset medium -pix_fmt yuv444p -x264-params no-deblock=1:cqm=jvt",
        "-profile:v baseline -pix_fmt yuv420p -x264-params keyint=10:ref=3",
        "-preset placebo -pix_fmt yuv420p -x264-params aud=1:intra-refresh=1:keyint=20",
    ] {
        let (stream, trace) = encoded("libx264", options, "h264");
        let config = Avc {
            nal_length_size: 4,
            profile: [0; 3],
            sps: Vec::<Bytes>::new().into(),
            pps: Vec::<Bytes>::new().into(),
            sps_ext: Vec::<Bytes>::new().into(),
            has_layers: false,
        };
        compare(SliceReader::avc(&config), &stream, &traced(&trace, "Slice Header"), options);
    }
}

#[test]
fn headers_of_hevc_are_those_of_ffmpeg() {
    for options in [
        "-preset veryfast -x265-params log-level=none",
        "-preset slow -x265-params log-level=none:bframes=4:ref=5:weightp=1:weightb=1:b-pyramid=1",
        "-preset medium -x265-params log-level=none:slices=3:wpp=1:keyint=15",
        "-preset medium -x265-params log-level=none:wpp=0:sao=0:deblock=1,1",
        "-preset medium -pix_fmt yuv444p10le -x265-params log-level=none:cbqpoffs=3:no-deblock=1:temporal-layers=1",
        "-preset medium -x265-params log-level=none:interlace=tff:open-gop=1:keyint=12:strong-intra-smoothing=0",
        "-preset medium -x265-params log-level=none:tskip=1:amp=1:rect=1:opt-ref-list-length-pps=1:opt-qp-pps=1",
    ] {
        let (stream, trace) = encoded("libx265", options, "hevc");
        let config = Hevc { nal_length_size: 4, nal_units: Vec::<Bytes>::new().into() };
        compare(SliceReader::hevc(&config), &stream, &traced(&trace, "Slice Segment Header"), options);
    }
}

/// Whatever the bits, a header is inside its NAL unit, or refused.
#[test]
fn damaged_headers_cause_no_panic() {
    let (stream, _) = encoded("libx264", "-preset veryfast -x264-params slices=2", "h264");
    let mut state = 1_u32;
    for round in 0..200 {
        let config = Avc {
            nal_length_size: 4,
            profile: [0; 3],
            sps: Vec::<Bytes>::new().into(),
            pps: Vec::<Bytes>::new().into(),
            sps_ext: Vec::<Bytes>::new().into(),
            has_layers: false,
        };
        let mut reader = SliceReader::avc(&config);
        for unit in nal_units(&stream).into_iter().take(12) {
            let mut unit = unit.to_vec();
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state as usize % unit.len().min(48);
            unit[at] ^= 1 << (round % 8);
            if let Ok(Some(len)) = reader.header_len(&unit) {
                assert!(len <= unit.len());
            }
        }
    }
}

/// Returns the samples of an IVF file.
pub(crate) fn samples_of_ivf(file: &[u8]) -> Vec<&[u8]> {
    let mut rest = &file[32..];
    let mut samples = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<12>() {
        let size = u32::from_le_bytes(*head.first_chunk().unwrap()) as usize;
        samples.push(&after[..size]);
        rest = &after[size..];
    }
    samples
}

/// Returns the bytes of each uncompressed header that ffmpeg traced. Its last field is the size of
/// the compressed header.
fn traced_vp9(trace: &str) -> Vec<usize> {
    let lines = trace.lines().filter(|line| line.contains(" header_size_in_bytes "));
    let end = |line: &str| {
        let at = line.split_once("] ").unwrap().1.split_whitespace().next().unwrap();
        (at.parse::<usize>().unwrap() + 16).div_ceil(8)
    };
    lines.map(end).collect()
}

#[test]
fn headers_of_vp9_are_those_of_ffmpeg() {
    let mut superframes = 0;
    for options in [
        "-deadline realtime -cpu-used 8 -b:v 200k",
        "-deadline good -cpu-used 5 -auto-alt-ref 1 -lag-in-frames 12 -arnr-maxframes 5 -b:v 200k",
        "-deadline realtime -cpu-used 8 -b:v 200k -error-resilient 1 -frame-parallel 1",
        "-deadline realtime -cpu-used 5 -b:v 200k -aq-mode 3 -g 10",
        "-deadline good -cpu-used 5 -b:v 200k -aq-mode 2 -sharpness 3",
        "-deadline realtime -cpu-used 8 -lossless 1",
        "-deadline realtime -cpu-used 8 -pix_fmt yuv444p -b:v 200k",
        "-deadline realtime -cpu-used 8 -pix_fmt yuv420p10le -profile:v 2 -b:v 200k",
        "-deadline realtime -cpu-used 8 -b:v 200k -s 1920x256 -tile-columns 2 -tile-rows 1",
    ] {
        let (file, trace) = encoded("libvpx-vp9", options, "ivf");
        let mut reader = Vp9Frames::default();
        let mut headers = Vec::new();
        for sample in samples_of_ivf(&file) {
            let mut frames = Vec::new();
            reader.read(sample, &mut frames).unwrap();
            superframes += usize::from(frames.len() > 1);
            let bytes: usize = frames.iter().map(|frame| frame.header + frame.data).sum();
            assert!(bytes <= sample.len());
            headers.extend(frames.iter().filter(|frame| frame.data > 0).map(|frame| frame.header));
        }
        assert!(headers.len() >= 45, "{options}: {}", headers.len());
        assert_eq!(headers, traced_vp9(&trace), "{options}");
    }
    assert!(superframes > 0);
}

/// Frames that take their size from others are refused as long as these are unknown.
#[test]
fn frames_of_vp9_need_those_before() {
    let (file, _) = encoded("libvpx-vp9", "-deadline realtime -cpu-used 8 -b:v 200k -g 999", "ivf");
    let samples = samples_of_ivf(&file);
    let mut frames: Vec<Vp9Frame> = Vec::new();
    assert!(Vp9Frames::default().read(samples[1], &mut frames).is_err());
    let mut reader = Vp9Frames::default();
    reader.read(samples[0], &mut frames).unwrap();
    reader.read(samples[1], &mut frames).unwrap();
    let mut state = 1_u32;
    for round in 0..2000 {
        let mut sample = samples[round % 8].to_vec();
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = state as usize % sample.len().min(48);
        sample[at] ^= 1 << (round % 8);
        sample.truncate(sample.len() - round % 3);
        frames.clear();
        if reader.clone().read(&sample, &mut frames).is_ok() {
            let bytes: usize = frames.iter().map(|frame| frame.header + frame.data).sum();
            assert!(bytes <= sample.len());
        }
    }
}
