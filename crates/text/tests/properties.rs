//! Conversions keep times and texts, and no input makes a reader panic.

use latemux_text::{Cue, TextFormat, markup, parse, ttml, tx3g, webvtt, wvtt};
use proptest::prelude::*;

fn cues() -> impl Strategy<Value = Vec<Cue>> {
    let text = proptest::collection::vec("[a-z<>&é\u{1F600} ]{1,12}", 1..3).prop_map(|lines| {
        let lines = lines
            .iter()
            .map(|line| format!("x{}", line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")));
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    });
    let cue = (
        0..100_000_u64,
        1..20_000_u64,
        "[a-z0-9]{0,4}",
        prop_oneof![Just(""), Just("line:0"), Just("align:end")],
        text,
    );
    proptest::collection::vec(cue, 1..40).prop_map(|all| {
        let cue = |(start, length, id, settings, text): (u64, u64, String, &str, String)| Cue {
            start,
            end: start + length,
            id,
            settings: settings.to_owned(),
            text,
        };
        let mut cues: Vec<Cue> = all.into_iter().map(cue).collect();
        cues.sort_by_key(|cue| cue.start);
        cues
    })
}

proptest! {
    #[test]
    fn cues_go_through_webvtt_and_samples_unchanged(cues in cues()) {
        let file = webvtt::write("", &cues, None);
        let read = webvtt::parse(&file).unwrap().cues;
        prop_assert_eq!(&read, &cues);
        let samples = wvtt::samples(&cues).unwrap();
        for pair in samples.windows(2) {
            prop_assert_eq!(pair[0].end, pair[1].start, "without gaps");
        }
        prop_assert_eq!(samples[0].start, 0);
        let joined = wvtt::joined(samples.iter().map(|s| (s.start, s.end, s.data.as_slice())));
        prop_assert_eq!(&joined, &cues);
    }

    #[test]
    fn cues_go_through_ttml_with_times_and_plain_text(cues in cues()) {
        let read = ttml::parse(&ttml::write("en", &cues, 0)).unwrap().cues;
        let seen = |cue: &Cue| (cue.start, cue.end, markup::plain(&cue.text));
        prop_assert_eq!(read.iter().map(seen).collect::<Vec<_>>(), cues.iter().map(seen).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for format in [TextFormat::WebVtt, TextFormat::SubRip, TextFormat::Ttml] {
            let _ = parse(format, &bytes);
        }
        let _ = (tx3g::text(&bytes), wvtt::cues(&bytes));
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "(WEBVTT\n)?(\n|[0-9:.]{1,6}|-->|<|>|/|&|[a-z#;]|\\{|\\}| |00:01.000 --> 00:02.000){0,60}") {
        for format in [TextFormat::WebVtt, TextFormat::SubRip] {
            if let Ok(document) = parse(format, text.as_bytes()) {
                let again = webvtt::parse(&webvtt::write(&document.header, &document.cues, Some(1))).unwrap();
                let times = |cues: &[Cue]| cues.iter().map(|cue| (cue.start, cue.end)).collect::<Vec<_>>();
                prop_assert_eq!(times(&again.cues), times(&document.cues));
                ttml::parse(&ttml::write("", &document.cues, 0)).unwrap();
            }
        }
    }
}
