//! `latemux capture`: a stream as a client gets it, kept.

use crate::{
    serve::{say, stop_signal},
    trust::TrustFlags,
};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args as ClapArgs;
use latemux_capture::{Choice, Format, capture};
use latemux_client::{
    http::{Client, ClientOptions, Hosts},
    presentation::parse_bit_rate,
};
use latemux_quantity::TimeSpan;
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write, sink},
    path::{Path, PathBuf},
    sync::Arc,
};
use url::Url;

/// Plays a title of DASH, HLS, Smooth Streaming or HDS as a client, one segment after the other, and keeps its media and a list of its requests.
///
/// The samples are the server's own. What fails ends it: whole fragments until then stay, in OUTPUT.part. An output that ends in .ts keeps the
/// packets of HLS as they come, one in .flv the tags of HDS; any other is an MP4, of every protocol.
#[derive(Debug, ClapArgs)]
pub(crate) struct Capture {
    /// The manifest
    pub(crate) url: String,
    /// The file to write: an MP4, .ts or .flv
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// A line of JSON for each request: when, what, bytes, how long it took
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// The highest bit rate of renditions: 800k, 3M, min, max
    #[arg(long, default_value = "max", value_name = "RATE")]
    pub(crate) rate: String,
    /// Keep the text that plays by default too, or the first there is: WebVTT and TTML in fragments
    #[arg(long)]
    pub(crate) text: bool,
    /// Servers that the manifest may name beside its own: host or host:port; may be given several times
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// The longest a request may take
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) trust: TrustFlags,
}

/// Runs until all is kept, something fails, or it is told to stop.
pub(crate) fn run(flags: &Capture) -> Result<()> {
    let url = Url::parse(&flags.url).with_context(|| flags.url.clone())?;
    let rate = parse_bit_rate(&flags.rate).map_err(|why| anyhow!("--rate: {why}"))?;
    let extension = flags.output.extension().map(OsStr::to_ascii_lowercase).unwrap_or_default();
    let format = match extension.to_str() {
        Some("ts") => Format::Ts,
        Some("flv") => Format::Flv,
        _ => Format::Mp4,
    };
    let choice = Choice { rate, format, text: flags.text };
    let mut hosts = Hosts::default();
    hosts.allow_server(&url);
    for host in &flags.allow_host {
        hosts.allow(host).map_err(|why| anyhow!("--allow-host {why}"))?;
    }
    let options = ClientOptions { hosts, timeout: flags.timeout.0, ..ClientOptions::default() };
    let client = Client::new(Arc::new(flags.trust.network()?), options);
    let mut part = flags.output.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let create =
        |path: &PathBuf| File::create(path).with_context(|| format!("cannot write {}", path.display()));
    let mut out = BufWriter::new(create(&part)?);
    let mut trace: Box<dyn Write + Send> = match &flags.trace {
        Some(path) => Box::new(BufWriter::new(create(path)?)),
        None => Box::new(sink()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let captured = runtime.block_on(async {
        let stop = stop_signal()?;
        tokio::select! {
            captured = capture(&client, &url, choice, &mut out, &mut trace) => Ok(captured?),
            () = stop => bail!("stopped"),
        }
    });
    let flushed = out.flush().and_then(|()| trace.flush());
    let captured = match captured {
        Ok(captured) => captured,
        // Nothing came that is worth keeping.
        Err(error) if end_whole(&part, format).is_ok_and(|length| length == 0) => {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        Err(error) => {
            return Err(error.context(format!("what there is until then is in {}", part.display())));
        }
    };
    flushed.with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, &flags.output).with_context(|| format!("cannot write {}", flags.output.display()))?;
    let tracks = if format == Format::Mp4 { format!("{} tracks, ", captured.tracks) } else { String::new() };
    let (segments, bytes) = (captured.segments, captured.bytes);
    say(&format!("{}: {tracks}{segments} segments; {bytes} bytes were fetched\n", flags.output.display()))
}

/// Cuts off what is not whole: the last fragment, or packet, where the disk was full in the middle of it. Gives the length that is left.
fn end_whole(part: &Path, format: Format) -> Result<u64, io::Error> {
    let mut file = File::options().read(true).write(true).open(part)?;
    let length = file.metadata()?.len();
    let whole = match format {
        Format::Ts => length - length % 188,
        Format::Flv => length,
        Format::Mp4 => {
            let (mut at, mut whole) = (0_u64, 0);
            let mut head = [0; 16];
            // Each box with its size, 64 bits of it where 32 say 1; a `moof` without its `mdat` is not whole.
            while file.seek(SeekFrom::Start(at)).is_ok() && file.read_exact(&mut head[..8]).is_ok() {
                let [a, b, c, d, kind @ .., _, _, _, _, _, _, _, _] = head;
                let size = match u32::from_be_bytes([a, b, c, d]) {
                    1 if file.read_exact(&mut head[8..]).is_ok() => {
                        u64::from_be_bytes(head[8..].try_into().unwrap_or_default())
                    }
                    size => size.into(),
                };
                at = at.saturating_add(size.max(8));
                if at > length {
                    break;
                }
                if &kind == b"mdat" || &kind == b"moov" {
                    whole = at;
                }
            }
            whole
        }
    };
    file.set_len(whole)?;
    Ok(whole)
}
