//! The measured requests.

use crate::{
    Failure,
    client::Client,
    library::{self, title},
    report::{Limit, Row, median},
    servers::Server,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Number of titles of two minutes, and of those of two hours.
const TITLES: usize = 300;

/// Number of titles of the row that measures memory.
const MANY_TITLES: usize = 100_000;

/// Number of folders of the row `crowded`.
const CROWDED_FOLDERS: usize = 3;

/// Status of the refusal of a folder with too many files.
const FOLDER_TOO_LARGE: u16 = 422;

/// Most bytes that the second MPD of a title may read from storage: a comparison takes one byte.
const COMPARISON: f64 = 2.0;

/// Time after which a server without processor time counts as idle.
const IDLE: Duration = Duration::from_millis(2);

/// A row of the report.
pub(crate) struct ColdRow {
    pub(crate) name: &'static str,
    what: &'static str,
    file: fn() -> io::Result<PathBuf>,
    request: Request,
    /// Most milliseconds, or KiB, for a title.
    limit: Limit,
}

/// Requests for each title, and the measure of their cost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    /// The MPD.
    Dash,
    /// The HLS multivariant playlist, and then the first media playlist in it.
    Hls,
    /// The first segment, after the MPD, which is not counted.
    FirstSegment,
    /// The MPD after the server has been started again with its indexes on disk.
    AfterRestart,
    /// The MPD of so many renditions in files of their own. Time that passes is measured.
    Renditions(usize),
    /// The MPD of a folder with 100,000 pictures, which is refused. Time that passes is measured.
    Crowded,
    /// The MPD of each of many titles, which all stay in memory. Memory of the process is measured.
    Memory,
    /// The same with the usual limit of memory for indexes, and each MPD twice. The second time, no
    /// index is read.
    Resting,
}

/// The rows.
pub(crate) const ROWS: &[ColdRow] = &[
    row("mpd", "MPD, 2 min", library::two_minutes, Request::Dash, 0.4),
    row("hls", "HLS multivariant and media playlist, 2 min", library::two_minutes, Request::Hls, 0.0),
    row("segment", "first segment after the MPD, 2 min", library::two_minutes, Request::FirstSegment, 0.0),
    row("long-mpd", "MPD, 2 h", library::two_hours, Request::Dash, 15.0),
    row("long-hls", "HLS multivariant and media playlist, 2 h", library::two_hours, Request::Hls, 12.0),
    row("renditions", "MPD, 2 h, 8 files, time", library::two_hours_of_video, Request::Renditions(8), 150.0),
    row("many-files", "MPD, 2 min, 64 files, time", library::two_minutes, Request::Renditions(64), 0.0),
    row("crowded", "MPD of a folder of 100,000 files, time", library::two_minutes, Request::Crowded, 0.0),
    row("sidx", "MPD, 2 min by sidx", library::by_sidx, Request::Dash, 0.0),
    row("mfra", "MPD, 2 min by mfra", library::by_mfra, Request::Dash, 0.0),
    row("scan", "MPD, 2 min by neither", library::by_scan, Request::Dash, 0.0),
    row("restart", "MPD, 2 min, index on disk", library::two_minutes, Request::AfterRestart, 0.0),
    row("memory", "memory of each of 100,000 titles, 2 min", library::two_minutes, Request::Memory, 0.0),
    row("resting", "the same, MPDs twice, of 1 GiB", library::two_minutes, Request::Resting, 10.48),
];

/// Returns a row. A `limit` of 0 is none.
const fn row(
    name: &'static str,
    what: &'static str,
    file: fn() -> io::Result<PathBuf>,
    request: Request,
    limit: f64,
) -> ColdRow {
    let limit = if limit > 0.0 { Limit::AtMost(limit) } else { Limit::None };
    ColdRow { name, what, file, request, limit }
}

impl ColdRow {
    pub(crate) fn measure(&self) -> Result<Row, Failure> {
        let file = (self.file)()?;
        // The page cache holds one copy of the file, whatever the number of its names.
        drop(fs::read(&file)?);
        // Links cannot leave the file system.
        let folder = tempfile::tempdir_in(file.parent().unwrap_or(Path::new(".")))?;
        let library = folder.path().join("library");
        fs::create_dir(&library)?;
        let count = match self.request {
            Request::Renditions(_) => TITLES / 10,
            Request::Crowded => CROWDED_FOLDERS,
            Request::Memory | Request::Resting => MANY_TITLES,
            _ => TITLES,
        };
        // The first title warms the server up.
        match self.request {
            Request::Renditions(each) => {
                library::link_renditions(&file, &library, self.name, count + 1, each)?;
            }
            Request::Crowded => library::make_crowded_folders(&file, &library, self.name, count + 1)?,
            _ => library::link(&file, &library, self.name, count + 1)?,
        }
        let cache = folder.path().join("cache");
        let config = match self.request {
            Request::AfterRestart => format!("[cache]\ndir = '{}'", cache.display()),
            // All titles stay in memory.
            Request::Memory => "[memory]\nindex = '4GiB'\nmanifests = '1GiB'".to_owned(),
            // All manifests stay in memory, but not all titles.
            Request::Resting => "[memory]\nindex = '512MiB'\nmanifests = '352MiB'".to_owned(),
            _ => String::new(),
        };
        let start = || Server::latemux(folder.path(), &library.display().to_string(), "0", &config, None);
        let mut server = start()?;
        if self.request == Request::AfterRestart {
            let mut client = Client::connect(server.port())?;
            (0..=count).try_for_each(|number| client.get(&self.mpd(number)))?;
            wait_until_idle(&server)?;
            drop(server);
            server = start()?;
        }
        let values = match self.request {
            Request::Memory => vec![self.measure_memory(&server, count)?],
            Request::Resting => vec![self.measure_resting(&server, count)?],
            _ => self.measure_titles(&server, count)?,
        };
        let mean = values.iter().sum::<f64>() / f64::from(u32::try_from(values.len())?);
        Ok(Row {
            name: self.name,
            what: self.what.to_owned(),
            value: median(&values),
            unit: match self.request {
                Request::Renditions(_) | Request::Crowded => "ms",
                Request::Memory | Request::Resting => "KiB",
                _ => "CPU-ms",
            },
            limit: self.limit,
            note: format!("mean {mean:.2} of {count} titles"),
            rounds: values,
        })
    }

    /// Returns the memory in KiB by which the process grows for each title.
    fn measure_memory(&self, server: &Server, count: usize) -> Result<f64, Failure> {
        let mut client = Client::connect(server.port())?;
        client.get(&self.mpd(0))?;
        let before = server.memory()?;
        (1..=count).try_for_each(|number| client.get(&self.mpd(number)))?;
        Ok((server.memory()? - before) / f64::from(u32::try_from(count)?))
    }

    /// Returns the memory in KiB of the whole process for each title, after two requests for each.
    fn measure_resting(&self, server: &Server, count: usize) -> Result<f64, Failure> {
        let mut client = Client::connect(server.port())?;
        let titles = f64::from(u32::try_from(count)?);
        let mut request_all = || (1..=count).try_for_each(|number| client.get(&self.mpd(number)));
        request_all()?;
        let (time, read) = (processor_time(server)?, bytes_read(server)?);
        request_all()?;
        let read = (bytes_read(server)? - read) / titles;
        let time = (processor_time(server)? - time).as_secs_f64() * 1e6 / titles;
        println!("{:12} second MPD of a title: {time:.0} CPU-µs, {read:.1} bytes read", self.name);
        if read > COMPARISON {
            return Err("the second MPDs read indexes".into());
        }
        Ok(server.memory()? / titles)
    }

    fn measure_titles(&self, server: &Server, count: usize) -> Result<Vec<f64>, Failure> {
        let mut client = Client::connect(server.port())?;
        let further = self.further(&mut client)?;
        let mut values = Vec::with_capacity(count);
        for number in 1..=count {
            if self.request == Request::FirstSegment {
                client.get(&self.mpd(number))?;
            }
            wait_until_idle(server)?;
            let before = processor_time(server)?;
            let begun = Instant::now();
            match self.request {
                Request::Dash
                | Request::AfterRestart
                | Request::Renditions(_)
                | Request::Memory
                | Request::Resting => client.get(&self.mpd(number))?,
                Request::Crowded => client.get_refusal(&self.mpd(number), FOLDER_TOO_LARGE)?,
                Request::Hls => {
                    client.get(&format!("/{}.mp4/.m3u8", title(self.name, number)))?;
                }
                Request::FirstSegment => {}
            }
            let passed = begun.elapsed();
            if let Some(further) = &further {
                client.get(&further.replace(&title(self.name, 0), &title(self.name, number)))?;
            }
            wait_until_idle(server)?;
            let spent = match self.request {
                Request::Renditions(_) | Request::Crowded => passed,
                _ => processor_time(server)?.saturating_sub(before),
            };
            values.push(spent.as_secs_f64() * 1000.0);
        }
        Ok(values)
    }

    fn mpd(&self, number: usize) -> String {
        let title = title(self.name, number);
        match self.request {
            Request::Renditions(each) => {
                let numbers: String = (1..=each).map(|number| format!("{number},")).collect();
                format!("/{title}_,{numbers}.mp4.urlset/.mpd")
            }
            Request::Crowded => format!("/{title}/.mpd"),
            _ => format!("/{title}.mp4/.mpd"),
        }
    }

    /// Returns the URL of the further request for the first title.
    fn further(&self, client: &mut Client) -> Result<Option<String>, Failure> {
        let base = format!("/{}.mp4/", title(self.name, 0));
        let playlist = match self.request {
            Request::Hls | Request::FirstSegment => format!("{base}.m3u8"),
            Request::Dash
            | Request::AfterRestart
            | Request::Renditions(_)
            | Request::Memory
            | Request::Resting => {
                client.get(&self.mpd(0))?;
                return Ok(None);
            }
            Request::Crowded => {
                client.get_refusal(&self.mpd(0), FOLDER_TOO_LARGE)?;
                return Ok(None);
            }
        };
        let media = first_uri(&client.text(&playlist)?, &base)?;
        if self.request == Request::Hls {
            client.get(&media)?;
            return Ok(Some(media));
        }
        let folder = media.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let segment = first_uri(&client.text(&media)?, &folder)?;
        client.get(&segment)?;
        Ok(Some(segment))
    }
}

/// Returns the path of the first URI in a playlist that lies in `folder`.
fn first_uri(playlist: &str, folder: &str) -> Result<String, Failure> {
    let uri = playlist.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    let uri = uri.ok_or("a playlist without a URI")?;
    Ok(if uri.starts_with('/') { uri.to_owned() } else { format!("{folder}{uri}") })
}

/// Waits until no thread of the server runs, such as those that write indexes to disk.
fn wait_until_idle(server: &Server) -> Result<(), Failure> {
    let mut last = processor_time(server)?;
    loop {
        thread::sleep(IDLE);
        let now = processor_time(server)?;
        if now == last {
            return Ok(());
        }
        last = now;
    }
}

/// Returns the processor time of all threads of a server.
fn processor_time(server: &Server) -> Result<Duration, Failure> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{}/task", server.id()))? {
        // A thread may have ended by now.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

/// Returns the bytes that the system calls of a server have read from files.
fn bytes_read(server: &Server) -> Result<f64, Failure> {
    let text = fs::read_to_string(format!("/proc/{}/io", server.id()))?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
    bytes.ok_or_else(|| "no rchar in /proc/PID/io".into())
}
