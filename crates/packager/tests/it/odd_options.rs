//! Files made with options of ffmpeg that few files have: in every protocol that carries a track,
//! every packet of the source arrives at its time.

use crate::{
    cmaf, hds, hls,
    media::Source,
    smooth::{self, Rate},
    ts,
};
use latemux_packager::carry::{Protocol, carries};
use latemux_testmedia::{origin::Origin, recipe::make};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// A source, and what the comparison of its packets depends on.
struct Odd {
    name: &'static str,
    arguments: String,
    /// Size of the header that TS adds to each audio frame. `None` if HLS sends the title in CMAF.
    header: Option<usize>,
    /// True if all frames of a track have the same duration.
    is_regular: bool,
    /// True if ffprobe moves the times of video, so that no frame is decoded before 0.
    is_moved: bool,
    /// True if the edit list ends inside the last frames, because movie ticks are coarse. ffprobe
    /// states shorter durations for these frames, and latemux sends whole frames.
    has_coarse_end: bool,
    /// Ticks of 90 kHz by which frames in TS may differ from the source. ISO/IEC 13818-1 §2.4.3.6
    /// rounds times to these ticks, and ffprobe counts frames from the first of a PES packet.
    tolerance: i64,
    /// The start of the title in seconds. Smooth Streaming and HDS begin at 0.
    start: i64,
}

impl Odd {
    fn new(name: &'static str, arguments: String) -> Self {
        Self {
            name,
            arguments,
            header: Some(7),
            is_regular: true,
            is_moved: false,
            has_coarse_end: false,
            tolerance: 0,
            start: 0,
        }
    }

    /// Sets the header of audio frames in TS.
    fn header(self, header: usize) -> Self {
        Self { header: Some(header), ..self }
    }

    /// Marks a title that HLS sends in CMAF.
    fn cmaf_alone(self) -> Self {
        Self { header: None, ..self }
    }

    fn irregular(self) -> Self {
        Self { is_regular: false, ..self }
    }

    fn moved(self) -> Self {
        Self { is_moved: true, ..self }
    }

    fn coarse(self) -> Self {
        Self { has_coarse_end: true, ..self }
    }

    /// Marks a title whose times are not multiples of 1/90000 s.
    fn rounded(self) -> Self {
        Self { tolerance: 4, ..self }
    }

    fn late(self, start: i64) -> Self {
        Self { start, ..self }
    }

    fn source(&self) -> Source {
        let mut source = Source::files(&[make(&format!("odd-{}", self.name), "mp4", &self.arguments)]);
        for stream in source.files.iter_mut().flat_map(|(_, streams)| streams) {
            let first = stream.packets[0].clone();
            if self.is_moved && stream.kind == "video" {
                stream
                    .packets
                    .iter_mut()
                    .for_each(|p| (p.dts, p.pts) = (p.dts - first.pts, p.pts - first.pts));
            }
            if self.has_coarse_end {
                stream.packets.iter_mut().for_each(|p| p.duration = first.duration);
            }
        }
        source
    }

    /// Returns the source as protocols without late starts present it.
    fn source_from_zero(&self) -> Source {
        let mut source = self.source();
        for stream in source.files.iter_mut().flat_map(|(_, streams)| streams) {
            let start = self.start * i64::from(stream.timescale);
            stream.packets.iter_mut().for_each(|p| (p.dts, p.pts) = (p.dts - start, p.pts - start));
        }
        source
    }

    /// Returns true if a protocol carries any of the tracks.
    fn is_in(&self, protocol: Protocol) -> bool {
        let origin = Origin::of(self.source().objects, Duration::from_secs(2)).unwrap();
        origin.title.tracks().iter().any(|track| carries(protocol, origin.title.track(track)).is_ok())
    }

    fn rate(&self) -> Rate {
        if self.is_regular { Rate::Constant } else { Rate::Variable }
    }
}

/// Sound of 282 whole frames of AAC, because ffprobe adds the cut duration of a last frame.
const TONE: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=6.016";
/// Video, and 441 whole frames of AAC at 44.1 kHz.
const CD: &str = "-f lavfi -i testsrc2=size=192x108:rate=25:duration=10.24 \
                  -f lavfi -i sine=frequency=440:sample_rate=44100:duration=10.24";
/// Flags of a muxer that makes a fragment of every frame.
const EVERY_FRAME: &str = "frag_every_frame+delay_moov+default_base_moof";
const X264: &str = "-c:v libx264 -preset veryfast -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p";
const AAC: &str = "-c:a aac -b:a 64k";

fn picture(rate: &str) -> String {
    format!("-f lavfi -i testsrc2=size=192x108:rate={rate}:duration=6")
}

/// Returns AVC and AAC with these options of the muxer.
fn muxed(name: &'static str, options: &str) -> Odd {
    Odd::new(name, format!("{} {TONE} {X264} -bf 2 {AAC} {options}", picture("25")))
}

/// Returns AVC of a frame rate with these options, and AAC.
fn pictures(name: &'static str, rate: &str, options: &str) -> Odd {
    Odd::new(name, format!("{} {TONE} {X264} {AAC} {options}", picture(rate)))
}

/// Returns AVC, and audio with these options.
fn sounds(name: &'static str, options: &str) -> Odd {
    Odd::new(name, format!("{} {TONE} {X264} -bf 2 {options}", picture("25")))
}

/// Returns titles with other ways to store the boxes and fragments.
fn stored() -> Vec<Odd> {
    let copied = "-f lavfi -i sine=frequency=880:sample_rate=44100:duration=5.5";
    vec![
        muxed("hints", "-movflags +rtphint"),
        muxed(
            "tags",
            "-movflags +use_metadata_tags+write_colr -metadata title=odd -write_tmcd 1 -timecode 01:00:00:00",
        ),
        muxed("reserved", "-moov_size 60000"),
        muxed("no-names", "-empty_hdlr_name 1 -write_btrt 0"),
        muxed("separate", "-movflags frag_keyframe+delay_moov+separate_moof+omit_tfhd_offset"),
        muxed("cmaf", "-movflags cmaf+frag_keyframe+skip_trailer").moved(),
        muxed("dash", "-movflags dash+frag_keyframe+delay_moov"),
        muxed("dash-no-sidx", "-movflags dash+frag_keyframe+delay_moov+skip_sidx+skip_trailer"),
        muxed("by-size", "-frag_size 20000 -movflags delay_moov+default_base_moof"),
        muxed("by-time", "-frag_duration 700000 -movflags delay_moov+default_base_moof+global_sidx"),
        muxed("interleaved", "-frag_interleave 4 -movflags frag_keyframe+delay_moov"),
        muxed("clocks", "-write_prft pts -movflags frag_keyframe+delay_moov+default_base_moof"),
        // ffmpeg writes equal decode times for audio if it is beside video.
        Odd::new("every-frame", format!("{} {X264} -bf 2 -movflags {EVERY_FRAME}", picture("25"))),
        Odd::new(
            "every-frame-listed",
            format!("{} {X264} -bf 2 -movflags {EVERY_FRAME}+global_sidx", picture("25")),
        ),
        Odd::new("every-frame-of-sound", format!("{TONE} {AAC} -movflags {EVERY_FRAME}")),
        // Its times are in ticks of 100 ns.
        muxed("ismv", "-f ismv -movflags frag_keyframe").moved().rounded(),
        muxed("at-least", "-movflags frag_keyframe+delay_moov -min_frag_duration 3000000"),
        muxed("mov", "-f mov -write_tmcd 1 -timecode 01:00:00:00"),
        muxed("mov-fragments", "-f mov -movflags frag_keyframe+delay_moov"),
        muxed("3gp", "-f 3gp"),
        muxed("ipod", "-f ipod"),
        muxed("late-moof", "-fragment_index 900 -movflags frag_keyframe+empty_moov"),
        Odd::new(
            "languages",
            format!(
                "{} {TONE} {copied} {} -map 0 -map 1 -map 2 -map 3 {X264} -bf 2 {AAC} -s:v:0 128x72 \
                 -metadata:s:a:0 language=eng -metadata:s:a:1 language=fin -movflags +faststart",
                picture("25"),
                picture("25"),
            ),
        ),
    ]
}

/// Returns titles with other times.
fn timed() -> Vec<Odd> {
    let late = format!("{} -itsoffset 0.35 {TONE} {X264} -bf 2 {AAC}", picture("25"));
    vec![
        pictures("scale-90000", "30000/1001", "-bf 3 -video_track_timescale 90000"),
        pictures("scale-1000", "30000/1001", "-bf 2 -video_track_timescale 1000").irregular(),
        pictures("scale-600", "24000/1001", "-bf 2 -video_track_timescale 600").irregular(),
        pictures("scale-ten-million", "24000/1001", "-bf 2 -video_track_timescale 10000000").irregular(),
        pictures("fast", "240", "-bf 2"),
        muxed("fine-edits", "-movie_timescale 1000000"),
        muxed("coarse-edits", "-movie_timescale 10").coarse(),
        muxed("seconds", "-movie_timescale 1").coarse(),
        Odd::new("late-picture", format!("-itsoffset 0.6 {} {TONE} {X264} -bf 2 {AAC}", picture("25"))),
        Odd::new(
            "late-picture-fragments",
            format!(
                "-itsoffset 0.6 {} {TONE} {X264} -bf 2 {AAC} -movflags frag_keyframe+delay_moov",
                picture("25")
            ),
        ),
        pictures("jitter", "25", "-bf 0 -bsf:v setts=ts=TS+mod(N*7\\,5)*40").irregular(),
        pictures("jitter-reordered", "25", "-bf 2 -bsf:v setts=pts=PTS+mod(N\\,3):dts=DTS").irregular(),
        pictures("slow", "2", "-bf 0 -g 4 -keyint_min 4"),
        pictures("scale-11025", "25", "-bf 2 -video_track_timescale 11025"),
        muxed("no-edits", "-use_editlist 0"),
        muxed("negative-offsets", "-movflags negative_cts_offsets"),
        Odd::new("late-sound", late),
        muxed("late-start", "-output_ts_offset 10").late(10),
        muxed("late-fragments", "-output_ts_offset 10 -movflags frag_keyframe+empty_moov+default_base_moof"),
        pictures("varied", "60", "-bf 2 -vf select='not(mod(n,3))+not(mod(n,7))' -vsync vfr").irregular(),
        pictures(
            "varied-fragments",
            "60",
            "-vf select='not(mod(n,3))+not(mod(n,7))' -vsync vfr -movflags frag_keyframe+delay_moov",
        )
        .irregular(),
    ]
}

/// Returns titles with other codings.
fn coded() -> Vec<Odd> {
    let x265 = "-c:v libx265 -preset ultrafast -x265-params \
                keyint=25:min-keyint=25:scenecut=0:bframes=3:open-gop=1:log-level=error:pools=none";
    let hevc = |name, options: &str| {
        Odd::new(name, format!("{} {TONE} {x265} {AAC} {options}", picture("25"))).cmaf_alone()
    };
    let alone = |name, options: &str| Odd::new(name, format!("{} {options}", picture("25")));
    vec![
        pictures("pyramid", "25", "-bf 8 -refs 6 -b_strategy 0 -x264-params b-pyramid=normal:b-adapt=0"),
        pictures("open", "25", "-bf 3 -x264-params open-gop=1:keyint=25:min-keyint=25:b-pyramid=strict"),
        pictures("refreshed", "25", "-x264-params intra-refresh=1"),
        pictures("interlaced", "25", "-bf 2 -flags +ildct+ilme -x264-params tff=1"),
        pictures(
            "sliced",
            "25",
            "-bf 2 -x264-params slices=4:aud=1:nal-hrd=cbr:vbv-maxrate=400:vbv-bufsize=400 -b:v 400k",
        ),
        pictures("avc3", "25", "-bf 2 -tag:v avc3"),
        pictures("high-422", "25", "-bf 2 -pix_fmt yuv422p10le"),
        pictures("intra", "25", "-g 1 -keyint_min 1"),
        hevc("hvc1", "-tag:v hvc1"),
        hevc("hev1", "-tag:v hev1 -pix_fmt yuv420p10le"),
        sounds("radio", "-c:a aac -ar 22050 -ac 1 -b:a 32k").rounded(),
        Odd::new("cd", format!("{CD} {X264} {AAC}")).rounded(),
        Odd::new("cd-fragments", format!("{CD} {X264} {AAC} -movflags frag_keyframe+delay_moov")).rounded(),
        sounds("pauses", "-c:a aac -af aselect=not(between(t\\,2\\,3)) -b:a 64k"),
        sounds("opus-fragments", "-c:a libopus -b:a 64k -movflags frag_keyframe+delay_moov").cmaf_alone(),
        sounds("surround", "-c:a aac -ac 6 -b:a 256k"),
        sounds("surround-7.1", "-c:a aac -ac 8 -b:a 384k"),
        sounds("telephone", "-c:a aac -ar 8000 -ac 1 -b:a 16k"),
        sounds("studio", "-c:a aac -ar 96000 -b:a 192k"),
        sounds("ac3", "-c:a ac3 -ac 6 -b:a 384k").header(0),
        sounds("eac3", "-c:a eac3 -ac 2 -b:a 96k -movflags frag_keyframe+delay_moov").header(0),
        sounds("mp3-24000", "-c:a libmp3lame -ar 24000 -b:a 48k").header(0),
        sounds("opus", "-c:a libopus -b:a 64k").cmaf_alone(),
        sounds("flac", "-c:a flac -strict -2").cmaf_alone(),
        sounds("alac", "-c:a alac"),
        alone("av1", "-c:v libsvtav1 -g 50 -svtav1-params fast-decode=1").cmaf_alone(),
        alone("vp9", "-c:v libvpx-vp9 -g 50 -deadline realtime -cpu-used 8").cmaf_alone(),
        Odd::new("sound", format!("{TONE} {AAC}")),
    ]
}

/// Runs a check for every title, and reports all that fail.
fn each(check: impl Fn(&Odd)) {
    let all: Vec<Odd> = [stored(), timed(), coded()].into_iter().flatten().collect();
    let failed: Vec<String> = all
        .iter()
        .filter_map(|odd| {
            let done = catch_unwind(AssertUnwindSafe(|| check(odd)));
            let why = *done.err()?.downcast::<String>().unwrap_or_default();
            Some(format!("{}: {}", odd.name, why.chars().take(400).collect::<String>()))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), all.len());
}

#[test]
fn dash_and_cmaf_hold_the_packets_of_odd_files() {
    each(|odd| cmaf::assert_source_packets(&format!("odd-{}", odd.name), &odd.source()));
}

#[test]
fn hls_in_cmaf_equals_dash_for_odd_files() {
    each(|odd| hls::assert_equals_dash(&odd.source().objects));
}

#[test]
fn hls_in_ts_holds_the_packets_of_odd_files() {
    each(|odd| {
        let Some(header) = odd.header else { return };
        let expect = ts::Expect { header, tolerance: odd.tolerance, ..ts::AAC };
        ts::assert_source_packets(&format!("odd-{}", odd.name), &odd.source(), &expect);
    });
}

#[test]
fn smooth_streaming_holds_the_packets_of_odd_files() {
    each(|odd| {
        if odd.is_in(Protocol::Smooth) {
            smooth::assert_source_packets(
                &format!("odd-smooth-{}", odd.name),
                &odd.source_from_zero(),
                odd.rate(),
            );
        }
    });
}

#[test]
fn http_dynamic_streaming_holds_the_packets_of_odd_files() {
    each(|odd| {
        if odd.is_in(Protocol::Hds) {
            hds::assert_source_packets(
                &format!("odd-hds-{}", odd.name),
                &odd.source_from_zero(),
                odd.is_regular,
            );
        }
    });
}
