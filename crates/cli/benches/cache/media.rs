//! Media at the bit rates of films: test video with noise, and a tone. They are made once and kept
//! in the target folder.

use latemux_testmedia::recipe;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Duration of the titles that are played, in seconds: twelve segments of 4 s.
const SECONDS: u32 = 48;
/// Size in pixels and bit rate in kbit/s. A segment of the last one takes 2 MB.
const RENDITIONS: [(&str, u32); 3] = [("640x360", 1000), ("960x540", 2500), ("1280x720", 4000)];
/// Arguments of ffmpeg for fragments as encoders write them, indexed by `sidx`.
const FRAGMENTED: &str = "-movflags +frag_keyframe+empty_moov+default_base_moof+global_sidx";

/// The folder that nginx serves: links to files elsewhere. Dropping this value removes the links.
pub(crate) struct Library {
    root: TempDir,
    video: Vec<PathBuf>,
    audio: PathBuf,
    muxed: Vec<PathBuf>,
    fragmented_video: Vec<PathBuf>,
    fragmented_audio: PathBuf,
    fragmented_muxed: PathBuf,
}

/// Layout of a title in storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One file with a rendition and its audio, interleaved.
    Interleaved,
    /// One file for each of three renditions, and one for the audio.
    Separate,
    /// The same, with every file in fragments.
    Fragmented,
    /// One file of fragments, each with a rendition and its audio.
    FragmentedInterleaved,
    /// Three files, each with a rendition and the same audio. This layout has no limits, since
    /// protocols that show one audio track never request that of two files.
    Ladder,
}

impl Layout {
    /// Layouts with limits.
    pub(crate) const MEASURED: [Self; 4] =
        [Self::Interleaved, Self::Separate, Self::Fragmented, Self::FragmentedInterleaved];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved MP4",
            Self::Separate => "separate MP4",
            Self::Fragmented => "separate fMP4",
            Self::FragmentedInterleaved => "interleaved fMP4",
            Self::Ladder => "ladder of interleaved MP4",
        }
    }

    /// Returns true if video and audio are in separate files.
    pub(crate) fn is_separate(self) -> bool {
        matches!(self, Self::Separate | Self::Fragmented)
    }
}

/// A title in nginx's folder.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) layout: Layout,
    /// First component of its URLs.
    pub(crate) path: String,
    /// Files of the title.
    pub(crate) files: Vec<PathBuf>,
}

fn noise(seconds: u32, size: &str, kbit: u32) -> String {
    format!(
        "-f lavfi -i testsrc2=size={size}:rate=25:duration={seconds},noise=alls=30:allf=t -c:v libx264 -preset ultrafast \
         -bf 2 -b_strategy 0 -b:v {kbit}k -minrate {kbit}k -maxrate {kbit}k -bufsize {kbit}k \
         -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p"
    )
}

impl Library {
    /// Makes the missing files, which takes about a minute the first time.
    pub(crate) fn make() -> Self {
        let make = |name: &str, args: &str| recipe::make(&format!("bench-cache-{name}"), "mp4", args);
        let copy = |name: &str, inputs: &[&PathBuf], muxer: &str| {
            let inputs: String = inputs.iter().map(|path| format!("-i {} ", path.display())).collect();
            let maps: String = (0..inputs.matches("-i ").count()).map(|n| format!("-map {n} ")).collect();
            make(name, &format!("{inputs}{maps}-c copy {muxer}"))
        };
        let video: Vec<_> =
            RENDITIONS.iter().map(|(size, kbit)| make("video", &noise(SECONDS, size, *kbit))).collect();
        let audio = make(
            "audio",
            &format!(
                "-f lavfi -i anoisesrc=duration={SECONDS}:sample_rate=48000:amplitude=0.3:seed=1 -c:a aac -b:a 128k -ac 2"
            ),
        );
        let root = tempfile::Builder::new().prefix("bench-cache-").tempdir_in(recipe::folder()).unwrap();
        Self {
            root,
            muxed: video.iter().map(|v| copy("muxed", &[v, &audio], "-movflags +faststart")).collect(),
            fragmented_video: video.iter().map(|v| copy("fragmented", &[v], FRAGMENTED)).collect(),
            fragmented_audio: copy(
                "fragmented-audio",
                &[&audio],
                "-frag_duration 2000000 -movflags +empty_moov+default_base_moof+global_sidx",
            ),
            fragmented_muxed: copy("fragmented-muxed", &[&video[2], &audio], FRAGMENTED),
            video,
            audio,
        }
    }

    /// Returns the folder that nginx serves.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the file of the highest rendition with its audio.
    pub(crate) fn muxed(&self) -> &Path {
        &self.muxed[2]
    }

    /// Returns one title of each layout.
    pub(crate) fn titles(&self) -> Vec<Stored> {
        let layouts = Layout::MEASURED.into_iter().chain([Layout::Ladder]);
        layouts.enumerate().map(|(n, layout)| self.title(layout, &format!("title{n}"))).collect()
    }

    /// Adds a title of a layout with the same bytes, whose names begin with `prefix`.
    pub(crate) fn title(&self, layout: Layout, prefix: &str) -> Stored {
        let list = |video: &[PathBuf], audio: Option<&PathBuf>| -> Vec<(String, PathBuf)> {
            let names = (1..).map(|n| format!("v{n}")).zip(video.iter().cloned());
            names.chain(audio.map(|audio| ("a".to_owned(), audio.clone()))).collect()
        };
        let parts = match layout {
            Layout::Interleaved => vec![(String::new(), self.muxed[2].clone())],
            Layout::FragmentedInterleaved => vec![(String::new(), self.fragmented_muxed.clone())],
            Layout::Separate => list(&self.video, Some(&self.audio)),
            Layout::Fragmented => list(&self.fragmented_video, Some(&self.fragmented_audio)),
            Layout::Ladder => list(&self.muxed, None),
        };
        let path = match &*parts {
            [_] => format!("{prefix}.mp4"),
            _ => {
                let names: String = parts.iter().map(|(name, _)| format!(",{name}")).collect();
                format!("{prefix}{names},.mp4.urlset")
            }
        };
        let files =
            parts.iter().map(|(name, file)| self.link(file, &format!("{prefix}{name}.mp4"))).collect();
        Stored { layout, path, files }
    }

    /// Adds a link to a file.
    pub(crate) fn link(&self, file: &Path, name: &str) -> PathBuf {
        let path = self.root().join(name);
        if !path.exists() {
            fs::hard_link(file, &path).unwrap();
        }
        path
    }
}

/// Returns the bytes of top-level boxes of these types, as (headers, payloads).
pub(crate) fn boxes(file: &[u8], types: &[&[u8; 4]]) -> (u64, u64) {
    let mut at = 0;
    let mut headers = 0;
    let mut payloads = 0;
    while let Some(head) = file.get(at..at + 8) {
        let small = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
        let (header, size) = match (small, file.get(at + 8..at + 16)) {
            (1, Some(large)) => (16, usize::try_from(u64::from_be_bytes(large.try_into().unwrap())).unwrap()),
            (0, _) => (8, file.len() - at),
            _ => (8, small),
        };
        assert!(size >= header, "a box of {size} bytes");
        if types.iter().any(|name| name[..] == head[4..]) {
            headers += header as u64;
            payloads += (size - header) as u64;
        }
        at += size;
    }
    (headers, payloads)
}
