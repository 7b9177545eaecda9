//! What the origin logs, for tests to look into.

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

/// Begins to keep what is logged. Tests of one process share it: look for lines of a path no other
/// test asks for.
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

/// Lines that hold all of these words.
pub(crate) fn lines(words: &[&str]) -> Vec<String> {
    let bytes = LINES.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter(|line| words.iter().all(|w| line.contains(w))).map(str::to_owned).collect()
}

/// The access line of a path: it is written when the server has let go of the answer, which a
/// client does not see.
pub(crate) async fn access(path: &str) -> String {
    loop {
        if let Some(line) = lines(&[" access: ", &format!("path={path} ")]).pop() {
            return line;
        }
        tokio::task::yield_now().await;
    }
}
