//! Measures the cost of reading: `cargo run --release --example throughput --
//! http://127.0.0.1:8000/big.bin 2097152 4096 8` reads 4096 ranges of 2 MiB, 8 at a time. Prints
//! the size of frames, and the processor time per gigabyte.

use futures_util::{StreamExt, TryStreamExt, stream};
use latemux_storage::{Options, ReadRequest, open_object};
use std::error::Error;
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let location = arguments.next().ok_or("usage: give the location of an object")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let len = number(2 << 20)?;
    let reads = number(2048)?;
    let together = number(8)?;
    let (storage, key) = open_object(&location, &Options::default())?;
    let size = storage.read(ReadRequest::head(&key, 0)).await?.object.size;
    let places = size.checked_sub(len).ok_or("the object is smaller than one range")? / len + 1;
    let busy = processor_time()?;
    let begun = Instant::now();
    let storage = &storage;
    let key = &key;
    let each = |i: u64| async move {
        let at = i % places * len;
        let read = storage.read(ReadRequest::range(key, at..at + len)).await?;
        let count = |(frames, bytes), frame: bytes::Bytes| async move {
            Ok((frames + 1_u64, bytes + frame.len() as u64))
        };
        read.body.try_fold((0, 0), count).await
    };
    let all = stream::iter(0..reads).map(each).buffer_unordered(usize::try_from(together)?);
    let (frames, bytes) = all.try_fold((0, 0), |a, b| async move { Ok((a.0 + b.0, a.1 + b.1)) }).await?;
    let took = begun.elapsed();
    let busy = processor_time()?.saturating_sub(busy);
    println!("{reads} reads of {len} bytes, {together} at a time: {} ms", took.as_millis());
    println!("{frames} frames of {} bytes in the mean", bytes.checked_div(frames).unwrap_or(0));
    println!("{} CPU-ms per GB", busy.as_millis() * 1_000_000_000 / u128::from(bytes.max(1)));
    Ok(())
}

/// Returns the processor time of this process from the kernel: user and system, in ticks of 10 ms
/// (proc(5)).
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next().ok_or("too few fields")?.parse::<u64>().map_err(Box::<dyn Error>::from);
    Ok(Duration::from_millis((ticks()? + ticks()?) * 10))
}
