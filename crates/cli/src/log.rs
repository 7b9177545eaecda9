//! The log, on standard error.

use crate::config::Log;
use anyhow::{Context, Result, anyhow, ensure};
use std::{
    fmt::{self, Debug, Write as _},
    io::IsTerminal as _,
};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

/// Replaces the filter of the log.
pub(crate) type Handle = Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>;

/// Starts logging. Returns a function that replaces the filter.
pub(crate) fn start(config: &Log) -> Result<Handle> {
    let log = tracing_subscriber::fmt().with_env_filter(configured(config)?).with_writer(std::io::stderr);
    // Colours are for terminals, not for files.
    let log = log.with_ansi(std::io::stderr().is_terminal());
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| anyhow!("{error}");
    // Each format has a type of its own.
    if config.json {
        let log = log.json().with_filter_reloading();
        let handle = log.reload_handle();
        log.try_init().map_err(failed)?;
        Ok(Box::new(move |filter: EnvFilter| handle.reload(filter).map_err(anyhow::Error::from)))
    } else {
        let log = log.fmt_fields(UnambiguousFields).with_filter_reloading();
        let handle = log.reload_handle();
        log.try_init().map_err(failed)?;
        Ok(Box::new(move |filter: EnvFilter| handle.reload(filter).map_err(anyhow::Error::from)))
    }
}

/// Reads the filter that the environment variable `LATEMUX_LOG` or else the configuration states.
pub(crate) fn configured(config: &Log) -> Result<EnvFilter> {
    filter(&std::env::var("LATEMUX_LOG").unwrap_or_else(|_| config.filter.clone()))
}

/// Reads a filter of the log. A word without `=` must be a level: it would otherwise be taken for
/// the name of a part of the program, and the log would be empty.
pub(crate) fn filter(text: &str) -> Result<EnvFilter> {
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains('=')) {
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        ensure!(
            levels.contains(&word.to_ascii_lowercase().as_str()) || word.contains('['),
            "log filter '{text}': '{word}' is not a level: write off, error, warn, info, debug or trace"
        );
    }
    EnvFilter::try_new(text).with_context(|| format!("log filter '{text}'"))
}

/// Writes a message and fields such as `name=value` on one line. Text that could be taken for other
/// fields or lines, such as the name of a file, is put in quotes, with escapes.
#[derive(Debug)]
struct UnambiguousFields;

impl<'writer> FormatFields<'writer> for UnambiguousFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_begun: false, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

/// A line that is being written.
struct Line<'writer> {
    writer: Writer<'writer>,
    is_begun: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn write(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let name = field.name();
        // The origin of messages of other libraries, which the line states elsewhere.
        if self.result.is_err() || name.starts_with("log.") {
            return;
        }
        let space = if self.is_begun { " " } else { "" };
        self.is_begun = true;
        self.result = match name {
            "message" => write!(self.writer, "{space}{value}"),
            _ => write!(self.writer, "{space}{}={value}", name.trim_start_matches("r#")),
        };
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.write(field, format_args!("{value:?}"));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut plain = String::new();
        // Writing to a string cannot fail.
        let _ = write!(plain, "{value:?}");
        let quoted = format!("{plain:?}");
        // The quotes are two characters. More are escapes.
        let is_plain = quoted.len() == plain.len() + 2 && {
            let ambiguous = if field.name() == "message" { '=' } else { ' ' };
            !plain.is_empty() && !plain.contains(ambiguous)
        };
        let shown = if is_plain { plain } else { quoted };
        self.write(field, format_args!("{shown}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Returns the line of an event, without time and level.
    fn line(event: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Buffer(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Buffer {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .fmt_fields(UnambiguousFields)
            .without_time()
            .with_level(false)
            .with_target(false)
            .with_ansi(false);
        tracing::subscriber::with_default(log.finish(), event);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn decoded_names_stood_in_the_log_without_quotes() {
        let name = "x status=200 reason=\"ok\"\n2026-11-22T00:00:00Z INFO forged";
        let forged = line(|| tracing::info!(reason = "no_media", path = %name, "{name}: no media"));
        let quoted = "x status=200 reason=\\\"ok\\\"\\n2026-11-22T00:00:00Z INFO forged";
        assert_eq!(
            forged.trim_end(),
            format!("\"{quoted}: no media\" reason=\"no_media\" path=\"{quoted}\"")
        );
        for (name, shown) in [
            ("a b", "a b"),
            ("a=b", "\"a=b\""),
            ("a\"b", "\"a\\\"b\""),
            ("a\u{1b}[31mb", "\"a\\u{1b}[31mb\""),
            ("a\u{202e}b", "\"a\\u{202e}b\""),
            ("größe", "größe"),
        ] {
            assert_eq!(line(|| tracing::info!("{name}")).trim_end(), shown);
        }
    }

    #[test]
    fn other_lines_are_written_as_they_were() {
        let text = line(|| {
            tracing::info!(
                client = %"192.0.2.1",
                path = %"/film.mp4/.m3u8?filter=type=='audio'",
                status = 200,
                missing = None::<u64>,
                reason = "ok",
                named = "a b",
                empty = %"",
                is_true = true,
            );
        });
        let expected = "client=192.0.2.1 path=/film.mp4/.m3u8?filter=type=='audio' status=200 reason=\"ok\" \
                        named=\"a b\" empty=\"\" is_true=true";
        assert_eq!(text.trim_end(), expected);
        assert_eq!(line(|| tracing::info!(number = 1, "said")).trim_end(), "said number=1");
    }
}
