//! Media of the attacks, made once and kept in the target folder.

use latemux_testmedia::recipe;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Path of the title that the viewer plays.
pub(crate) const FILM: &str = "film.mp4";
/// Duration of that title, in seconds.
pub(crate) const SECONDS: u32 = 120;

/// The folder that nginx serves: links to files elsewhere. Dropping this value removes the links.
pub(crate) struct Library {
    root: TempDir,
    film: PathBuf,
}

impl Library {
    /// Makes the missing files.
    pub(crate) fn make() -> Self {
        let film = recipe::make(
            "bench-hostile-film",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=640x360:rate=25:duration={SECONDS},noise=alls=30:allf=t \
                 -f lavfi -i sine=frequency=440:sample_rate=48000:duration={SECONDS} \
                 -c:v libx264 -preset ultrafast -b:v 1000k -minrate 1000k -maxrate 1000k -bufsize 1000k \
                 -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a aac -b:a 128k -movflags +faststart"
            ),
        );
        let root = tempfile::Builder::new().prefix("bench-hostile-").tempdir_in(recipe::folder()).unwrap();
        let library = Self { root, film };
        library.film(FILM);
        library
    }

    /// Returns the folder that nginx serves.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Adds the film under another name.
    pub(crate) fn film(&self, name: &str) {
        fs::hard_link(&self.film, self.root().join(name)).unwrap();
    }
}
