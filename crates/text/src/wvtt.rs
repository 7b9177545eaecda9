//! WebVTT in MP4 (ISO/IEC 14496-30 §7): a sample holds the cues that are shown during it.

use crate::{
    Cue, SampleCue, TextError,
    join::Joiner,
    limits::{ACTIVE_CUES, SAMPLE_BYTES},
    webvtt,
};

/// The content of a sample in which nothing is shown: one `vtte` box.
pub const EMPTY: [u8; 8] = [0, 0, 0, 8, b'v', b't', b't', b'e'];

/// A sample and the time for which it is shown, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedSample {
    /// Time at which it begins.
    pub start: u64,
    /// Time at which the next one begins.
    pub end: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Returns the cues of a sample. Boxes that are damaged or not known are left out.
pub fn cues(sample: &[u8]) -> Vec<SampleCue> {
    let mut found = Vec::new();
    for (kind, body) in boxes(sample) {
        if kind != b"vttc" || found.len() >= ACTIVE_CUES {
            continue;
        }
        let mut id = String::new();
        let mut settings = String::new();
        let mut text = String::new();
        let mut source = None;
        for (kind, body) in boxes(body) {
            let string = || String::from_utf8_lossy(body).trim_end_matches('\0').to_owned();
            match kind {
                b"iden" => id = string(),
                b"sttg" => settings = string(),
                b"payl" => text = string(),
                b"vsid" => source = body.first_chunk().map(|&id| u64::from(u32::from_be_bytes(id))),
                _ => {}
            }
        }
        found.push(SampleCue { source, id, settings, text });
    }
    found
}

/// Returns the styles and regions of a track from the boxes of its sample entry: the blocks of
/// `vttC`. Empty for none.
pub fn header(entry_boxes: &[u8]) -> String {
    let configuration = boxes(entry_boxes).find(|(kind, _)| *kind == b"vttC");
    let text = configuration.map(|(_, body)| String::from_utf8_lossy(body));
    text.map(|text| webvtt::header_blocks(&text)).unwrap_or_default()
}

/// Returns true if a sample has cues that go over several samples.
pub fn has_parts_of_cues(sample: &[u8]) -> bool {
    let mut cues = boxes(sample).filter(|(kind, _)| *kind == b"vttc");
    cues.any(|(_, body)| boxes(body).any(|(kind, _)| kind == b"vsid"))
}

/// Iterates over the boxes of a sample with their types.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let size = usize::try_from(u32::from_be_bytes(*bytes.first_chunk()?)).ok()?;
        let one = bytes.get(..size)?;
        bytes = bytes.get(size..)?;
        Some((one.get(4..)?.first_chunk()?, one.get(8..)?))
    })
}

/// Returns the sample of cues that are shown together.
pub fn sample<'a>(cues: impl IntoIterator<Item = &'a SampleCue>) -> Vec<u8> {
    let mut out = Vec::new();
    for cue in cues {
        put_cue(
            cue.source.and_then(|id| u32::try_from(id).ok()),
            (&cue.id, &cue.settings, &cue.text),
            &mut out,
        );
    }
    if out.is_empty() { EMPTY.to_vec() } else { out }
}

fn put_cue(source: Option<u32>, (id, settings, text): (&str, &str, &str), out: &mut Vec<u8>) {
    let source = source.map(u32::to_be_bytes);
    let children: [(&[u8; 4], &[u8]); 4] = [
        (b"vsid", source.as_ref().map_or(&[], |id| id)),
        (b"iden", id.as_bytes()),
        (b"sttg", settings.as_bytes()),
        (b"payl", text.as_bytes()),
    ];
    let children = || children.iter().filter(|(_, body)| !body.is_empty());
    let size = 8 + children().map(|(_, body)| 8 + body.len()).sum::<usize>();
    put_box(b"vttc", size, out);
    for (kind, body) in children() {
        put_box(kind, 8 + body.len(), out);
        out.extend_from_slice(body);
    }
}

fn put_box(kind: &[u8; 4], size: usize, out: &mut Vec<u8>) {
    // Cues have at most `limits::CUE_BYTES`.
    out.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(kind);
}

/// Returns the samples of cues, which are sorted by start: from time 0 to the last end, without
/// gaps. A cue that goes over several samples has one `vsid` in all of them.
///
/// # Errors
/// [`TextError::OverLimit`] for samples of more than [`SAMPLE_BYTES`] in all.
pub fn samples(cues: &[Cue]) -> Result<Vec<TimedSample>, TextError> {
    let mut changes: Vec<u64> = cues.iter().flat_map(|cue| [cue.start, cue.end]).chain([0]).collect();
    changes.sort_unstable();
    changes.dedup();
    let mut samples = Vec::with_capacity(changes.len());
    let mut active: Vec<(u32, &Cue)> = Vec::new();
    let mut bytes = 0;
    let mut next = (1_u32..).zip(cues).peekable();
    for pair in changes.windows(2) {
        let &[start, end] = pair else { continue };
        active.retain(|(_, cue)| cue.end > start);
        while let Some(begun) = next.next_if(|(_, cue)| cue.start <= start) {
            active.push(begun);
        }
        let mut data = Vec::new();
        for (number, cue) in &active {
            let is_split = cue.start < start || cue.end > end;
            put_cue(is_split.then_some(*number), (&cue.id, &cue.settings, &cue.text), &mut data);
        }
        if data.is_empty() {
            data.extend_from_slice(&EMPTY);
        }
        bytes += data.len();
        if bytes > SAMPLE_BYTES {
            return Err(TextError::OverLimit("bytes of samples", SAMPLE_BYTES));
        }
        samples.push(TimedSample { start, end, data });
    }
    Ok(samples)
}

/// Returns the cues of consecutive samples by start, each of them once.
pub fn joined<'a>(samples: impl IntoIterator<Item = (u64, u64, &'a [u8])>) -> Vec<Cue> {
    let mut joiner = Joiner::default();
    for (start, end, data) in samples {
        for cue in cues(data) {
            joiner.push(start, end, cue);
        }
    }
    joiner.finish()
}

#[cfg(test)]
mod tests {
    use super::{EMPTY, cues, header, joined, samples};
    use crate::{Cue, TextError};

    fn cue(start: u64, end: u64, text: &str) -> Cue {
        Cue { start, end, id: String::new(), settings: String::new(), text: text.into() }
    }

    #[test]
    fn a_cue_over_several_samples_has_one_source() {
        let all = [cue(500, 3000, "a"), cue(1000, 2000, "b"), cue(4000, 5000, "c")];
        let samples = samples(&all).unwrap();
        let times: Vec<_> = samples.iter().map(|sample| (sample.start, sample.end)).collect();
        let want = [(0, 500), (500, 1000), (1000, 2000), (2000, 3000), (3000, 4000), (4000, 5000)];
        assert_eq!(times, want);
        assert_eq!(samples[0].data, EMPTY);
        let sources = |at: usize| cues(&samples[at].data).iter().map(|cue| cue.source).collect::<Vec<_>>();
        assert_eq!((sources(1), sources(2), sources(5)), (vec![Some(1)], vec![Some(1), None], vec![None]));
        // By hand from ISO/IEC 14496-30 §7.4.
        let c = [&[0, 0, 0, 17][..], b"vttc", &[0, 0, 0, 9], b"payl", b"c"].concat();
        assert_eq!(samples[5].data, c);
        assert_eq!(joined(samples.iter().map(|s| (s.start, s.end, &s.data[..]))), all);
    }

    #[test]
    fn a_long_cue_over_many_others_takes_no_more_than_the_limit() {
        let mut all = vec![cue(0, 1_000_000, &"x".repeat(60_000))];
        all.extend((0..1000).map(|n| cue(n * 10, n * 10 + 5, "y")));
        assert!(matches!(samples(&all), Err(TextError::OverLimit(..))));
    }

    #[test]
    fn styles_are_those_of_the_sample_entry() {
        let boxes = |text: &str| {
            let size = u32::try_from(8 + text.len()).unwrap().to_be_bytes();
            [&[0, 0, 0, 8], &b"free"[..], &size, b"vttC", text.as_bytes()].concat()
        };
        assert_eq!(header(&boxes("WEBVTT\n\nSTYLE\n::cue{}\n")), "STYLE\n::cue{}");
        assert_eq!(header(&boxes("WEBVTT")), "");
        assert_eq!(header(b"\0\0\0\xFFvttC"), "");
    }

    #[test]
    fn damaged_samples_hold_no_cues() {
        let long = [&[0, 0, 0, 200][..], b"vttcxxxx"].concat();
        for sample in [&[][..], &[0, 0, 0, 0], &[0, 0, 0, 4, 1, 2, 3, 4], &long, &[0; 64], &EMPTY] {
            assert_eq!(cues(sample), [], "{sample:?}");
        }
    }
}
