//! Media that once did not play, or played wrong: in every protocol that carries a track, every
//! packet of the source arrives at its time. `edits` tests edit lists, and `uneven` titles whose
//! tracks are not of one length, in the same way.

use crate::{
    cmaf, hds, hls,
    media::{
        Source, avc_aac, avc_open, changing_rates, fragmented, hevc_open, lone_offset, recorded,
        starting_with_leading_pictures,
    },
    smooth::{self, Rate},
    ts,
};
use latemux_testmedia::{
    quicktime::{Colr, QuickTime, quarter_turn, quicktime},
    recipe::make,
};

/// Checks a title of AVC in all protocols. Smooth Streaming and HDS present it as `from_zero`. Each
/// frame of audio has a `header` of this many bytes in TS.
fn check_avc(what: &str, source: &Source, from_zero: &Source, rate: Rate, header: usize) {
    let what = format!("once-{what}");
    cmaf::assert_source_packets(&what, source);
    hls::assert_equals_dash(&source.objects);
    ts::assert_source_packets(&what, source, &ts::Expect { header, ..ts::AAC });
    smooth::assert_source_packets(&what, from_zero, rate);
    hds::assert_source_packets(&what, from_zero, rate == Rate::Constant);
}

#[test]
fn files_of_cameras_keep_their_packets() {
    let source = Source::files(&[avc_aac()]);
    for (audio_version, colr) in [(1, Colr::Nclc), (2, Colr::ShortNclx), (0, Colr::AsIs)] {
        let matrix = Some(quarter_turn(180));
        let plain = QuickTime::default();
        let options = QuickTime { audio_version, colr, matrix, terminator: true, extras: true, ..plain };
        let stored = source.stored_as(quicktime(&source.objects[0], options));
        check_avc("camera", &stored, &stored, Rate::Constant, 7);
    }
}

/// The configuration of AC-3 was looked for in the sample entry only.
#[test]
fn audio_configured_in_wave_keeps_its_packets() {
    for (coding, is_smooth) in [("ac3", false), ("eac3", true)] {
        let file = make(
            "once-wave",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 \
                 -f lavfi -i sine=frequency=440:sample_rate=48000:duration=6.016 -c:v libx264 -preset veryfast \
                 -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a {coding} -ac 2 -b:a 96k"
            ),
        );
        let stored = make("once-wave", "mov", &format!("-i {} -c copy", file.display()));
        let stored = std::fs::read(stored).unwrap();
        assert!(stored.windows(4).any(|word| word == b"wave"));
        let source = Source::files(&[file]).stored_as(stored);
        cmaf::assert_source_packets("once-wave", &source);
        hls::assert_equals_dash(&source.objects);
        ts::assert_source_packets("once-wave", &source, &ts::Expect { header: 0, ..ts::AAC });
        if is_smooth {
            smooth::assert_source_packets("once-wave", &source, Rate::Constant);
        }
    }
}

#[test]
fn changing_frame_rates_keep_their_packets() {
    for (name, file) in changing_rates() {
        let source = Source::files(&[file]);
        check_avc(name, &source, &source, Rate::Variable, 0);
    }
    for ticks in [256, 1024] {
        let source = Source::files(&[lone_offset(ticks)]);
        check_avc("lone-offset", &source, &source, Rate::Variable, 0);
    }
}

#[test]
fn open_gops_keep_their_packets() {
    let avc = Source::files(&[avc_open()]);
    check_avc("open", &avc, &avc, Rate::Constant, 7);
    // HLS sends HEVC in CMAF, and HDS does not carry it.
    for (file, rate) in [(hevc_open(), Rate::Constant), (starting_with_leading_pictures(), Rate::Variable)] {
        let source = Source::files(&[file]);
        cmaf::assert_source_packets("once-open-hevc", &source);
        hls::assert_equals_dash(&source.objects);
        smooth::assert_source_packets("once-open-hevc", &source, rate);
    }
}

#[test]
fn times_since_the_epoch_keep_their_packets() {
    let from_zero = Source::files(&[fragmented()]).stored_as(recorded().to_vec());
    let mut source = from_zero.stored_as(recorded().to_vec());
    for stream in source.files.iter_mut().flat_map(|(_, streams)| streams) {
        let shift = 1_700_000_000 * i64::from(stream.timescale);
        stream.packets.iter_mut().for_each(|p| (p.dts, p.pts) = (p.dts + shift, p.pts + shift));
    }
    check_avc("recorded", &source, &from_zero, Rate::Constant, 7);
}

#[test]
fn mp3_keeps_its_packets() {
    let file = make(
        "once-mp3",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration=6 -c:v libx264 -preset veryfast -g 50 \
         -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a libmp3lame -b:a 96k",
    );
    let source = Source::files(&[file]);
    cmaf::assert_source_packets("once-mp3", &source);
    hls::assert_equals_dash(&source.objects);
    ts::assert_source_packets("once-mp3", &source, &ts::Expect { header: 0, ..ts::AAC });
    // `hds` tests MP3 by itself, because it has no sequence header there.
}
