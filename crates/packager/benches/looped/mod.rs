//! Long media files for benchmarks.

use latemux_testmedia::recipe::folder;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns a file that plays a shorter one several times, made on the first call.
pub(crate) fn looped(short: &Path, name: &str, times: u32) -> PathBuf {
    let long = folder().join(format!("{name}.mp4"));
    if !long.exists() {
        let partial = folder().join(format!("{name}-{}.mp4", std::process::id()));
        let status = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-y", "-stream_loop"])
            .arg((times - 1).to_string())
            .arg("-i")
            .arg(short)
            .args(["-c", "copy"])
            .arg(&partial)
            .status()
            .expect("ffmpeg is installed");
        assert!(status.success());
        std::fs::rename(partial, &long).expect("same folder");
    }
    long
}
