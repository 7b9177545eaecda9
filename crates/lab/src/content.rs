//! Titles on disk: encoded once, and kept between runs.

mod paths;

pub use paths::{Choice, CopiedPaths, Paths};

use crate::{
    Error,
    experiment::{ENCODED, Layout, Title, bytes_per_second},
    process::{Identity, Process, command},
};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::Duration,
};
use xxhash_rust::xxh3::xxh3_128;

/// The time between two looks at a program.
const POLL: Duration = Duration::from_millis(10);

/// The end of the name of a folder that is being filled. The start is the process that fills it.
const PART: &str = ".part";

/// The programs that make titles. They end when `stop` is set.
#[derive(Debug, Clone, Copy)]
pub struct Programs<'a> {
    /// The program `latemux`.
    pub latemux: &'a Path,
    /// Set when no title is needed any more.
    pub stop: &'a AtomicBool,
}

/// Makes a title, unless the folder has it: the files of a layout, a server manifest, and the paths
/// of all formats.
///
/// # Errors
/// If ffmpeg or `latemux` cannot be started, fail or are stopped, or the disk is full. What was
/// made until then is removed.
pub fn make(
    folder: &Path,
    name: &str,
    layout: Layout,
    title: &Title,
    programs: Programs<'_>,
) -> Result<PathBuf, Error> {
    let titles = folder.join(name);
    let place = titles.join(layout.name());
    // A title that has changed is made again.
    let digest = format!("{title:?} {}", env!("CARGO_PKG_VERSION"));
    let is_made = || fs::read_to_string(place.join("made")).is_ok_and(|made| made == digest);
    if is_made() {
        return Ok(place);
    }
    remove_abandoned(&titles)?;
    let part = part_of(&titles)?;
    let made =
        fill(&titles, &part, layout, title, programs).and_then(|()| write(&part.join("made"), &digest));
    // Another run may have made the same title meanwhile, and may be using it.
    let placed = made.and_then(|()| {
        if is_made() {
            return Ok(());
        }
        let _ = fs::remove_dir_all(&place);
        fs::rename(&part, &place).or_else(|error| match is_made() {
            true => Ok(()),
            false => Err(Error::file(&place, &error)),
        })
    });
    let _ = fs::remove_dir_all(&part);
    placed.map(|()| place)
}

/// Returns the bytes of the media files in the folder of a title.
pub(crate) fn media_bytes(place: &Path) -> u64 {
    let files = fs::read_dir(place).into_iter().flatten().flatten();
    let media = files.filter(|file| {
        let name = file.file_name();
        name.to_str().is_some_and(|name| name.ends_with(".mp4") && !name.ends_with(".index.mp4"))
    });
    media.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Returns the path of a folder that this process fills, within another one.
fn part_of(folder: &Path) -> Result<PathBuf, Error> {
    let own = Identity::own().ok_or_else(|| Error::Lacking("/proc is not mounted".to_owned()))?;
    Ok(folder.join(format!("{own}{PART}")))
}

/// Removes the folders of all titles that were not completed by processes that were killed. Returns
/// their paths.
///
/// # Errors
/// If one cannot be removed.
pub(crate) fn remove_all_abandoned(content: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for title in fs::read_dir(content).into_iter().flatten().flatten() {
        removed.extend(remove_abandoned(&title.path())?);
        for layout in fs::read_dir(title.path()).into_iter().flatten().flatten() {
            removed.extend(remove_abandoned(&layout.path())?);
        }
    }
    Ok(removed)
}

/// Removes the folders in a folder that were not completed by processes that were killed. Returns
/// their paths.
fn remove_abandoned(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_suffix(PART)?.parse::<Identity>().ok());
        if process.is_some_and(|process| !process.is_alive()) {
            let path = entry.path();
            // Another run may remove it too.
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::file(&path, &error)),
                _ => removed.push(path),
            }
        }
    }
    Ok(removed)
}

/// Makes the files of a title in the folder `place`, from encodings in the folder `titles`.
fn fill(
    titles: &Path,
    place: &Path,
    layout: Layout,
    title: &Title,
    programs: Programs<'_>,
) -> Result<(), Error> {
    fs::create_dir_all(place).map_err(|error| Error::file(place, &error))?;
    let mut files = Vec::new();
    for (number, rate) in title.video.iter().enumerate() {
        let file = place.join(format!("video-{number}.mp4"));
        let once = encoded(titles, &file, title, rate, programs)?;
        repeat(&once, &file, layout, title.seconds, programs)?;
        files.push(if layout.is_indexed() { index(&file, programs)? } else { file });
    }
    let mut manifest = command(programs.latemux);
    manifest.arg("manifest").arg("-o").arg(place.join("film.ism")).args(&files);
    programs.finish(&mut manifest, "latemux manifest")?;
    paths::write_all(place, &Choice::default(), programs)
}

/// Writes the paths of other segments of a title that [`make`] has made, unless its folder has
/// them.
///
/// # Errors
/// If `latemux` cannot be started, fails or is stopped, or the disk is full.
pub fn add_paths(place: &Path, choice: &Choice, programs: Programs<'_>) -> Result<(), Error> {
    paths::write_all(place, choice, programs)
}

/// Writes an index MP4 beside a file, and returns its path.
fn index(file: &Path, programs: Programs<'_>) -> Result<PathBuf, Error> {
    let index = file.with_extension("index.mp4");
    programs
        .finish(command(programs.latemux).arg("index").arg(file).arg("-o").arg(&index), "latemux index")?;
    Ok(index)
}

/// Encodes one rendition with its audio, unless the folder `titles` has it. All layouts and lengths
/// of a title share the result, whose path is returned.
fn encoded(
    titles: &Path,
    file: &Path,
    title: &Title,
    rate: &str,
    programs: Programs<'_>,
) -> Result<PathBuf, Error> {
    let Title { size: [width, height], frames, gop, audio, .. } = title;
    let once = title.seconds.min(ENCODED);
    let version = env!("CARGO_PKG_VERSION");
    let all = format!("{width} {height} {frames} {gop} {rate} {audio} {once} {version}");
    let place = titles.join(format!("encoded-{:032x}.mp4", xxh3_128(all.as_bytes())));
    if place.exists() {
        return Ok(place);
    }
    let bits = |text: &str| (8 * bytes_per_second(text)).to_string();
    let part = file.with_extension("part.mp4");
    let video = format!("testsrc2=size={width}x{height}:rate={frames}:duration={once}");
    let sound = format!("sine=frequency=440:sample_rate=48000:duration={once}");
    let (rate, gop) = (bits(rate), gop.to_string());
    let mut ffmpeg = ffmpeg();
    ffmpeg.args(["-f", "lavfi", "-i", &video, "-f", "lavfi", "-i", &sound]);
    ffmpeg.args(["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-pix_fmt", "yuv420p"]);
    // Noise keeps the rate constant: a test picture alone needs fewer bits.
    ffmpeg.args(["-vf", "noise=alls=20:allf=t", "-b:v", &rate, "-maxrate", &rate, "-bufsize", &rate]);
    ffmpeg.args(["-g", &gop, "-keyint_min", &gop, "-sc_threshold", "0", "-c:a", "aac", "-ac", "2"]);
    ffmpeg.args(["-b:a", &bits(audio)]).arg(&part);
    programs.finish(&mut ffmpeg, "ffmpeg")?;
    // Another run may have encoded the same meanwhile: either file will do.
    fs::rename(&part, &place).map_err(|error| Error::file(&place, &error))?;
    Ok(place)
}

/// Writes a file of a layout that repeats an encoding up to a length in seconds.
fn repeat(
    once: &Path,
    file: &Path,
    layout: Layout,
    seconds: u32,
    programs: Programs<'_>,
) -> Result<(), Error> {
    let mut ffmpeg = ffmpeg();
    ffmpeg.args(["-stream_loop", "-1", "-i"]).arg(once);
    ffmpeg.args(["-t", &seconds.to_string(), "-c", "copy", "-map", "0"]);
    if layout.is_fragmented() {
        ffmpeg.args(["-movflags", "frag_keyframe+empty_moov+default_base_moof"]);
    }
    programs.finish(ffmpeg.arg(file), "ffmpeg")
}

fn ffmpeg() -> Command {
    let mut ffmpeg = command(Path::new("ffmpeg"));
    ffmpeg.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
    ffmpeg
}

impl Programs<'_> {
    /// Runs a command to its end, or until no title is needed any more.
    fn finish(self, command: &mut Command, name: &str) -> Result<(), Error> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(quiet)?;
        let status = loop {
            if let Some(status) = process.ended() {
                break status;
            }
            if self.stop.load(Relaxed) {
                return Err(Error::Lacking(format!("{name} was stopped")));
            }
            sleep(POLL);
        };
        if status.success() { Ok(()) } else { Err(Error::Lacking(format!("{name} failed: {status}"))) }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::file(path, &error))
}
