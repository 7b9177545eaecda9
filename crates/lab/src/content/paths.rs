//! The paths that a client of a title requests, by format.

use super::Programs;
use crate::{
    Error,
    function::{FORMATS, Parameters},
    http,
    process::{Process, command},
};
use latemux_quantity::TimeSpan;
use serde::{Deserialize, Serialize};
use std::{
    fs, iter,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest time in which the origin that states the paths must answer.
const START_WAIT: Duration = Duration::from_secs(30);

/// The format in which consecutive segments can be joined into longer ones.
const JOINED: &str = "hls";

/// The segments that a client chooses among those of a title.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// The target duration; `None` for the origin's default.
    pub duration: Option<String>,
    /// True for the rendition with the lowest bit rate, false for that with the highest.
    pub is_lowest: bool,
    /// The duration to which segments are joined, in HLS only; `None` for segments as they are.
    pub joined: Option<Duration>,
}

impl Choice {
    /// Returns the choice that the parameters of a load state.
    pub fn of(parameters: &Parameters) -> Self {
        Self {
            duration: parameters.get("segment-duration").cloned(),
            is_lowest: parameters.get("rendition").is_some_and(|rendition| rendition == "low"),
            joined: None,
        }
    }

    /// Returns all choices that the parameters of a load state for a format, in the order in which
    /// it requests their segments.
    pub fn all(parameters: &Parameters, format: &str) -> Vec<Self> {
        let first = Self::of(parameters);
        let durations = parameters.get("joined").filter(|_| format == JOINED);
        let durations = durations.map_or("", String::as_str).split_whitespace();
        let durations = durations.filter_map(|duration| duration.parse().ok());
        let joined = durations.map(|TimeSpan(duration)| Self { joined: Some(duration), ..first.clone() });
        iter::once(first.clone()).chain(joined).collect()
    }

    /// Returns the formats that have such segments.
    fn formats(&self) -> &'static [&'static str] {
        if self.joined.is_some() { &[JOINED] } else { FORMATS }
    }
}

/// The paths that a client of a title requests in one format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    /// The path of the manifest.
    pub manifest: String,
    /// The paths of segments, in the order in which a client requests them.
    pub segments: Vec<String>,
    /// The bytes of all segments.
    pub bytes: u64,
}

/// A line of the trace of `latemux capture`.
#[derive(Deserialize)]
struct Request {
    what: String,
    url: String,
    bytes: u64,
}

impl Paths {
    /// Reads the paths of a title, whose name and layout are `title`.
    ///
    /// # Errors
    /// If the folder does not hold that title, or no paths of this choice.
    pub fn read(content: &Path, title: &str, format: &str, choice: &Choice) -> Result<Self, Error> {
        let path = file(&content.join(title), format, choice);
        let bytes = fs::read(&path).map_err(|error| Error::file(&path, &error))?;
        let paths = serde_json::from_slice(&bytes);
        paths.map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }

    /// Returns the paths of the first manifest, with the segments of all.
    pub fn in_turn(all: Vec<Self>) -> Self {
        let all = all.into_iter().reduce(|mut all, next| {
            all.segments.extend(next.segments);
            all.bytes += next.bytes;
            all
        });
        all.unwrap_or_default()
    }

    /// Returns the paths of a title that is stored under several names. Each segment is taken from
    /// the copy after that of the segment before, so clients request all copies side by side. The
    /// list consists of passes. A pass has as many paths as the title has segments, and names each
    /// segment once.
    pub fn copied(&self, copies: usize) -> CopiedPaths {
        let of_copy = |path: &String, copy: usize| format!("/title-{}{path}", copy % copies + 1);
        let pass = |pass| {
            let segments = self.segments.iter().enumerate();
            segments.map(move |(number, path)| of_copy(path, pass + number))
        };
        CopiedPaths {
            manifests: (0..copies).map(|copy| of_copy(&self.manifest, copy)).collect(),
            segments: (0..copies).flat_map(pass).collect(),
        }
    }
}

/// The paths that clients of several titles request in one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedPaths {
    /// The paths of manifests.
    pub manifests: Vec<String>,
    /// The paths of segments, in the order in which they are requested.
    pub segments: Vec<String>,
}

impl From<Paths> for CopiedPaths {
    fn from(paths: Paths) -> Self {
        Self { manifests: vec![paths.manifest], segments: paths.segments }
    }
}

/// Returns the file with the paths of a format, in the folder of a title.
fn file(place: &Path, format: &str, choice: &Choice) -> PathBuf {
    let duration = choice.duration.as_ref().map_or_else(String::new, |duration| format!("-{duration}"));
    let rendition = if choice.is_lowest { "-low" } else { "" };
    let joined = choice.joined.map_or_else(String::new, |duration| format!("-joined-{}", TimeSpan(duration)));
    place.join(format!("{format}{duration}{rendition}{joined}.json"))
}

/// Writes the paths of all formats of a choice beside the files of a title. Keeps those that are
/// there already.
pub(super) fn write_all(place: &Path, choice: &Choice, programs: Programs<'_>) -> Result<(), Error> {
    if choice.formats().iter().all(|format| file(place, format, choice).exists()) {
        return Ok(());
    }
    let address = http::free_address().map_err(|error| Error::Lacking(format!("no free port: {error}")))?;
    let mut serve = command(programs.latemux);
    serve.arg("serve").arg(place).args(["--listen", &address.to_string(), "--no-page"]);
    serve.args(choice.duration.iter().flat_map(|duration| ["--segment-duration", duration]));
    serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut origin = Process::start(&mut serve)?;
    let until = Instant::now() + START_WAIT;
    while !http::answers(address) {
        if origin.ended().is_some() || Instant::now() > until {
            return Err(Error::Lacking("latemux serve did not start".to_owned()));
        }
        sleep(Duration::from_millis(20));
    }
    choice.formats().iter().try_for_each(|format| write(place, programs, address, format, choice))
}

/// Writes the paths of one format: those that `latemux capture` requests.
fn write(
    place: &Path,
    programs: Programs<'_>,
    origin: SocketAddr,
    format: &str,
    choice: &Choice,
) -> Result<(), Error> {
    let manifest = match format {
        "dash" => "/film.ism/.mpd",
        "smooth" => "/film.ism/Manifest",
        "hls" => "/film.ism/.m3u8",
        _ => "/film.ism/.f4m",
    };
    let query = choice.joined.map_or_else(String::new, |duration| {
        format!("?hls_minimum_fragment_length={}", duration.as_secs_f64())
    });
    // Another run may do the same in this folder.
    let part = super::part_of(place)?;
    fs::create_dir_all(&part).map_err(|error| Error::file(&part, &error))?;
    let trace = part.join("trace.jsonl");
    let media = part.join("capture.mp4");
    let mut capture = command(programs.latemux);
    capture
        .args(["capture", &format!("http://{origin}{manifest}{query}"), "-o"])
        .arg(&media)
        .arg("--trace")
        .arg(&trace)
        .args(["--rate", if choice.is_lowest { "min" } else { "max" }]);
    programs.finish(&mut capture, "latemux capture")?;
    let text = fs::read_to_string(&trace).map_err(|error| Error::file(&trace, &error))?;
    let requests = text.lines().filter_map(|line| serde_json::from_str::<Request>(line).ok());
    let requests: Vec<Request> = requests.filter(|request| request.what == "segment").collect();
    let prefix = format!("http://{origin}");
    let path = |request: &Request| request.url.strip_prefix(&prefix).unwrap_or(&request.url).to_owned();
    let paths = Paths {
        manifest: manifest.to_owned(),
        segments: requests.iter().map(path).collect(),
        bytes: requests.iter().map(|request| request.bytes).sum(),
    };
    let json = serde_json::to_string(&paths).map_err(|error| Error::invalid(error.to_string()))?;
    let made = part.join("paths.json");
    super::write(&made, &json)?;
    fs::rename(&made, file(place, format, choice)).map_err(|error| Error::file(&made, &error))?;
    fs::remove_dir_all(&part).map_err(|error| Error::file(&part, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_segments_are_requested_after_those_that_they_are_joined_from() {
        let paths = |segments: &[&str], bytes| Paths {
            manifest: format!("/{bytes}"),
            segments: segments.iter().map(|path| (*path).to_owned()).collect(),
            bytes,
        };
        let all = Paths::in_turn(vec![paths(&["/a", "/b"], 2), paths(&["/ab"], 3)]);
        assert_eq!(all, Paths { manifest: "/2".to_owned(), ..paths(&["/a", "/b", "/ab"], 5) });
        let load = Parameters::from([("joined".to_owned(), "6s 10s".to_owned())]);
        let files = |format| {
            let choices = Choice::all(&load, format);
            choices.iter().map(|choice| file(Path::new(""), format, choice)).collect::<Vec<_>>()
        };
        assert_eq!(
            files("hls"),
            ["hls.json", "hls-joined-6s.json", "hls-joined-10s.json"].map(PathBuf::from)
        );
        assert_eq!(files("dash"), [PathBuf::from("dash.json")]);
    }

    #[test]
    fn each_pass_requests_each_segment_once_and_each_copy_in_turn() {
        let segments = ["/a", "/b", "/c"].map(str::to_owned).to_vec();
        let copied = Paths { manifest: "/m".to_owned(), segments, bytes: 0 }.copied(2);
        assert_eq!(copied.manifests, ["/title-1/m", "/title-2/m"]);
        let passes = [["/title-1/a", "/title-2/b", "/title-1/c"], ["/title-2/a", "/title-1/b", "/title-2/c"]];
        assert_eq!(copied.segments, passes.concat());
    }
}
