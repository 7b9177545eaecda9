//! Files of the measured titles, and libraries of many names for one of them.

use latemux_testmedia::recipe::{AAC, AVC, folder, make};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

fn inputs(size: &str) -> String {
    format!(
        "-f lavfi -i testsrc2=size={size}:rate=25:duration=120 \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration=120 {AVC} {AAC}"
    )
}

/// Makes two minutes of AVC with B-frames and AAC, interleaved as ffmpeg does.
pub(crate) fn two_minutes() -> io::Result<PathBuf> {
    Ok(make("cold-film", "mp4", &inputs("320x180")))
}

/// Makes two hours of the same.
pub(crate) fn two_hours() -> io::Result<PathBuf> {
    looped(&two_minutes()?, "0:v -map 0:a", "film")
}

/// Makes the video of two hours alone.
pub(crate) fn two_hours_of_video() -> io::Result<PathBuf> {
    looped(&two_minutes()?, "0:v", "video")
}

/// Makes two minutes in fragments, indexed as `flags` of ffmpeg's muxer say.
fn in_fragments(name: &str, flags: &str) -> PathBuf {
    let flags = format!("frag_keyframe+empty_moov+default_base_moof{flags}");
    make(&format!("cold-{name}"), "mp4", &format!("{} -movflags {flags}", inputs("320x180")))
}

pub(crate) fn by_sidx() -> io::Result<PathBuf> {
    Ok(in_fragments("sidx", "+global_sidx+skip_trailer"))
}

pub(crate) fn by_mfra() -> io::Result<PathBuf> {
    Ok(in_fragments("mfra", ""))
}

pub(crate) fn by_scan() -> io::Result<PathBuf> {
    Ok(in_fragments("scan", "+skip_trailer"))
}

/// Repeats tracks of a file 60 times.
fn looped(file: &Path, tracks: &str, name: &str) -> io::Result<PathBuf> {
    let long = folder().join(format!("cold-two-hours-{name}.mp4"));
    if !long.exists() {
        let part = folder().join(format!("cold-two-hours-{name}-{}.mp4", std::process::id()));
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-nostdin", "-y", "-stream_loop", "59", "-i"]).arg(file);
        command.args(format!("-map {tracks} -c copy").split(' ')).arg(&part);
        if !command.status()?.success() {
            return Err(io::Error::other("ffmpeg failed"));
        }
        fs::rename(part, &long)?;
    }
    Ok(long)
}

/// Returns the name of a title: `name`, and a number of constant length.
pub(crate) fn title(name: &str, number: usize) -> String {
    format!("{name}-{number:05}")
}

/// Most names of one copy of a file. Some file systems allow 65,000.
const NAMES: usize = 50_000;

/// Links a file into a library under `count` names.
pub(crate) fn link(file: &Path, library: &Path, name: &str, count: usize) -> io::Result<()> {
    let path = |number| library.join(title(name, number) + ".mp4");
    for first in (0..count).step_by(NAMES) {
        fs::copy(file, path(first))?;
        (first + 1..count.min(first + NAMES))
            .try_for_each(|number| fs::hard_link(path(first), path(number)))?;
    }
    Ok(())
}

/// Links a file into a library several times for each of `count` titles, as renditions of one film.
pub(crate) fn link_renditions(
    file: &Path,
    library: &Path,
    name: &str,
    count: usize,
    renditions: usize,
) -> io::Result<()> {
    for number in 0..count {
        for rendition in 1..=renditions {
            fs::hard_link(file, library.join(format!("{}_{rendition}.mp4", title(name, number))))?;
        }
    }
    Ok(())
}

/// Number of pictures in a crowded folder.
const CROWD: usize = 100_000;

/// Makes folders with a film among many pictures, which are empty.
pub(crate) fn make_crowded_folders(file: &Path, library: &Path, name: &str, count: usize) -> io::Result<()> {
    for number in 0..count {
        let folder = library.join(title(name, number));
        fs::create_dir(&folder)?;
        fs::hard_link(file, folder.join("film.mp4"))?;
        (0..CROWD).try_for_each(|picture| fs::write(folder.join(format!("{picture}.jpg")), ""))?;
    }
    Ok(())
}
