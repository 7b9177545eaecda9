//! `latemux capture`: saves a stream as a client receives it.

use crate::{location::http_url, signals::stop_signal, standard_output::say, trust::TrustFlags};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args as ClapArgs;
use latemux_capture::{CaptureOptions, CaptureSummary, OutputFormat, capture};
use latemux_client::{
    http::{AllowedHosts, Client, ClientOptions},
    presentation::parse_bit_rate,
};
use latemux_quantity::TimeSpan;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write, sink},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Save a stream as a client receives it: one file of its media, and a list of requests
///
/// The stream is DASH, HLS, Smooth Streaming or HDS. Its segments are fetched one after the other,
/// and checked. The samples are those that the server sends, unchanged. The first failure ends the
/// capture; the complete fragments received until then stay in FILE.part.
///
/// The extension of the output selects the format. With .mp4, .m4v, .m4a or none, any stream is
/// saved as an MP4. With .ts, the packets of HLS are saved, and with .flv the tags of HDS.
#[derive(Debug, ClapArgs)]
pub(crate) struct Capture {
    /// URL of the manifest
    pub(crate) url: String,
    /// File to write: .mp4 (also .m4v, .m4a or no extension), .ts or .flv
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// File to which each request is written as a line of JSON: time, URL, bytes and duration
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Highest bit rate of the renditions to save: 800k, 3M, min, max
    #[arg(long, default_value = "max", value_name = "RATE")]
    pub(crate) rate: String,
    /// Also save the default text track, or else the first: WebVTT or TTML in fragments
    #[arg(long)]
    pub(crate) text: bool,
    /// Another server that the manifest may refer to: host or host:port; can be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Time within which a response must be complete
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) trust: TrustFlags,
}

/// Runs until the title is saved, something fails, or a signal stops it.
pub(crate) fn run(flags: &Capture) -> Result<()> {
    let url = http_url(&flags.url)?;
    let rate = parse_bit_rate(&flags.rate).map_err(|why| anyhow!("--rate: {why}"))?;
    let format = format_of(&flags.output)?;
    let options = CaptureOptions { rate, format, text: flags.text };
    let mut hosts = AllowedHosts::default();
    hosts.allow_server(&url);
    for host in &flags.allow_host {
        hosts.allow(host).map_err(|why| anyhow!("--allow-host {why}"))?;
    }
    let client_options = ClientOptions { hosts, timeout: flags.timeout.0, ..ClientOptions::default() };
    let client = Client::new(Arc::new(flags.trust.network()?), client_options);
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
            captured = capture(&client, &url, options, &mut out, &mut trace) => Ok(captured?),
            () = stop => bail!("stopped"),
        }
    });
    let flushed = out.flush().and_then(|()| trace.flush());
    let captured = match captured {
        Ok(captured) => captured,
        // A file without any media is removed.
        Err(error) if truncate_to_whole(&part, format).is_ok_and(|length| length == 0) => {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        Err(error) => {
            bail!("{error:#}; the media received until then is in {}", part.display());
        }
    };
    flushed.with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, &flags.output).with_context(|| format!("cannot write {}", flags.output.display()))?;
    let tracks =
        if format == OutputFormat::Mp4 { format!("{} tracks, ", captured.tracks) } else { String::new() };
    let CaptureSummary { segments, bytes, .. } = captured;
    say(&format!("{}: {tracks}{segments} segments; {bytes} bytes fetched\n", flags.output.display()))
}

/// Returns the format that the extension of an output selects.
fn format_of(output: &Path) -> Result<OutputFormat> {
    match output.extension().unwrap_or_default().to_ascii_lowercase().to_str() {
        Some("" | "mp4" | "m4v" | "m4a") => Ok(OutputFormat::Mp4),
        Some("ts") => Ok(OutputFormat::Ts),
        Some("flv") => Ok(OutputFormat::Flv),
        _ => bail!(
            "{}: cannot write this format, only .mp4 (also .m4v, .m4a or no extension), .ts and .flv",
            output.display()
        ),
    }
}

/// Truncates a file after its last whole fragment or packet: a full disk may have cut one. Returns
/// the length that is left.
fn truncate_to_whole(part: &Path, format: OutputFormat) -> Result<u64, io::Error> {
    let mut file = File::options().read(true).write(true).open(part)?;
    let length = file.metadata()?.len();
    let whole = match format {
        OutputFormat::Ts => length - length % 188,
        OutputFormat::Flv => length,
        OutputFormat::Mp4 => {
            let mut at = 0_u64;
            let mut whole = 0;
            let mut head = [0; 16];
            // A box has a size of 32 bits, or of 64 bits if those are 1. A `moof` without its
            // `mdat` is not whole.
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
