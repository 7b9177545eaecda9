//! Captures the log of the origin for tests.

use std::{
    io::{self, Write},
    sync::{Mutex, OnceLock},
};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts to capture the log. All tests of one process share it, so each test needs a path that no
/// other test requests.
pub(crate) fn keep() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .with_ansi(false)
            .with_writer(|| Lines)
            .init();
    });
}

/// Returns the captured lines that hold all of these words.
pub(crate) fn lines(words: &[&str]) -> Vec<String> {
    let bytes = LINES.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter(|line| words.iter().all(|w| line.contains(w))).map(str::to_owned).collect()
}

/// Waits for the access line of a path. It is written when the server drops the response, which may
/// be after the client has read it.
pub(crate) async fn access(path: &str) -> String {
    loop {
        if let Some(line) = lines(&[" access: ", &format!("path={path} ")]).pop() {
            return line;
        }
        tokio::task::yield_now().await;
    }
}
