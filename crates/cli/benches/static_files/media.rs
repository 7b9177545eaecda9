//! Titles, and their segments as files made beforehand by the packager. nginx sends these files,
//! and the bodies of the server are compared with them.

use latemux_index::media::TrackKind;
use latemux_packager::{Address, Resource, segment::smooth};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::recipe::{AAC, folder, make};
use percent_encoding::percent_decode_str;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The default of `latemux serve`.
const TARGET: Duration = Duration::from_secs(4);

/// Protocols whose segments differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Dash,
    Cmaf,
    Smooth,
    Hds,
    Ts,
}

/// Returns the options of AVC as players get it: GOPs of two seconds, B-frames, a constant bit
/// rate.
fn avc(rate: &str) -> String {
    format!(
        "-c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p \
         -b:v {rate} -minrate {rate} -maxrate {rate} -bufsize {rate} -nal-hrd cbr"
    )
}

fn video(size: &str) -> String {
    format!("-f lavfi -i testsrc2=size={size}:rate=25:duration=120")
}

const SOUND: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=120";

/// Makes two minutes of 2.5 Mbit/s with AAC of 96 kbit/s, interleaved as ffmpeg does.
pub(crate) fn film() -> PathBuf {
    make("bench-film", "mp4", &format!("{} {SOUND} {} {AAC}", video("640x360"), avc("2500k")))
}

/// Makes the same tracks, each in its own file.
pub(crate) fn tracks() -> [PathBuf; 2] {
    let film = film();
    let film = film.display();
    [
        make("bench-film-video", "mp4", &format!("-i {film} -map 0:v -c copy")),
        make("bench-film-audio", "mp4", &format!("-i {film} -map 0:a -c copy")),
    ]
}

/// Makes two minutes of 400 kbit/s with audio, small enough to be repeated 120 times.
pub(crate) fn short() -> PathBuf {
    make("bench-short", "mp4", &format!("{} {SOUND} {} {AAC}", video("320x180"), avc("400k")))
}

/// Makes two minutes of 25 frames a second of a few bytes each.
pub(crate) fn tiny() -> PathBuf {
    make("bench-tiny", "mp4", &format!("{} {}", video("64x36"), avc("20k")))
}

/// Repeats a file `times` times.
pub(crate) fn looped(file: &Path, times: u32) -> io::Result<PathBuf> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let long = folder().join(format!("{stem}-{times}.mp4"));
    if !long.exists() {
        let part = folder().join(format!("{stem}-{times}-{}.mp4", std::process::id()));
        let status = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-y", "-stream_loop", &(times - 1).to_string(), "-i"])
            .arg(file)
            .args(["-c", "copy"])
            .arg(&part)
            .status()?;
        if !status.success() {
            return Err(io::Error::other("ffmpeg failed"));
        }
        fs::rename(part, &long)?;
    }
    Ok(long)
}

/// A title in a library: the name in its URLs, and its objects.
#[derive(Debug, Clone)]
pub(crate) struct Title {
    pub(crate) base: String,
    pub(crate) files: Vec<PathBuf>,
}

impl Title {
    pub(crate) fn new(base: impl Into<String>, files: &[PathBuf]) -> Self {
        Self { base: base.into(), files: files.to_vec() }
    }

    /// Links it into a library: a file, or a folder of several files.
    pub(crate) fn link_into(&self, library: &Path) -> io::Result<()> {
        let place = library.join(&self.base);
        if let [file] = &self.files[..] {
            return fs::hard_link(file, place);
        }
        fs::create_dir_all(&place)?;
        for file in &self.files {
            fs::hard_link(file, place.join(file.file_name().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Returns the URLs of all media segments, with their bodies.
    pub(crate) fn segments(&self, protocol: Protocol) -> Vec<(String, Vec<u8>)> {
        let mut files = self.files.clone();
        files.sort();
        let mut origin = Origin::open(&files, TARGET);
        let addresses = resources(&origin, protocol).into_iter().map(|what| Address::new(&self.base, what));
        let addresses: Vec<Address> = addresses.collect();
        let body = |address: Address| {
            let response = origin.get_address(&address).expect("the segment exists");
            (address.to_url(), response.bytes)
        };
        addresses.into_iter().map(body).collect()
    }
}

/// Returns all media segments of a title in the order in which a player requests them.
fn resources(origin: &Origin, protocol: Protocol) -> Vec<Resource> {
    let video = origin.names(TrackKind::Video);
    let audio = origin.names(TrackKind::Audio);
    let lead = video.first().or(audio.first()).expect("a track");
    let all: Vec<_> = video.iter().chain(&audio).cloned().collect();
    let clock = smooth::clock(&origin.title);
    let mut resources = Vec::new();
    for number in 1..=origin.segment_count(lead) {
        let each = all.iter().filter(|name| number <= origin.segment_count(name)).cloned();
        match protocol {
            Protocol::Dash => resources.extend(each.map(|name| Resource::DashSegment(name, number))),
            Protocol::Cmaf => resources.extend(each.map(|name| Resource::HlsSegment(vec![name], number))),
            Protocol::Smooth => resources.extend(each.filter_map(|name| {
                let time = clock.boundary(origin.title.find(&name)?, number - 1)?;
                Some(Resource::SmoothFragment(name, u64::try_from(time).ok()?))
            })),
            Protocol::Hds => resources.push(Resource::HdsFragment(all.clone(), number)),
            Protocol::Ts => resources.push(Resource::HlsTsSegment(all.clone(), number)),
        }
    }
    resources
}

/// Writes bodies as files for a static server.
pub(crate) fn lay_out(root: &Path, bodies: &[(String, Vec<u8>)]) -> io::Result<()> {
    for (url, body) in bodies {
        let path = percent_decode_str(url.trim_start_matches('/')).decode_utf8_lossy();
        let path = root.join(&*path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, body)?;
    }
    Ok(())
}
