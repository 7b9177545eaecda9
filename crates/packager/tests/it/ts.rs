//! TS playlists from the outside: the segments of a file's playlists hold every packet of the file.

use crate::{
    media::{Source, avc_aac, fragmented, packet_data, probed, shared, with_mfra, with_sidx, write},
    player::{multivariant, play},
};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::{
    probe::{Packet, Stream},
    recipe::make,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const TARGET: Duration = Duration::from_secs(2);

/// Returns a time as TS states it: in 33 bits of 90 kHz, ten seconds later than in the source.
fn in_90khz(time: i64, scale: u32) -> i64 {
    wrapped((time * 90_000).div_euclid(i64::from(scale)) + 900_000)
}

fn wrapped(time: i64) -> i64 {
    time.rem_euclid(1 << 33)
}

/// Returns the NAL units of a sample whose lengths have `size` bytes, without delimiters and
/// parameter sets.
fn nals(sample: &[u8], size: usize) -> Vec<&[u8]> {
    let mut rest = sample;
    let mut out = Vec::new();
    while rest.len() >= size {
        let len = rest[..size].iter().fold(0, |n, &b| n << 8 | usize::from(b));
        let (nal, after) = rest[size..].split_at(len.min(rest.len() - size));
        out.push(nal);
        rest = after;
    }
    out.retain(|nal| nal.first().is_some_and(|header| !matches!(header & 0x1F, 7..=9)));
    out
}

/// Returns the same NAL units of a byte stream. Zeros at the end of a NAL unit do not belong to it.
fn nals_of_stream(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> =
        stream.windows(3).enumerate().filter(|(_, w)| *w == [0, 0, 1]).map(|(at, _)| at + 3).collect();
    let ends = starts.iter().skip(1).map(|next| next - 3).chain([stream.len()]);
    let trimmed = |nal: &'_ [u8]| nal.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    let mut out: Vec<&[u8]> = starts.iter().zip(ends).map(|(&start, end)| &stream[start..end]).collect();
    out.iter_mut().for_each(|nal| *nal = &nal[..trimmed(nal)]);
    out.retain(|nal| nal.first().is_some_and(|header| !matches!(header & 0x1F, 7..=9)));
    out
}

/// Properties of a source that the comparison depends on.
pub(crate) struct Expect {
    /// Size of its NAL lengths in bytes.
    pub(crate) length_size: usize,
    /// Ticks of 90 kHz by which frames within a PES packet may differ, since ffprobe counts them
    /// from the first.
    pub(crate) tolerance: i64,
    /// Size of the ADTS header of each audio frame; 0 for none.
    pub(crate) header: usize,
}

pub(crate) const AAC: Expect = Expect { length_size: 4, tolerance: 0, header: 7 };

fn check_video(what: &str, expect: &Expect, object: &[u8], want: &Stream, got: &Stream, bytes: &[Vec<u8>]) {
    assert_eq!(got.packets.len(), want.packets.len(), "{what}");
    for (n, ((got, want_packet), bytes)) in got.packets.iter().zip(&want.packets).zip(bytes).enumerate() {
        let time = |t| in_90khz(t, want.timescale);
        assert_eq!(
            (wrapped(got.dts), wrapped(got.pts)),
            (time(want_packet.dts), time(want_packet.pts)),
            "{what}: packet {n}"
        );
        let sample = slice(object, want_packet);
        assert_eq!(nals_of_stream(bytes), nals(sample, expect.length_size), "{what}: packet {n}");
    }
}

fn slice<'a>(object: &'a [u8], packet: &Packet) -> &'a [u8] {
    let at = usize::try_from(packet.pos.unwrap()).unwrap();
    &object[at..at + usize::try_from(packet.size).unwrap()]
}

/// Returns the warnings of ffmpeg when it decodes a file.
fn decode(file: &Path) -> String {
    let decoded = Command::new("ffmpeg")
        .args(["-v", "warning", "-nostdin", "-i"])
        .arg(file)
        .args(["-f", "null", "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&decoded.stderr).into_owned()
}

/// Plays the first variant and compares its packets with those of the file.
fn assert_file_packets(what: &str, file: &Path, expect: &Expect) {
    let whole = assert_source_packets(what, &Source::files(&[file]), expect);
    // Decoders print no warning either, if they print none for the source, and no continuity
    // counter is skipped.
    let out = write(&format!("{what}.ts"), &whole);
    if decode(file).is_empty() {
        assert_eq!(decode(&out), "", "{what}");
    }
    let debug = Command::new("ffprobe").args(["-v", "debug", "-show_packets"]).arg(&out).output().unwrap();
    let log = String::from_utf8_lossy(&debug.stderr);
    assert!(!log.contains("Continuity check failed"), "{what}");
    fs::remove_file(out).unwrap();
}

/// Compares the packets of the first variant with those of any source, and returns the variant's
/// segments.
pub(crate) fn assert_source_packets(what: &str, source: &Source, expect: &Expect) -> Vec<u8> {
    let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
    let (_, playlist) = multivariant(&mut origin, "");
    let uri = playlist.variants[0].uri.clone();
    assert_played_packets(what, source, &mut origin, &uri, expect)
}

/// Compares the packets of a media playlist with those of any source, and returns its segments.
pub(crate) fn assert_played_packets(
    what: &str,
    source: &Source,
    origin: &mut Origin,
    uri: &str,
    expect: &Expect,
) -> Vec<u8> {
    let played = play(origin, uri);
    assert!(played.init.is_none(), "{what} is not TS");
    let whole = played.whole();
    let probed = probed(&format!("{what}.ts"), &whole);
    assert_eq!(probed.warnings, "", "{what}");
    for (index, got) in probed.streams.iter().enumerate() {
        let (file, _, want) = source.streams().find(|(.., s)| s.kind == got.kind).unwrap();
        let what = format!("{what} {}", got.kind);
        let bytes = packet_data(&format!("{what}.ts"), &whole, index, &got.packets);
        if got.kind == "video" {
            check_video(&what, expect, file, want, got, &bytes);
            continue;
        }
        // Packets that an edit list hides may be left out.
        let hidden = want.packets.len() - got.packets.len();
        assert!(want.packets[..hidden].iter().all(|p| p.pts + p.duration <= 0), "{what}");
        for (n, ((got, packet), bytes)) in
            got.packets.iter().zip(&want.packets[hidden..]).zip(&*bytes).enumerate()
        {
            let pts = in_90khz(packet.pts, want.timescale);
            let difference = (wrapped(got.pts) - pts).abs();
            assert!(difference <= expect.tolerance, "{what}: packet {n} at {} for {pts}", got.pts);
            assert_eq!(&bytes[expect.header..], slice(file, packet), "{what}: packet {n}");
        }
    }
    whole
}

#[test]
fn avc_and_aac_keep_their_packets() {
    assert_file_packets("ts-avc-aac", &avc_aac(), &AAC);
}

#[test]
fn fragments_keep_their_packets() {
    assert_file_packets("ts-fragmented", &fragmented(), &AAC);
    assert_file_packets("ts-sidx", &with_sidx(), &AAC);
    assert_file_packets("ts-mfra", &with_mfra(), &Expect { tolerance: 4, ..AAC });
}

#[test]
fn rates_that_do_not_divide_90_khz_keep_their_packets() {
    let file = make(
        "ts-odd-rates",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=24000/1001:duration=9 \
         -f lavfi -i sine=frequency=440:sample_rate=44100:duration=9 -c:v libx264 -preset veryfast \
         -bf 3 -g 24 \
         -keyint_min 24 -sc_threshold 0 -pix_fmt yuv420p -video_track_timescale 24000 -c:a aac -b:a 64k",
    );
    assert_file_packets("ts-odd-rates", &file, &Expect { tolerance: 4, ..AAC });
}

#[test]
fn dolby_and_mp3_keep_their_packets() {
    for (codec, options) in
        [("ac3", "ac3 -b:a 192k"), ("eac3", "eac3 -b:a 192k"), ("mp3", "libmp3lame -b:a 96k")]
    {
        let file = make(
            &format!("ts-{codec}"),
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 \
                 -f lavfi -i sine=frequency=440:sample_rate=48000:duration=6 \
                 -c:v libx264 -preset veryfast -g 50 \
                 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a {options} -ac 2"
            ),
        );
        assert_file_packets(&format!("ts-{codec}"), &file, &Expect { header: 0, ..AAC });
    }
}

/// No channelConfiguration names these six channels, so each frame carries a program config
/// element.
#[test]
fn hexagonal_channels_keep_their_packets() {
    let file = make(
        "ts-hexagon",
        "mp4",
        "-f lavfi -i sine=duration=6:sample_rate=48000,aformat=channel_layouts=hexagonal -c:a aac -b:a 192k",
    );
    assert_file_packets("ts-hexagon", &file, &Expect { header: 7 + 9, ..AAC });
}

/// Files from other writers.
#[test]
fn shared_media_keep_their_packets() {
    let tolerant = Expect { tolerance: 4, ..AAC };
    for (name, expect) in [
        ("androidx/sample.mp4", &tolerant),
        ("androidx/sample_2_byte_NAL_length.mp4", &Expect { length_size: 2, ..tolerant }),
        ("androidx/sample_portrait.mp4", &tolerant),
        ("androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4", &tolerant),
        ("androidx/edit_list_positive_shift.mp4", &tolerant),
        ("androidx/sample_with_invalid_nalu.mp4", &tolerant),
        ("mp4ff/bbb_prog_10s.mp4", &tolerant),
        ("mp4ff/prog_8s.mp4", &tolerant),
    ] {
        if let Some(file) = shared(name) {
            assert_file_packets(&name.replace('/', "-"), &file, expect);
        }
    }
}
