//! No media that a rule covers leaves unencrypted, whatever the rule says and lacks.

use crate::{
    caching::smooth_fragments,
    client::get,
    encryption::{AUDIO_KEY, AUDIO_KID, VIDEO_KEY, VIDEO_KID, key_file, rule, with_rules},
    server::{Server, crawl, key, library},
    storms::Dice,
};
use latemux_origin::config::DrmRule;
use latemux_testmedia::recipe;
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// A run of media that no scheme leaves clear: longer than nine blocks of a pattern, with all the
/// clear bytes that may be around them.
const RUN: usize = 240;
/// Bytes at the start of a segment that may hold boxes and NAL units without slices, which stay
/// clear. x265 states its settings in more than 2 kB.
const HEAD: usize = 4096;

/// Returns the media of a segment: of a transport stream the payloads of its streams, else all.
fn media(body: &[u8]) -> Vec<u8> {
    let (packets, rest) = body.as_chunks::<188>();
    // A segment that is encrypted as a whole may begin with any byte.
    if !rest.is_empty() || packets.iter().any(|packet| packet[0] != 0x47) {
        return body.to_vec();
    }
    let mut streams = BTreeMap::<u16, Vec<u8>>::new();
    for packet in packets {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let adaptation = if packet[3] & 0x20 > 0 { 1 + usize::from(packet[4]) } else { 0 };
        if packet[3] & 0x10 > 0 && (0x100..0x1000).contains(&pid) {
            streams.entry(pid).or_default().extend(&packet[4 + adaptation..]);
        }
    }
    streams.into_values().flatten().collect()
}

/// Returns the position of a run of clear media in an encrypted segment.
pub(crate) fn clear_run(clear: &[u8], sent: &[u8]) -> Option<usize> {
    let clear = media(clear);
    let sent = media(sent);
    let places: BTreeMap<&[u8], usize> =
        (0..sent.len().saturating_sub(15)).map(|at| (&sent[at..at + 16], at)).collect();
    // Every run of this length holds one of these places whole.
    (HEAD..clear.len().saturating_sub(RUN)).step_by(RUN / 2).find(|&at| {
        let is_same =
            |from: usize| sent.get(from..).is_some_and(|rest| rest.starts_with(&clear[at..at + RUN]));
        // Runs of equal bytes, such as filler, are found anywhere. Slices of less than a block, or
        // of at most 48 bytes in transport streams, stay clear: NAL units begin in such runs.
        let run = &clear[at..at + RUN];
        let is_plain = run.iter().all(|byte| *byte == clear[at]);
        let has_edge = run.windows(3).any(|three| matches!(three, [0, 0, 0 | 1]));
        !is_plain && !has_edge && places.get(&clear[at..at + 16]).is_some_and(|&from| is_same(from))
    })
}

/// Number of whole seconds that a segment of a title lasts.
const SEGMENT: u64 = 4;

/// Returns the number of the segment (0-based) that a URL names, or that holds its I-frame. `None`
/// for Smooth Streaming, which has no clear lead.
fn segment_of(url: &str) -> Option<u64> {
    let file = url.rsplit_once('/')?.1.split('?').next()?;
    let (stem, extension) = file.rsplit_once('.')?;
    // Stems hold hyphens only behind the last name of a track.
    let mut numbers = stem.rsplit_once('=')?.1.split('-').skip(1).map(|n| n.parse::<u64>().unwrap());
    let number = numbers.next()?;
    Some(match (extension, url.contains("/keyframes/")) {
        // An I-frame every two seconds.
        ("dash", true) => (number - 1) * 2 / SEGMENT,
        // A time. Audio begins with the first frame behind the boundary.
        ("dash", false) if url.contains("video") => number / 12_800 / SEGMENT,
        ("dash", false) => (number + 2048) / 48_000 / SEGMENT,
        _ => number - 1,
    })
}

#[tokio::test]
async fn no_rule_sends_covered_media_clear() {
    let seed = RandomState::new().hash_one(0);
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    let library = library();
    let av1 = "-c:v libsvtav1 -preset 10 -g 50 -b:v 400k -svtav1-params tile-columns=1 -c:a aac";
    library.put(key("av1.mp4"), std::fs::read(recipe::coded("av1-covered", av1)).unwrap());
    let clear = Server::start(library.clone()).await;
    let titles = ["/lighthouse.mp4", "/buoy.mp4", "/fragmented.mp4", "/harbour", "/av1.mp4"];
    let mut urls = BTreeMap::new();
    for title in titles {
        let mut found = crawl(clear.address, title).await;
        found.retain(|url| [".ts", ".m4s", "=", "Fragments"].iter().any(|part| url.contains(part)));
        found.extend(smooth_fragments(clear.address, title.trim_start_matches('/')).await);
        urls.insert(title, found);
    }
    let entry = |kid: &str, key: &str, kind: &str| {
        format!(r#"{{"kid":"{kid}","key":"{key}","tracks":"type==\"{kind}\""}}"#)
    };
    let video = entry(VIDEO_KID, VIDEO_KEY, "video");
    let audio = entry(AUDIO_KID, AUDIO_KEY, "audio");
    let files = [
        key_file(&format!("{{\"keys\":[{video},{audio}]}}")),
        key_file(&format!("{{\"keys\":[{video}]}}")),
        key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#)),
        key_file("{}"),
    ];
    let mut sent = 0;
    let mut refused = 0;
    let mut lead = 0;
    let mut rules = 0;
    // Few rules of an unlucky draw are served: rules are drawn until both were seen.
    while rules < 24 || (rules < 400 && (sent <= 10 || refused == 0 || lead == 0)) {
        rules += 1;
        let named = |name: &&str| (!name.is_empty()).then(|| (*name).to_owned());
        let mut rule = DrmRule {
            dash: named(dice.of(&["", "cenc", "cbcs"])),
            mss: named(dice.of(&["", "piff"])),
            hls_ts: named(dice.of(&["", "aes-128", "sample-aes"])),
            hls_fmp4: named(dice.of(&["", "aes-128", "cenc", "cbcs"])),
            systems: ["playready", "clearkey"].map(str::to_owned).to_vec(),
            clear: if dice.one_in(3) { vec!["audio".to_owned()] } else { Vec::new() },
            clear_lead: Duration::from_secs(*dice.of(&[0, 0, 3, 5, 10])),
            ..rule(dice.of(&files))
        };
        let of_samples = |scheme: &Option<String>| scheme.as_ref().is_some_and(|name| name != "aes-128");
        if ![&rule.dash, &rule.hls_ts, &rule.hls_fmp4, &rule.mss].into_iter().any(of_samples) {
            rule.systems.clear();
        }
        if [&rule.dash, &rule.hls_ts, &rule.hls_fmp4, &rule.mss].iter().all(|scheme| scheme.is_none()) {
            continue;
        }
        if [&rule.dash, &rule.hls_ts, &rule.hls_fmp4].iter().all(|scheme| scheme.is_none()) {
            rule.clear_lead = Duration::ZERO;
        }
        let server = Server::with(library.clone(), with_rules(vec![rule.clone()]), None).await;
        let urls = &urls[dice.of(&titles)];
        for _ in 0..12 {
            let url = dice.of(urls);
            let is_of_clear_audio = !rule.clear.is_empty() && !url.contains("video");
            let answer = get(server.address, url).await;
            let plain = get(clear.address, url).await;
            if answer.status != 200 {
                refused += 1;
                continue;
            }
            let ends_in_lead = |segment| (segment + 1) * SEGMENT <= rule.clear_lead.as_secs();
            if segment_of(url).is_some_and(ends_in_lead) {
                lead += usize::from(clear_run(&plain.body, &answer.body).is_some());
            } else if !is_of_clear_audio {
                let found = clear_run(&plain.body, &answer.body);
                assert_eq!(found, None, "{url} of {rule:?}");
                sent += usize::from(plain.body.len() > HEAD + RUN);
            }
        }
    }
    // The search itself finds clear media.
    let url = urls["/lighthouse.mp4"].iter().find(|url| url.ends_with(".ts")).unwrap();
    let plain = get(clear.address, url).await.body;
    assert!(clear_run(&plain, &plain).is_some());
    assert!(sent > 10 && refused > 0 && lead > 0, "{sent} sent, {refused} refused, {lead} in a lead");
}
