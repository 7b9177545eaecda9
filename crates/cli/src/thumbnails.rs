//! `latemux thumbnails`: makes a file of thumbnails with ffmpeg.

use crate::standard_output::say;
use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use clap::Args as ClapArgs;
use latemux_index::media::thumbnails::Tiles;
use latemux_isobmff::{FourCc, boxes::kind::Kind, header::BoxHeader};
use latemux_quantity::TimeSpan;
use latemux_storage::{Options, write::destination};
use std::{
    ffi::OsString,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Make the thumbnails that players show above their seek bars
///
/// Runs ffmpeg, which must be on the PATH. The output is an MP4 file with a track of JPEG pictures.
/// Each picture is a sheet of tiles. Each tile shows the film at the start of the time that the
/// tile covers. Put the file into the folder of a title, or name it in a comma list or a server
/// manifest.
#[derive(Debug, ClapArgs)]
pub(crate) struct Thumbnails {
    /// Path of the film
    pub(crate) source: PathBuf,
    /// Output [default: film.thumbs-5x4.mp4 beside film.mp4]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Time between two tiles, at least 1s
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) every: TimeSpan,
    /// Columns and rows of tiles in a sheet
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "5x4", value_parser = tiles)]
    pub(crate) tiles: Tiles,
    /// Width of a tile in pixels, an even number
    #[arg(long, value_name = "PIXELS", default_value_t = 160, value_parser = clap::value_parser!(u16).range(16..=1920))]
    pub(crate) width: u16,
}

/// The role of the track in its file (DASH-IF IOP 4.3 §6.2.6).
const SCHEME: &str = "http://dashif.org/guidelines/thumbnail_tile";

fn tiles(text: &str) -> Result<Tiles, String> {
    Tiles::parse(text).ok_or_else(|| format!("two numbers from 1 to {}, such as 5x4", Tiles::MOST))
}

/// Writes the thumbnails completely, or not at all.
pub(crate) fn run(flags: &Thumbnails) -> Result<()> {
    let source = flags.source.display().to_string();
    ensure!(flags.source.is_file(), "{source}: no such file");
    ensure!(flags.every.0 >= Duration::from_secs(1), "--every {}: shorter than 1s", flags.every);
    ensure!(flags.width.is_multiple_of(2), "--width {}: not an even number", flags.width);
    let output = flags.output.clone().unwrap_or_else(|| default_output(&flags.source, flags.tiles));
    let to = destination(&output.to_string_lossy(), &Options::default())?;
    // ffmpeg seeks in its output, so it cannot write to us.
    let unfinished = unfinished(&output);
    let made = make(flags, &unfinished);
    let read = made.and_then(|()| fs::read(&unfinished).context("ffmpeg wrote no file"));
    // The error of a file that ffmpeg has not made is reported already.
    let _ = fs::remove_file(&unfinished);
    let file = with_kind(&read?.into(), flags.tiles).with_context(|| source.clone())?;
    let size = file.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(to.put(file))?;
    say(&format!("{}: {size} bytes\n", output.display()))
}

/// Returns `film.thumbs-5x4.mp4` for `film.mp4`.
fn default_output(source: &Path, tiles: Tiles) -> PathBuf {
    source.with_extension(format!("thumbs-{tiles}.mp4"))
}

/// Returns the path of the file that ffmpeg writes, which no server takes for media.
fn unfinished(output: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    output.with_file_name(name)
}

/// Runs ffmpeg. Fails if it is not installed, and with its own words if it fails.
fn make(flags: &Thumbnails, output: &Path) -> Result<()> {
    let Thumbnails { source, every, tiles, width, .. } = flags;
    let micros = every.0.as_micros();
    // Each tile is the last frame that begins at or before its time.
    let filter = format!(
        "fps=1000000/{micros}:start_time=0:round=up,scale={width}:-2,setsar=1,tile={tiles}:color=black"
    );
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-i"]).arg(source);
    ffmpeg.args(["-map", "0:v:0", "-vf", &filter, "-c:v", "mjpeg", "-q:v", "4", "-pix_fmt", "yuvj420p"]);
    ffmpeg.args([
        "-map_metadata",
        "-1",
        "-map_chapters",
        "-1",
        "-fflags",
        "+bitexact",
        "-flags:v",
        "+bitexact",
    ]);
    ffmpeg.args(["-threads", "1", "-f", "mp4"]).arg(output);
    let ran = ffmpeg.stdin(Stdio::null()).output();
    let ran = match ran {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("no ffmpeg on the PATH: install it, or put its folder on the PATH (no_ffmpeg)")
        }
        other => other.context("ffmpeg cannot be started")?,
    };
    if ran.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&ran.stderr);
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word");
    bail!("{}: ffmpeg failed: {last}", source.display())
}

/// Adds the role that states the grid of tiles to the only track of a file.
fn with_kind(file: &Bytes, tiles: Tiles) -> Result<Bytes> {
    let moov = find(file, &(0..file.len()), *b"moov").context("ffmpeg wrote no moov")?;
    ensure!(moov.end == file.len(), "ffmpeg wrote media behind the moov");
    let trak = find(file, &contents(&moov), *b"trak").context("ffmpeg wrote no track")?;
    let kind = Kind { scheme: SCHEME.into(), value: tiles.to_string().into() };
    let added = kind.in_udta();
    let mut out = BytesMut::with_capacity(file.len() + added.len());
    out.extend_from_slice(&file[..trak.end]);
    out.extend_from_slice(&added);
    out.extend_from_slice(&file[trak.end..]);
    for grown in [moov, trak] {
        let size = u32::try_from(grown.len() + added.len()).context("a moov of 4 GiB")?;
        out[grown.start..grown.start + 4].copy_from_slice(&size.to_be_bytes());
    }
    Ok(out.freeze())
}

/// Returns the range of the bytes in a box with a size of 32 bits.
fn contents(whole: &Range<usize>) -> Range<usize> {
    whole.start + 8..whole.end
}

/// Returns the first box of a type with a size of 32 bits among the boxes in a range.
fn find(file: &Bytes, within: &Range<usize>, kind: [u8; 4]) -> Option<Range<usize>> {
    let mut at = within.start;
    while at < within.end {
        let header = BoxHeader::read(file.get(at..within.end)?, at as u64).ok()??;
        let end = at.checked_add(usize::try_from(header.size?).ok()?)?;
        if header.kind == FourCc(kind) {
            return (end <= within.end).then_some(at..end);
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Tiles, default_output, find, unfinished, with_kind};
    use bytes::Bytes;
    use std::path::Path;

    #[test]
    fn the_name_of_the_output_states_the_tiles() {
        let tiles = Tiles::parse("5x4").unwrap();
        assert_eq!(default_output(Path::new("a/film.mp4"), tiles), Path::new("a/film.thumbs-5x4.mp4"));
        assert_eq!(default_output(Path::new("film"), tiles), Path::new("film.thumbs-5x4.mp4"));
        let part = unfinished(Path::new("a/film.mp4"));
        assert!(part.starts_with("a") && part.to_string_lossy().ends_with(".part"), "{part:?}");
    }

    #[test]
    fn files_that_cannot_grow_are_refused() {
        let tiles = Tiles::ONE;
        let moov = b"\0\0\0\x18moov\0\0\0\x10trak\0\0\0\x08free";
        let grown = with_kind(&Bytes::from_static(moov), tiles).unwrap();
        assert_eq!(find(&grown, &(0..grown.len()), *b"moov"), Some(0..grown.len()));
        assert_eq!(find(&grown, &(8..grown.len()), *b"trak"), Some(8..grown.len()));
        let not_last = [&moov[..], b"\0\0\0\x08mdat"].concat();
        assert!(with_kind(&not_last.into(), tiles).is_err());
        for cut in 0..moov.len() {
            assert!(with_kind(&Bytes::copy_from_slice(&moov[..cut]), tiles).is_err(), "{cut}");
        }
    }
}
