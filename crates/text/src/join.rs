//! Cues from the samples of MP4, where a cue may go over several samples.

use crate::Cue;
use std::collections::HashMap;

/// One cue as a sample holds it: for the time of the sample.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampleCue {
    /// Tells which cues of consecutive samples are one. `None` if the cue is in one sample only.
    pub source: Option<u64>,
    /// Identifier, empty for none.
    pub id: String,
    /// WebVTT settings, empty for none.
    pub settings: String,
    /// Text with WebVTT markup.
    pub text: String,
}

/// Joins the cues of consecutive samples.
#[derive(Debug, Default)]
pub struct Joiner {
    cues: Vec<Cue>,
    /// Cues of the last samples that may go on, with their places in `cues`.
    open: HashMap<SampleCue, usize>,
}

impl Joiner {
    /// Adds a cue from `start` to `end` in milliseconds. Cues must come by start.
    pub fn push(&mut self, start: u64, end: u64, cue: SampleCue) {
        if end <= start || cue.text.is_empty() {
            return;
        }
        if cue.source.is_some()
            && let Some(&at) = self.open.get(&cue)
            && let Some(last) = self.cues.get_mut(at)
            && last.end == start
        {
            last.end = end;
            return;
        }
        let SampleCue { id, settings, text, .. } = cue.clone();
        if cue.source.is_some() {
            self.open.insert(cue, self.cues.len());
        }
        self.cues.push(Cue { start, end, id, settings, text });
    }

    /// Returns the cues by start.
    pub fn finish(self) -> Vec<Cue> {
        self.cues
    }
}
