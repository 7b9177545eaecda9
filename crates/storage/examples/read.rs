//! Reads the first bytes of an object: `cargo run --example read -- https://host/vod/film.mp4`.

use futures_util::TryStreamExt;
use latemux_storage::{Options, ReadRequest, open_object};
use std::error::Error;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<(), Box<dyn Error>> {
    let location = std::env::args().nth(1).ok_or("usage: give the location of an object")?;
    let (storage, key) = open_object(&location, &Options::default())?;
    let read = storage.read(ReadRequest::head(&key, 1024 * 1024)).await?;
    println!("{} of {}: {:?}", key, storage.describe(), read.object);
    let frames: Vec<_> = read.body.try_collect().await?;
    println!("{} bytes in {} frames", frames.iter().map(bytes::Bytes::len).sum::<usize>(), frames.len());
    Ok(())
}
