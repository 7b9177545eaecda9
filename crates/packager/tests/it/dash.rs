//! MPDs, parsed by an independent parser and followed to their segments.

use crate::{
    media::{avc_aac, fragmented, hevc, hevc_open, ladder, signed, with_mfra, with_sidx},
    oracles::{Fragment, moov},
};
use dash_mpd_core::{AdaptationSet, MPD, Representation, SegmentTemplate, check_conformity};
use latemux_index::{Title, Track, media::TrackKind};
use latemux_isobmff::codec::{Audio, Colour, Config, Media, Video, VideoRange};
use latemux_packager::{Address, Resource, address::DashTemplate, carry::Protocol, sizes::Bitrate};
use latemux_testmedia::origin::{NAME, Origin};
use latemux_testmedia::recipe::make;
use std::{path::PathBuf, sync::Arc, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

fn mpd(origin: &mut Origin, template: DashTemplate) -> MPD {
    let text = origin.text(&Resource::DashManifest(template));
    let mpd = dash_mpd_core::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(check_conformity(&mpd), Vec::<String>::new(), "{text}");
    mpd
}

/// Returns the sets for playing at normal speed, which come first.
fn sets(mpd: &MPD) -> &[AdaptationSet] {
    let sets = &mpd.periods[0].adaptations;
    let is_trick = |set: &AdaptationSet| {
        set.essential_property.iter().any(|property| property.schemeIdUri.contains("trickmode"))
    };
    &sets[..sets.iter().position(is_trick).unwrap_or(sets.len())]
}

fn template<'a>(set: &'a AdaptationSet, representation: &'a Representation) -> &'a SegmentTemplate {
    representation.SegmentTemplate.as_ref().or(set.SegmentTemplate.as_ref()).unwrap()
}

/// Returns start and duration of every segment, as a player computes them.
fn timeline(template: &SegmentTemplate) -> Vec<(u64, u64)> {
    let mut at = 0;
    let mut segments = Vec::new();
    for s in &template.SegmentTimeline.as_ref().unwrap().segments {
        at = s.t.unwrap_or(at);
        for _ in 0..=s.r.unwrap_or(0) {
            segments.push((at, s.d));
            at += s.d;
        }
    }
    segments
}

/// Parses the URL that a player takes from the manifest.
fn follow(relative: &str) -> Resource {
    let address = Address::parse(&format!("/{NAME}.mp4/{relative}"), None).expect(relative);
    assert_eq!(address.base, format!("{NAME}.mp4"));
    address.resource
}

#[test]
fn the_timeline_matches_the_segments_to_the_tick() {
    let mut titles: Vec<Vec<PathBuf>> =
        [avc_aac(), hevc(), hevc_open(), fragmented(), with_sidx(), with_mfra(), signed()]
            .into_iter()
            .map(|f| vec![f])
            .collect();
    titles.push(ladder());
    for files in titles {
        for by in [DashTemplate::Time, DashTemplate::Number] {
            let mut origin = Origin::open(&files, TARGET);
            let mpd = mpd(&mut origin, by);
            let mut followed = 0;
            for set in sets(&mpd) {
                for representation in &set.representations {
                    let id = representation.id.clone().unwrap();
                    let template = template(set, representation);
                    let fill = |url: &Option<String>| url.clone().unwrap().replace("$RepresentationID$", &id);
                    let moov = moov(&origin.get(&follow(&fill(&template.initialization))).unwrap().bytes);
                    let segments = timeline(template);
                    let count = u32::try_from(segments.len()).unwrap();
                    for (n, (start, duration)) in (1_u64..).zip(segments) {
                        let url = fill(&template.media)
                            .replace("$Time$", &start.to_string())
                            .replace("$Number$", &n.to_string());
                        let response = origin.get(&follow(&url)).unwrap();
                        let fragment = Fragment::read(&moov, &response.bytes);
                        let what = format!("{} {url}", files[0].display());
                        assert_eq!(fragment.start().max(0), i64::try_from(start).unwrap(), "{what}");
                        assert_eq!(fragment.end(), i64::try_from(start + duration).unwrap(), "{what}");
                        followed += 1;
                    }
                    let name = &origin.title.tracks()
                        [origin.title.tracks().iter().position(|t| t.name.to_string() == id).unwrap()]
                    .name;
                    assert_eq!(count, origin.segment_count(name));
                }
            }
            assert!(followed > 3);
        }
    }
}

#[test]
fn the_manifest_describes_the_media() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let mpd = mpd(&mut origin, DashTemplate::Time);
    assert_eq!(mpd.mpdtype.as_deref(), Some("static"));
    assert_eq!(mpd.profiles.as_deref(), Some("urn:mpeg:dash:profile:isoff-live:2011"));
    // 9 s of video; the last audio frame may end later.
    let duration = mpd.mediaPresentationDuration.unwrap();
    assert!(duration >= Duration::from_secs(9) && duration < Duration::from_millis(9100), "{duration:?}");

    let [video, english, french] = sets(&mpd) else { panic!("{:#?}", sets(&mpd)) };
    assert_eq!(video.contentType.as_deref(), Some("video"));
    assert_eq!((video.maxWidth, video.maxHeight), (Some(640), Some(360)));
    assert_eq!(video.par.as_deref(), Some("16:9"));
    assert_eq!(video.segmentAlignment, Some(true));
    assert_eq!(video.startWithSAP, Some(1));
    assert_eq!(video.representations.len(), 3);
    assert!(video.SegmentTemplate.is_some(), "one timeline for all three");
    let heights: Vec<_> = video.representations.iter().map(|r| r.height).collect();
    assert_eq!(heights, [Some(180), Some(288), Some(360)]);
    for r in &video.representations {
        assert_eq!(r.frameRate.as_deref(), Some("25"));
        assert!(r.codecs.as_deref().unwrap().starts_with("avc1."));
        assert_eq!(r.sar.as_deref(), Some("1:1"));
    }
    for (audio, language, role) in [(english, "en", "main"), (french, "fr", "alternate")] {
        assert_eq!(audio.lang.as_deref(), Some(language));
        assert_eq!(audio.Role[0].value.as_deref(), Some(role));
        let r = &audio.representations[0];
        assert_eq!(r.audioSamplingRate.as_deref(), Some("48000"));
        assert_eq!(r.codecs.as_deref(), Some("mp4a.40.2"));
        let channels = &r.AudioChannelConfiguration[0];
        assert_eq!(channels.schemeIdUri, "urn:mpeg:mpegB:cicp:ChannelConfiguration");
        assert_eq!(channels.value.as_deref(), Some("1"));
    }
}

#[test]
fn bandwidth_and_buffer_suffice_for_every_run_of_segments() {
    let mut origin = Origin::open(&ladder(), TARGET);
    let mpd = mpd(&mut origin, DashTemplate::Time);
    let buffer = mpd.minBufferTime.unwrap().as_micros();
    for set in sets(&mpd) {
        for r in &set.representations {
            let index = origin
                .title
                .tracks()
                .iter()
                .position(|t| t.name.to_string() == *r.id.as_ref().unwrap())
                .unwrap();
            let bandwidth = r.bandwidth.unwrap();
            assert_eq!(bandwidth, Bitrate::of_tracks(&origin.title, &[index], Protocol::Dash).peak);
            let name = origin.title.tracks()[index].name.clone();
            let template = template(set, r);
            let segments: Vec<(u128, u128)> = (1..)
                .zip(timeline(template))
                .map(|(n, (start, _))| {
                    let length = origin.get(&Resource::DashSegment(name.clone(), n)).unwrap().content_length;
                    let micros = u128::from(start) * 1_000_000 / u128::from(template.timescale.unwrap());
                    (u128::from(length) * 8, micros)
                })
                .collect();
            for first in 0..segments.len() {
                let mut bits = 0;
                for &(more, at) in &segments[first..] {
                    bits += more;
                    // One microsecond is allowed for the rounding above.
                    let received = u128::from(bandwidth) * (buffer + at - segments[first].1 + 1) / 1_000_000;
                    assert!(bits <= received, "{name} from {first}: {bits} > {received}");
                }
            }
        }
    }
}

#[test]
fn the_digest_of_a_manifest_depends_on_its_base_but_that_of_media_does_not() {
    let origin = Origin::open(&[avc_aac()], TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    let digest = |name: &str, resource: &Resource| match latemux_packager::plan(
        &origin.title,
        &Address::new(name, resource.clone()),
        &latemux_index::media::fragment_samples::NoFragments,
    )
    .unwrap()
    {
        latemux_packager::Planned::Ready(plan) => plan.digest,
        _ => panic!("sample tables need no reads"),
    };
    let manifest = Resource::DashManifest(DashTemplate::Time);
    assert_ne!(digest("a", &manifest), digest("b", &manifest));
    assert_ne!(digest("a", &manifest), digest("a", &Resource::DashManifest(DashTemplate::Number)));
    let segment = Resource::DashSegment(video, 1);
    assert_eq!(digest("a", &segment), digest("b", &segment));
}

/// Returns a title whose tracks are altered to properties that ffmpeg cannot write.
fn altered(alter: impl FnOnce(&mut Vec<Track>)) -> Origin {
    let mut origin = Origin::open(&ladder(), TARGET);
    let mut tracks: Vec<Track> =
        origin.title.tracks().iter().map(|t| origin.title.track(t).clone()).collect();
    alter(&mut tracks);
    let mut objects = origin.title.objects().to_vec();
    for (title_track, track) in origin.title.tracks().iter().zip(tracks) {
        let object = Arc::make_mut(&mut objects[title_track.object]);
        object.tracks[title_track.track] = track;
    }
    origin.title = Title::new(objects, TARGET).unwrap();
    origin
}

fn video_of(track: &mut Track) -> &mut Video {
    match &mut track.codec.media {
        Media::Video(video) => video,
        other => panic!("{other:?}"),
    }
}

fn audio_of(track: &mut Track) -> &mut Audio {
    match &mut track.codec.media {
        Media::Audio(audio) => audio,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hdr_is_a_separate_set_with_essential_properties() {
    let hdr = |track: &mut Track| {
        let video = video_of(track);
        video.range = VideoRange::Pq;
        video.colour = Some(Colour { primaries: 9, transfer: 16, matrix: 9 });
        video.supplemental = Some("dvh1.08.07/db4h".to_owned());
    };
    let mut origin = altered(|tracks| hdr(&mut tracks[2]));
    let text = origin.text(&Resource::DashManifest(DashTemplate::Time));
    assert!(text.contains(r#"scte214:supplementalCodecs="dvh1.08.07" scte214:supplementalProfiles="db4h""#));
    assert!(text.contains(r#"xmlns:scte214="urn:scte:dash:scte214-extensions""#));
    // The schema prescribes an order: properties, role, template, representations.
    let set = text.split("<AdaptationSet").nth(2).unwrap();
    let places =
        ["<EssentialProperty", "<Role", "<SegmentTemplate", "<Representation"].map(|e| set.find(e).unwrap());
    assert!(places.is_sorted(), "{set}");
    let mpd = mpd(&mut origin, DashTemplate::Time);
    let [sdr, hdr_set, ..] = sets(&mpd) else { panic!("{text}") };
    assert_eq!((sdr.representations.len(), hdr_set.representations.len()), (2, 1));
    assert!(sdr.essential_property.is_empty());
    let properties: Vec<_> = hdr_set
        .essential_property
        .iter()
        .map(|p| (p.schemeIdUri.rsplit(':').next().unwrap(), p.value.as_deref().unwrap()))
        .collect();
    assert_eq!(
        properties,
        [("ColourPrimaries", "9"), ("MatrixCoefficients", "9"), ("TransferCharacteristics", "16")]
    );

    // Without an alternative, a player that does not know the scheme should play it too.
    let mut origin = altered(|tracks| tracks[..3].iter_mut().for_each(hdr));
    let mpd = self::mpd(&mut origin, DashTemplate::Time);
    assert!(sets(&mpd)[0].essential_property.is_empty());
    assert_eq!(sets(&mpd)[0].supplemental_property.len(), 3);
}

#[test]
fn dolby_audio_is_described_by_its_own_schemes() {
    let mut origin = altered(|tracks| {
        tracks[3].codec.config = Config::Eac3;
        *audio_of(&mut tracks[3]) = Audio { channels: 6, sample_rate: 48000, joc: Some(16) };
        tracks[4].codec.config = Config::Ac4;
        audio_of(&mut tracks[4]).channels = 2;
    });
    let mpd = mpd(&mut origin, DashTemplate::Time);
    let [_, eac3, ac4] = sets(&mpd) else { panic!("{:#?}", sets(&mpd)) };
    let channels = |set: &AdaptationSet| {
        let configuration = &set.representations[0].AudioChannelConfiguration[0];
        (configuration.schemeIdUri.clone(), configuration.value.clone().unwrap())
    };
    let scheme = |year| format!("tag:dolby.com,{year}:dash:audio_channel_configuration:");
    assert_eq!(channels(eac3), (scheme(2014) + "2011", "F801".to_owned()));
    assert_eq!(channels(ac4), (scheme(2015) + "2015", "000001".to_owned()));
    let joc: Vec<_> =
        eac3.representations[0].supplemental_property.iter().map(|p| p.value.clone().unwrap()).collect();
    assert_eq!(joc, ["JOC", "16"]);
}

#[test]
fn open_gops_have_their_own_sap_type() {
    for (file, sap) in [(hevc(), Some(1)), (hevc_open(), Some(3)), (with_sidx(), None)] {
        let mut origin = Origin::open(&[file], TARGET);
        let mpd = mpd(&mut origin, DashTemplate::Time);
        assert_eq!(sets(&mpd)[0].startWithSAP, sap);
        let rate = sets(&mpd)[0].representations[0].frameRate.as_deref();
        assert_eq!(rate, sap.map(|_| "30000/1001"));
    }
}

#[test]
fn codecs_that_cannot_be_carried_are_left_out_or_refused() {
    let other = |track: &mut Track| track.codec.config = Config::Other;
    let mut origin = altered(|tracks| other(&mut tracks[0]));
    assert_eq!(sets(&mpd(&mut origin, DashTemplate::Time))[0].representations.len(), 2);
    let name = origin.title.tracks()[0].name.clone();
    let refused = origin.plan(&Resource::DashInit(name)).map(drop).map_err(|e| e.reason());
    assert_eq!(refused, Err("cannot_carry"));
    let mut origin = altered(|tracks| tracks.iter_mut().for_each(other));
    let refused = origin.plan(&Resource::DashManifest(DashTemplate::Time)).map(drop).map_err(|e| e.reason());
    assert_eq!(refused, Err("cannot_carry"));
}

#[test]
fn renditions_with_different_cuts_are_not_aligned() {
    let mut origin = Origin::open(&ladder(), TARGET);
    // The second rendition gets no key frame where the others start their second segment.
    origin.title = origin.title.with_joined_segments(1, 1);
    let mpd = mpd(&mut origin, DashTemplate::Time);
    let video = &sets(&mpd)[0];
    assert_eq!(video.segmentAlignment, Some(false));
    assert!(video.SegmentTemplate.is_none());
    let counts: Vec<_> = video.representations.iter().map(|r| timeline(template(video, r)).len()).collect();
    assert_eq!(counts[0], counts[2]);
    assert_eq!(counts[1] + 1, counts[0]);
}

#[test]
fn a_late_start_becomes_the_presentation_time_offset() {
    let file = make(
        "pack-late",
        "mp4",
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=5 -c:v libx264 -preset veryfast -bf 0 -g 25 \
         -movflags frag_keyframe+empty_moov+default_base_moof+skip_trailer",
    );
    // As if the file had been cut from a longer one, every decode time becomes 10 s later.
    let mut file = std::fs::read(file).unwrap();
    let places: Vec<_> =
        (8..file.len()).filter(|&at| file[at - 8..].starts_with(b"tfdt\x01\0\0\0")).collect();
    assert_eq!(places.len(), 5);
    for at in places {
        let field: &mut [u8; 8] = (&mut file[at..at + 8]).try_into().unwrap();
        *field = (u64::from_be_bytes(*field) + 10 * 12800).to_be_bytes();
    }
    let mut origin = Origin::of(vec![file.into()], TARGET).unwrap();
    let mpd = mpd(&mut origin, DashTemplate::Time);
    let set = &sets(&mpd)[0];
    let template = template(set, &set.representations[0]);
    let first = timeline(template)[0].0;
    assert_eq!(template.presentationTimeOffset, Some(first));
    assert_eq!(first, 10 * template.timescale.unwrap());
    assert_eq!(mpd.mediaPresentationDuration, Some(Duration::from_secs(5)));
}
