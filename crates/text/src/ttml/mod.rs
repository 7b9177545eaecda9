//! TTML documents, of which IMSC1 text and DFXP are profiles (W3C TTML1, TTML2, IMSC1.1).
//!
//! Read: times on `body`, `div`, `p` and `span`, which nest; italic, bold and underline; the eight
//! colours of WebVTT as classes; the place of a region at the top of the picture, and the alignment
//! of text. Anything else, such as fonts, images and animation, is dropped.

mod layout;
mod time;
mod write;

pub use write::write;

use crate::{
    Cue, Document, TextError,
    limits::{PARAGRAPH_CHANGES, XML_ATTRIBUTES, XML_DEPTH, XML_NODES, check_file, push, sort},
    markup,
};
use layout::{Look, Styles};
use roxmltree::{Node, ParsingOptions};
use time::Clock;

/// Parses a document.
///
/// # Errors
/// [`TextError::Malformed`] for text that is not XML, has a document type or another root than
/// `tt`, or states times that cannot be resolved; [`TextError::OverLimit`] beyond
/// [`crate::limits`].
pub fn parse(text: &str) -> Result<Document, TextError> {
    check_file(text.len())?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: XML_NODES, ..ParsingOptions::default() };
    check_attributes(text)?;
    let xml = roxmltree::Document::parse_with_options(text, options)
        .map_err(|error| TextError::Malformed(format!("the document is no XML: {error}")))?;
    let root = xml.root_element();
    if root.tag_name().name() != "tt" {
        return Err(TextError::Malformed("the root element is not tt".to_owned()));
    }
    let clock = Clock::of(root)?;
    let language = root.attributes().find(|a| a.name() == "lang").map_or("", |a| a.value());
    let mut reader = Reader { clock, styles: Styles::of(root), cues: Vec::new() };
    let body = root.children().find(|node| node.tag_name().name() == "body");
    let everything = Interval { start: 0, end: None };
    let look = Look::default();
    if let Some(body) = body {
        reader.block(body, everything, &look, has_preserved_space(root, false), 0)?;
    }
    let mut cues = reader.cues;
    sort(&mut cues)?;
    Ok(Document { header: String::new(), cues, language: language.to_owned() })
}

/// Refuses documents that would take the XML parser long.
fn check_attributes(text: &str) -> Result<(), TextError> {
    // Attribute values hold no `<`, so all attributes of an element are between two of them.
    let attributes = |tag: &str| tag.bytes().filter(|&byte| byte == b'=').count();
    let is_over = text.split('<').any(|tag| attributes(tag) > XML_ATTRIBUTES);
    if is_over || text.matches("xmlns").count() > XML_ATTRIBUTES {
        return Err(TextError::OverLimit("attributes of one XML element, or namespaces,", XML_ATTRIBUTES));
    }
    Ok(())
}

/// A stretch of time in milliseconds, without an end if it is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    start: u64,
    end: Option<u64>,
}

/// Text of a paragraph with one time and one look.
struct Run {
    interval: Interval,
    look: Look,
    text: String,
    is_preserved: bool,
}

struct Reader<'a, 'i> {
    clock: Clock,
    styles: Styles<'a, 'i>,
    cues: Vec<Cue>,
}

impl<'a, 'i> Reader<'a, 'i> {
    /// Returns the interval of an element within that of its parent (TTML1 §10.2).
    fn interval(&self, node: Node<'a, 'i>, parent: Interval) -> Result<Interval, TextError> {
        let time = |name: &str| {
            let text = node.attributes().find(|a| a.name() == name).map(|a| a.value());
            text.map(|text| self.clock.millis(text)).transpose()
        };
        let begin = time("begin")?;
        let end = time("end")?;
        let duration = time("dur")?;
        let start = parent.start.saturating_add(begin.unwrap_or(0));
        let by_end = end.map(|end| parent.start.saturating_add(end));
        let by_duration = duration.map(|duration| start.saturating_add(duration));
        let end = [by_end, by_duration, parent.end].into_iter().flatten().min();
        Ok(Interval { start, end })
    }

    /// Reads `body`, `div` or `p`.
    fn block(
        &mut self,
        node: Node<'a, 'i>,
        parent: Interval,
        look: &Look,
        preserved: bool,
        depth: usize,
    ) -> Result<(), TextError> {
        check_level(depth)?;
        let interval = self.interval(node, parent)?;
        let look = self.styles.apply(node, look);
        let preserved = has_preserved_space(node, preserved);
        if node.tag_name().name() == "p" {
            let mut runs = Vec::new();
            self.inline(node, interval, &look, preserved, depth, &mut runs)?;
            return self.paragraph(&runs, &look);
        }
        for child in node.children() {
            if matches!(child.tag_name().name(), "div" | "p") {
                self.block(child, interval, &look, preserved, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Collects the text of a paragraph.
    fn inline(
        &self,
        node: Node<'a, 'i>,
        interval: Interval,
        look: &Look,
        preserved: bool,
        depth: usize,
        runs: &mut Vec<Run>,
    ) -> Result<(), TextError> {
        check_level(depth)?;
        for child in node.children() {
            let run = |text: &str, is_preserved| Run {
                interval,
                look: look.clone(),
                text: text.to_owned(),
                is_preserved,
            };
            if child.is_text() {
                runs.push(run(child.text().unwrap_or_default(), preserved));
            } else if child.tag_name().name() == "br" {
                runs.push(run("\n", true));
            } else if child.tag_name().name() == "span" {
                let within = self.interval(child, interval)?;
                let look = self.styles.apply(child, look);
                let preserved = has_preserved_space(child, preserved);
                self.inline(child, within, &look, preserved, depth + 1, runs)?;
            }
        }
        Ok(())
    }

    /// Adds the cues of a paragraph: one, unless its parts have times of their own.
    fn paragraph(&mut self, runs: &[Run], look: &Look) -> Result<(), TextError> {
        let seen = || runs.iter().filter(|run| run.is_preserved || !run.text.trim().is_empty());
        let mut changes: Vec<u64> = seen().map(|run| run.interval.start).collect();
        changes.extend(seen().filter_map(|run| run.interval.end));
        changes.sort_unstable();
        changes.dedup();
        let is_endless = seen().any(|run| run.interval.end.is_none());
        if is_endless && changes.len() < 2 {
            // Shown until its sample or the presentation ends.
            changes.push(u64::MAX);
        }
        if changes.len() > PARAGRAPH_CHANGES {
            return Err(TextError::OverLimit("times in one paragraph", PARAGRAPH_CHANGES));
        }
        for pair in changes.windows(2) {
            let &[start, end] = pair else { continue };
            let is_shown =
                |run: &&Run| run.interval.start <= start && run.interval.end.is_none_or(|until| until >= end);
            let text = text_of(runs.iter().filter(is_shown));
            let settings = look.settings();
            push(&mut self.cues, Cue { start, end, id: String::new(), settings, text })?;
        }
        Ok(())
    }
}

fn check_level(depth: usize) -> Result<(), TextError> {
    if depth > XML_DEPTH { Err(TextError::OverLimit("levels of XML elements", XML_DEPTH)) } else { Ok(()) }
}

/// Returns the value of `xml:space` that applies to the text of an element.
fn has_preserved_space(node: Node<'_, '_>, inherited: bool) -> bool {
    match node.attributes().find(|a| a.name() == "space").map(|a| a.value()) {
        Some(value) => value == "preserve",
        None => inherited,
    }
}

/// Returns the WebVTT text of runs. White space counts as one space, and not beside line ends.
fn text_of<'r>(runs: impl Iterator<Item = &'r Run>) -> String {
    let mut pieces: Vec<(char, &Look)> = Vec::new();
    for run in runs {
        for character in run.text.chars() {
            let is_space = matches!(character, ' ' | '\t' | '\n' | '\r');
            let last = pieces.last().map(|(last, _)| *last);
            if !run.is_preserved && is_space {
                if last.is_some_and(|last| last != ' ' && last != '\n') {
                    pieces.push((' ', &run.look));
                }
            } else if character == '\n' {
                while pieces.last().is_some_and(|(last, _)| *last == ' ') {
                    pieces.pop();
                }
                // WebVTT has no empty lines.
                if pieces.last().is_some_and(|(last, _)| *last != '\n') {
                    pieces.push(('\n', &run.look));
                }
            } else if character != '\r' {
                pieces.push((character, &run.look));
            }
        }
    }
    while pieces.last().is_some_and(|(last, _)| matches!(last, ' ' | '\n')) {
        pieces.pop();
    }
    let mut out = String::new();
    let mut tags = layout::OpenTags::default();
    for (character, look) in pieces {
        if character != '\n' {
            tags.change(look, &mut out);
        }
        markup::push_escaped(character, &mut out);
    }
    tags.change(&Look::default(), &mut out);
    out
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
