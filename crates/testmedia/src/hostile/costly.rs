//! The small files that cost the most of all that a search for costly files, or a look at the code,
//! has found. They are regression seeds for the fuzz target `cost`.

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
        3, 16, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0,
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
    /// 461 tracks of frames of ten hours, each of which was repeated until the limit was reached.
    const FRAMES: &[u8] = &[
        74, 189, 14, 16, 17, 161, 118, 223, 131, 27, 82, 32, 132, 3, 55, 237, 131, 2, 231, 134, 7, 67, 19,
        127, 0, 2, 50, 125, 0, 1, 0, 113,
    ];
    /// Sixteen tracks of 20,480 segments of one I-frame, whose bit rates were computed twice.
    const SINGLE: &[u8] = &[
        2, 226, 15, 16, 17, 98, 191, 24, 131, 214, 82, 32, 131, 2, 55, 134, 7, 67, 19, 127, 0, 253, 4, 54,
        127, 0, 253, 2, 55, 134, 3, 210, 17, 2, 1, 0, 0, 0, 0, 0, 0, 0,
    ];
    /// 61 tracks of video, and 897 of sound with more segments, each compared with all video.
    const TARGETS: &[u8] = &[
        2, 144, 31, 0, 1, 50, 0, 1, 1, 50, 4, 2, 1, 0, 50, 1, 0, 50, 2, 0, 0, 62, 1, 1, 51, 0, 1, 1, 51, 4,
        0, 0, 51, 1, 0, 0,
    ];
    /// 61 tracks of video, and one of sound, with 5,120 segments of 9 s: in each of them, all cuts
    /// of the sound were counted.
    const LASTING: &[u8] = &[
        2, 144, 31, 0, 1, 82, 0, 1, 1, 82, 9, 2, 1, 0, 82, 1, 0, 82, 2, 0, 0, 0, 1, 1, 82, 0, 1, 1, 82, 9, 0,
        0, 82, 1, 0, 0,
    ];
    /// 29 tracks of video, and one of sound with 294,912 samples of uneven durations, which were
    /// read for each video.
    const SOUND: &[u8] = &[
        2, 144, 22, 0, 1, 58, 0, 1, 1, 58, 5, 2, 1, 0, 59, 1, 0, 78, 2, 0, 0, 0, 1, 37, 129, 0, 1, 2, 10, 1,
        1, 2, 0, 0, 129, 111, 0, 0,
    ];
    /// 61 tracks of video with few sync samples, and one with 294,912, each looked for in them.
    const SPARSE: &[u8] = &[
        2, 144, 31, 0, 1, 58, 88, 1, 1, 167, 5, 2, 1, 0, 58, 1, 0, 58, 157, 0, 0, 0, 156, 37, 129, 0, 1, 2,
        10, 1, 2, 3, 0, 0, 129, 111, 0, 0,
    ];
    /// 61 tracks of sound, and one of video with 294,912 samples, whose frames were counted twice
    /// for each segment.
    const STILLS: &[u8] = &[
        2, 144, 31, 127, 1, 58, 72, 1, 1, 167, 5, 2, 1, 0, 58, 0, 124, 154, 157, 0, 0, 0, 156, 37, 129, 0, 1,
        2, 10, 125, 2, 3, 0, 0, 129, 111, 10, 0,
    ];
    vec![
        // A thousand `moof`s of 65,536 samples without bytes.
        ("bare", [&[156, 0], FRAGMENTED, &[0, 63, 1, 1, 1, 112, 0, 0, 1, 0, 112]].concat()),
        ("boundaries", [&[2, 142], LONG, SHORT].concat()),
        ("cues", CUES.to_vec()),
        ("frames", FRAMES.to_vec()),
        ("lasting", LASTING.to_vec()),
        // The same, but each video is shorter than the one before, so that none shares its sound.
        ("lengths", [SOUND, &[1]].concat()),
        ("rates", RATES.to_vec()),
        ("runs", RUNS.to_vec()),
        ("single", SINGLE.to_vec()),
        ("sound", SOUND.to_vec()),
        ("sparse", SPARSE.to_vec()),
        ("stills", STILLS.to_vec()),
        ("sync", SYNC.to_vec()),
        ("targets", TARGETS.to_vec()),
        ("tracks", [&[1, 142], &[63, 3, 16, 140, 0, 1, 1, 1, 1, 0, 0, 255, 2, 0, 0][..]].concat()),
    ]
}
