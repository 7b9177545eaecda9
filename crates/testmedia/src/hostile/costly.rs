//! The small files that cost the most of all that a search for costly files has found. They are
//! regression seeds for the fuzz target `cost`.

/// Returns the name and the recipe of each file, for [`HostileFile::from_bytes`]. One byte of a
/// recipe can stand for a large number: 112 stands for 65,536.
///
/// [`HostileFile::from_bytes`]: super::HostileFile::from_bytes
pub fn recipes() -> Vec<(&'static str, Vec<u8>)> {
    /// One track without samples in `moov`, of AAC.
    const FRAGMENTED: &[u8] = &[0, 1, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    /// A track of AVC, its samples of one byte and 4 s.
    const LONG: &[u8] = &[0, 0, 16, 120, 0, 1, 1, 130, 64, 0, 0, 127, 2, 0, 0];
    /// A thousand tracks of two samples, the second of which lasts to the end.
    const SHORT: &[u8] = &[63, 3, 16, 2, 0, 1, 2, 1, 200, 1, 16, 0, 0, 2, 2, 0, 0];
    /// Nineteen tracks with many segments each, whose peak bit rates took long to find.
    const RATES: &[u8] = &[
        2, 226, 14, 16, 17, 98, 2, 148, 131, 27, 82, 32, 131, 2, 55, 134, 7, 67, 19, 127, 0, 253, 2, 54, 134,
        3, 16, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 63, 1, 1, 33, 81, 112, 0, 0, 1, 0, 113,
    ];
    /// Fifteen tracks of 20,480 segments each, of which each run of the peak bit rate has many.
    const RUNS: &[u8] = &[
        2, 226, 14, 16, 17, 98, 2, 148, 131, 27, 82, 32, 131, 2, 55, 134, 7, 67, 19, 127, 0, 253, 2, 124, 0,
        1, 0, 113,
    ];
    /// 285 tracks of text, whose segments were read one by one.
    const CUES: &[u8] = &[
        78, 78, 78, 222, 78, 78, 127, 2, 1, 0, 226, 3, 16, 2, 255, 255, 127, 2, 0, 0, 63, 67, 16, 2, 0, 1, 2,
        1, 201, 1, 16, 0, 0, 2, 2, 0, 0,
    ];
    /// One segment of 90,112 I-frames.
    const SYNC: &[u8] =
        &[156, 116, 101, 120, 116, 115, 52, 52, 0, 0, 0, 0, 0, 0, 189, 63, 1, 1, 1, 112, 0, 0, 1, 8, 112];
    vec![
        // A thousand `moof`s of 65,536 samples without bytes.
        ("bare", [&[156, 0], FRAGMENTED, &[0, 63, 1, 1, 1, 112, 0, 0, 1, 0, 112]].concat()),
        ("boundaries", [&[2, 142], LONG, SHORT].concat()),
        ("cues", CUES.to_vec()),
        ("rates", RATES.to_vec()),
        ("runs", RUNS.to_vec()),
        ("sync", SYNC.to_vec()),
        ("tracks", [&[1, 142], &[63, 3, 16, 140, 0, 1, 1, 1, 1, 0, 0, 255, 2, 0, 0][..]].concat()),
    ]
}
