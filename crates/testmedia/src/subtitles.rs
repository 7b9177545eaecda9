//! Files of subtitles.

/// Returns SubRip with 2,000 cues of two lines, spread over two hours.
pub fn two_hours() -> String {
    (0..2000).map(cue).collect()
}

fn cue(number: u32) -> String {
    let stamp = |ms: u32| {
        let seconds = ms / 1000;
        let ms = ms % 1000;
        format!("{:02}:{:02}:{:02},{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    };
    let from = stamp(number * 3600 + 500);
    let until = stamp(number * 3600 + 3100);
    let text = format!("The harbour lay quiet in the morning\nwhen ship {number} came in");
    format!("{}\n{from} --> {until}\n{text}\n\n", number + 1)
}
