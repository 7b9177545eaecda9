//! Reads timed text of every form: the first byte selects it. No input may panic, cues have sound
//! times in order, and what is written of them is read again with the same times.
#![no_main]

use latemux_text::{Cue, TextFormat, limits, parse, ttml, tx3g, webvtt, wvtt};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    let format = match form % 5 {
        0 => TextFormat::WebVtt,
        1 => TextFormat::SubRip,
        2 => TextFormat::Ttml,
        3 => {
            let _ = tx3g::text(data);
            return;
        }
        _ => {
            assert!(wvtt::cues(data).len() <= limits::ACTIVE_CUES);
            let _ = wvtt::header(data);
            return;
        }
    };
    let Ok(document) = parse(format, data) else { return };
    assert!(document.cues.iter().all(|cue| cue.start < cue.end && cue.start <= limits::LATEST));
    assert!(document.cues.is_sorted_by_key(|cue| cue.start));
    let times = |cues: &[Cue]| cues.iter().map(|cue| (cue.start, cue.end)).collect::<Vec<_>>();
    // Cues without an end, and those of more than 1,000 hours, cannot be written as times.
    let written: Vec<Cue> = document.cues.into_iter().filter(|cue| cue.end <= limits::LATEST).collect();
    let again = webvtt::parse(&webvtt::write(&document.header, &written, Some(0))).expect("written WebVTT");
    assert_eq!(times(&again.cues), times(&written));
    let Ok(samples) = wvtt::samples(&written) else { return };
    let joined = wvtt::joined(samples.iter().map(|sample| (sample.start, sample.end, &sample.data[..])));
    assert_eq!(times(&joined), times(&written));
    ttml::parse(&ttml::write("en", &written, 0)).expect("written TTML");
});
