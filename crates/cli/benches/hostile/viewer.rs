//! A normal viewer: it plays a title, one segment after the other, over one connection.

use crate::{connection::Connection, media::FILM, origin::Origin};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Pause between two requests.
const PACE: Duration = Duration::from_millis(10);

/// A viewer with its connection.
pub(crate) struct Viewer {
    connection: Connection,
    manifest: String,
    segments: Vec<String>,
}

/// What a viewer met.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// Time of each request from its first byte to the last byte of the response, in order of
    /// length.
    times: Vec<Duration>,
    /// Requests without a complete, right response.
    pub(crate) failed: usize,
}

impl Played {
    pub(crate) fn requests(&self) -> usize {
        self.times.len()
    }

    /// Returns the time within which all but one in a hundred responses were complete.
    pub(crate) fn percentile_99(&self) -> Duration {
        let at = (self.times.len() * 99).div_ceil(100).saturating_sub(1);
        self.times.get(at).copied().unwrap_or_default()
    }
}

impl Viewer {
    /// Opens a title as a viewer does, and plays it once.
    pub(crate) fn of(origin: &Origin) -> Self {
        let mut connection = Connection::to(origin.address);
        connection.digests = false;
        let manifest = format!("/{FILM}/.m3u8");
        let multivariant = crate::client::get(origin.address, &manifest);
        let uris = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines.map(str::to_owned).collect()
        };
        let folder = manifest.rsplit_once('/').unwrap().0;
        let playlist = format!("{folder}/{}", uris(multivariant.text()).remove(0));
        let folder = playlist.rsplit_once('/').unwrap().0.to_owned();
        let list = crate::client::get(origin.address, &playlist);
        let segments: Vec<String> =
            uris(list.text()).iter().map(|segment| format!("{folder}/{segment}")).collect();
        let mut viewer = Self { connection, manifest, segments };
        viewer.play_once();
        viewer
    }

    /// Returns the same viewer over another connection, to an origin with the same titles.
    pub(crate) fn over(self, connection: Connection) -> Self {
        let mut moved = Self { connection, ..self };
        moved.connection.digests = false;
        moved.play_once();
        moved
    }

    /// Requests each segment once.
    fn play_once(&mut self) {
        for url in &self.segments {
            self.connection.get(url);
        }
    }

    /// Plays until `over`, and measures each response. Every thirtieth is a manifest.
    pub(crate) fn play(&mut self, over: &AtomicBool) -> Played {
        let mut played = Played::default();
        for n in 0.. {
            if over.load(Relaxed) {
                break;
            }
            let url = match n % 30 {
                0 => &self.manifest,
                _ => &self.segments[n % self.segments.len()],
            };
            let begun = Instant::now();
            match self.connection.request(url, None).status {
                200 => played.times.push(begun.elapsed()),
                _ => played.failed += 1,
            }
            thread::sleep(PACE);
        }
        played.times.sort_unstable();
        played
    }
}
