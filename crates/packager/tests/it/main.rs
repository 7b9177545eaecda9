//! The packager from outside: files in, manifests and segments out, judged by tools that are not ours.

mod cmaf;
mod dash;
mod ffmpeg;
mod oracles;
mod origin;
