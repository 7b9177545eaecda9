//! Writes the seeds of every target to `corpus/TARGET/`. All seeds are made here. Run it with
//! `cargo run --example seeds` in this folder.

use bytes::{BufMut, Bytes};
use latemux_index::{
    MediaIndex, Sample,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::fragment_samples::FragmentSamples,
};
use latemux_isobmff::{
    FourCc,
    boxes::{
        ctts::{self, CompositionOffsets},
        dref::SelfContained,
        elst::{Edit, EditList},
        hdlr::Hdlr,
        mdhd::{Elng, Language, Mdhd},
        mehd::Mehd,
        mfhd::Mfhd,
        mfra::Mfra,
        minf::MediaHeader,
        mvhd::Mvhd,
        sidx::{Reference, Sidx},
        stco::ChunkOffsets,
        stsc::{self, SamplesToChunks},
        stsd::{SampleEntry, Stsd},
        stss::SyncSamples,
        stsz::SampleSizes,
        stts::{self, TimeToSamples},
        tfdt::Tfdt,
        tfhd::Tfhd,
        tfxd::{PIFF_SENC, TFXD},
        tkhd::Tkhd,
        trex::Trex,
    },
    emit::{
        Container, EmitSample, FragmentSpec, InitSegment, InitTrack, ReorderedSpec, WriteBox, fragment,
        reordered_fragment, segment_type,
    },
    fragment::Moof,
    matrix::Matrix,
    movie::Movie,
    sample_flags::{NON_SYNC, SYNC},
};
use latemux_protect::{
    cut_box::{CutBoxWriter, REGION},
    cuts::Cut,
};
use latemux_testmedia::hostile::costly;
use std::{fs, path::Path};

#[expect(dead_code, reason = "the tests that share it need more of it")]
#[path = "../../crates/isobmff/tests/it/sample.rs"]
mod sample;
use sample::{Raw, bytes_of, scale};

fn main() -> std::io::Result<()> {
    // A seed that does not parse would be of no use.
    for moov in [progressive(), wide(), init()] {
        assert!(Movie::parse(&moov.into(), 0).expect("a movie").tracks.iter().all(Result::is_ok));
    }
    for moof in [moof_gop(), moof_bare(), moof_all()] {
        assert!(!Moof::parse(&moof.into(), 0).expect("a fragment").tracks.is_empty());
    }
    assert_eq!(Mfra::parse(&mfra().into(), 0).expect("an index").tracks.len(), 3);
    seeds("boxes", &[("progressive", progressive()), ("wide", wide()), ("init", init()), ("junk", junk())])?;
    seeds(
        "fragment",
        &[
            ("sidx", bytes_of(&sidx(7)).to_vec()),
            ("sidx-64", bytes_of(&sidx(1 << 40)).to_vec()),
            ("mfra", mfra()),
            ("moof-gop", moof_gop()),
            ("moof-bare", moof_bare()),
            ("moof-all", moof_all()),
        ],
    )?;
    seeds("address", &urls())?;
    seeds(
        "locate",
        &[
            ("progressive", whole(&[progressive()])),
            ("wide", whole(&[wide()])),
            ("scan", whole(&[init(), with_media(moof_gop()), with_media(moof_gop())])),
            ("sidx", indexed(false)),
            ("mfra", indexed(true)),
        ],
    )?;
    seeds("cost", &costly::recipes())?;
    seeds("proxy_header", &proxy_headers())?;
    seeds("responses", &responses())?;
    let open_ended = without_moov_size(restorable(false));
    seeds(
        "restore",
        &[("plain", restorable(false)), ("reordered", restorable(true)), ("open-ended", open_ended)],
    )?;
    let avc = describable(0, &avc());
    let aac = describable(1, &aac());
    seeds("describe", &[("avc", avc), ("aac", aac), ("vtt", describable(2, &wvtt()))])?;
    seeds("ism", &[("one", ISM.as_bytes().to_vec())])?;
    seeds(
        "text",
        &[
            ("vtt", b"\0WEBVTT\n\nSTYLE\na\n\nid\n00:01.000 --> 00:02.000 line:0\n<b>x</b>\n".to_vec()),
            ("srt", b"\x011\n00:00:01,000 --> 00:00:02,000\n{\\an8}<i>x</i> & y\n".to_vec()),
            (
                "ttml",
                b"\x02<tt><body><div><p begin='1s' dur='2s'>a<br/><span end='1s'>b</span></p></div></body></tt>"
                    .to_vec(),
            ),
            ("tx3g", b"\x03\0\x01a\0\0\0\x16styl\0\x01\0\0\0\x01\0\x01\x01\x10\xFF\xFF\xFF\xFF".to_vec()),
            ("wvtt", b"\x04\0\0\0\x11vttc\0\0\0\x09paylx".to_vec()),
        ],
    )?;
    seeds("keys", &[("cpix", CPIX.as_bytes().to_vec()), ("json", KEYS.as_bytes().to_vec())])?;
    // An IDR slice of AVC with its parameter sets.
    let sample = [0, 0, 0, 9, 0x65, 0x88, 0x84, 0, 0x33, 0xff, 0xfe, 0xf6, 0xf0];
    let avc = [&[4, 8][..], &SPS, &[4], &PPS, &[0], &sample].concat();
    let [key, second, third] = AV1.map(|sample| [&[sample.len() as u8], sample].concat());
    let av1 = [&b"1\0"[..], &key, &second, &third[1..]].concat();
    seeds("slices", &[("avc", avc), ("av1", av1)])?;
    let mut writer = CutBoxWriter::new(1);
    for offset in [0, 3, 60, REGION + 7, 3 * REGION] {
        writer.add(offset, &[Cut { clear: 36, data: 64 }, Cut { clear: 57, data: 8200 }]);
    }
    let cut_box = writer.finish().expect("few cuts");
    seeds("cut_box", &[("box", [&[4, 0, 3, 1], &*cut_box].concat())])?;
    // The first byte of these seeds is the kind; the payload without its header follows.
    let payload = |kind: u8, bytes: &[u8]| [&[kind], bytes.get(28..).expect("a header")].concat();
    let table = locate(&whole(&[progressive()])[1..]);
    let fragments = locate(&indexed(false)[1..]);
    let sample =
        Sample { offset: 1 << 33, size: 9, decode_time: -3, duration: 7, composition_offset: -1, sync: true };
    let samples = FragmentSamples { tracks: vec![Box::new([sample; 3]), Box::default()] };
    seeds(
        "persist",
        &[
            ("table", payload(1, &table.to_bytes())),
            ("fragments", payload(1, &fragments.to_bytes())),
            ("samples", payload(2, &samples.to_bytes())),
        ],
    )
}

const SPS: [u8; 8] = [0x67, 0x42, 0xc0, 0x0a, 0xda, 0x79, 0xe2, 0x20];
/// Three samples of AV1: a key frame of 64 x 64 pixels with the start of its tile, behind the
/// sequence header, and two frames that refer to it.
const AV1: [&[u8]; 3] = [
    &[
        0x0a, 0x0a, 0x00, 0x00, 0x00, 0x02, 0xaf, 0xff, 0x9b, 0x5f, 0x20, 0x08, 0x32, 0x14, 0x14, 0x00, 0x27,
        0x60, 0x02, 0x08, 0x84, 0x08, 0x02, 0x0a, 0xdd, 0xdd, 0xab, 0x1d, 0x08, 0x54, 0x83, 0xcb, 0x83, 0x55,
    ],
    &[
        0x32, 0x11, 0x32, 0x01, 0xe0, 0x40, 0x00, 0x00, 0x03, 0x7f, 0xc0, 0x00, 0x01, 0x60, 0x00, 0x10, 0x00,
        0x99, 0x10,
    ],
    &[
        0x32, 0x11, 0x32, 0x02, 0xe0, 0x82, 0x00, 0x00, 0x03, 0x7f, 0xc0, 0x00, 0x01, 0x60, 0x00, 0x10, 0x00,
        0x9c, 0xf0,
    ],
];
const PPS: [u8; 4] = [0x68, 0xce, 0x0f, 0xc8];

/// A key with a rule and a tag, as CPIX.
const CPIX: &str = r#"<CPIX xmlns="urn:dashif:org:cpix" xmlns:p="urn:ietf:params:xml:ns:keyprov:pskc"
 version="2.3"><ContentKeyList><ContentKey kid="00010203-0405-0607-0809-0a0b0c0d0e0f"
 explicitIV="AAECAwQFBgcICQoLDA0ODw==" commonEncryptionScheme="cbcs"><Data><p:Secret><p:PlainValue
>AAECAwQFBgcICQoLDA0ODw==</p:PlainValue></p:Secret></Data></ContentKey></ContentKeyList><DRMSystemList>
<DRMSystem kid="00010203-0405-0607-0809-0a0b0c0d0e0f" systemId="94ce86fb-07ff-4f43-adb8-93d2fa968ca2">
<HLSSignalingData>I0VYVC1YLUtFWTpNRVRIT0Q9Tk9ORQ==</HLSSignalingData></DRMSystem></DRMSystemList>
<ContentKeyUsageRuleList><ContentKeyUsageRule kid="00010203-0405-0607-0809-0a0b0c0d0e0f"><VideoFilter
 minPixels="1" maxFps="30"/></ContentKeyUsageRule></ContentKeyUsageRuleList></CPIX>"#;

/// A key in the JSON of nginx-vod-module.
const KEYS: &str = r#"[{"key":"AAECAwQFBgcICQoLDA0ODw==","key_id":"AAECAwQFBgcICQoLDA0ODw==","pssh":
[{"uuid":"edef8ba9-79d6-4ace-a3c8-27dcd51d21ed","data":"CAE="}]}]"#;

/// Returns one header of each kind of address, with the start of a request behind it.
fn proxy_headers() -> Vec<(&'static str, Vec<u8>)> {
    let header = |command: u8, family: u8, block: &[u8]| {
        let length = u16::try_from(block.len()).expect("short").to_be_bytes();
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, block, b"GET /"].concat()
    };
    vec![
        ("v4", header(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 31, 144, 0, 80])),
        ("v6", header(0x21, 0x21, &[32; 39])),
        ("unix", header(0x21, 0x31, &[0; 216])),
        ("local", header(0x20, 0, b"")),
    ]
}

/// Returns responses of storage, each after ten bytes that stand for the request: the pieces in
/// which it arrives, method and form of the read, three numbers, and if a version is pinned.
fn responses() -> Vec<(&'static str, Vec<u8>)> {
    let range = [6, 2, 0, 1, 0, 10, 16, 0, 1, 0];
    let head = [2, 0, 0, 5, 0, 0, 0, 0, 0, 0];
    let after = |request: [u8; 10], text: &str| [&request[..], text.as_bytes()].concat();
    vec![
        (
            "range",
            after(
                range,
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 256-265/4096\r\n\
                 Content-Length: 10\r\nETag: \"e\"\r\nContent-Encoding: identity\r\n\r\n0123456789HTTP/1.1 404 No\r\n\r\n",
            ),
        ),
        ("whole", after(head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")),
        (
            "chunked",
            after(
                head,
                "HTTP/1.1 206 X\r\nContent-Range: bytes 0-4/9\r\nTransfer-Encoding: chunked\r\n\r\n\
                 2;x\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n",
            ),
        ),
    ]
}

/// Returns one URL of each form, with the prefix of its protocol.
fn urls() -> Vec<(&'static str, Vec<u8>)> {
    [
        ("mpd", "/a/x.mp4/.mpd\nmpd_segment_template=number&vbegin=1.5&vend=20"),
        ("dash", "/x/dash/x-audio_eng=128000-96256.dash"),
        ("m3u8", "/x,1,2,.mp4.urlset/x-audio_eng=1-video=2.m3u8\nhls_fmp4&hls_minimum_fragment_length=6"),
        ("keyframes", "/x/keyframes/x-video=1-2.ts"),
        ("smooth", "/mss/x/clipTo/5/QualityLevels(128000)/Fragments(audio_eng=20000000)"),
        ("f4f", "/hds/x/frag-f1-v1-a1-Seg1-Frag3"),
        ("abst", "/hds/x/bootstrap-v1.abst"),
        (
            "master",
            "/hls/x,1,2,.mp4.urlset/clipFrom/1000/clipTo/60000/tracks/v1-f2-a1/master-f1.m3u8\nhls_fmp4",
        ),
        ("index", "/hls/x.mp4/index-f2-v1-a1.m3u8"),
        ("seg", "/hls/x.mp4/seg-12-f1-v1-a0.ts"),
        ("init", "/dash/x.ism/init-f1-v1-x3.mp4"),
        ("fragment", "/dash/x.ism/fragment-1-a1-x3.m4s"),
        ("manifest", "/dash/x%20y/manifest-t1.mpd"),
    ]
    .map(|(name, url)| (name, [b"\xff", url.as_bytes()].concat()))
    .to_vec()
}

const ISM: &str = r#"<?xml version="1.0"?><smil xmlns="http://www.w3.org/2001/SMIL20/Language"><head>
<meta name="creator" content="x"/></head><body><switch>
<video src="v.mp4" systemBitrate="1000"><param name="trackID" value="1" valueType="data"/></video>
<audio src="a.mp4" systemBitrate="64000" systemLanguage="eng"><param name="trackID" value="2"/>
<param name="trackName" value="sound-1"/></audio>
<textstream src="t.mp4" systemBitrate="1">
<param name="trackID" value="3"/></textstream></switch></body></smil>"#;

/// Returns the input of the target `describe`: the handler's number, and a sample entry without its
/// size.
fn describable(handler: u8, entry: &SampleEntry) -> Vec<u8> {
    [&[handler], &entry.raw[4..]].concat()
}

/// Returns the input of the target `restore`: the length of the init segment, the init segment, and
/// a segment whose end is cut off.
fn restorable(reordered: bool) -> Vec<u8> {
    let init = init();
    let mut out = u16::try_from(init.len()).expect("small").to_be_bytes().to_vec();
    out.extend(init);
    if reordered {
        let samples = [EmitSample { size: 40, duration: 9, flags: SYNC, composition_offset: -9 }; 4];
        let fragment = FragmentSpec {
            sequence: 1,
            track_id: 1,
            sample_description_index: None,
            decode_time: 9,
            samples: &samples,
        };
        // Two samples have a layer that lies apart. The first arrived, the second is cut off.
        let spec = ReorderedSpec {
            fragment,
            order: &[0, 2, 3, 1, 0, 2],
            importance: &[0, 2, 1, 1],
            layers: &[30, 20],
        };
        reordered_fragment(&spec, &mut out).expect("an order");
    } else {
        out.extend(moof_gop());
    }
    out.extend(vec![7; if reordered { 200 } else { 130 }]);
    out
}

/// Lets the `moov` of an input of the target `restore` reach to the end of the init segment.
fn without_moov_size(mut input: Vec<u8>) -> Vec<u8> {
    let kind = input.windows(4).position(|bytes| bytes == b"moov").expect("a moov");
    input[kind - 4..kind].fill(0);
    input
}

fn locate(object: &[u8]) -> MediaIndex {
    let size = object.len() as u64;
    let mut locator = Locator::new(Limits::default());
    let got = ObjectBytes { offset: 0, bytes: Bytes::copy_from_slice(object) };
    match locator.step(size, vec![got]) {
        Ok(Step::Done(index)) => *index,
        other => panic!("not in one step: {other:?}"),
    }
}

/// Returns a file whose head is longer than 255 bytes, with these boxes and enough media for their
/// samples.
fn whole(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![255];
    segment_type(&[FourCc(*b"isom")]).write(&mut out);
    out.extend(parts.concat());
    let len = out.len().max(4400);
    Raw(b"mdat", vec![0; len - out.len()]).write(&mut out);
    out
}

/// Returns a `moof` with its media.
fn with_media(mut moof: Vec<u8>) -> Vec<u8> {
    Raw(b"mdat", vec![0; 900]).write(&mut moof);
    moof
}

/// Returns two fragments with a `sidx` before or a `mfra` after them.
fn indexed(by_mfra: bool) -> Vec<u8> {
    let fragment = with_media(moof_gop());
    let size = u32::try_from(fragment.len()).expect("small");
    let mut out = vec![255];
    out.extend(init());
    if !by_mfra {
        let reference = Reference {
            is_index: false,
            size,
            duration: 24_000,
            starts_with_sap: true,
            sap_type: 1,
            sap_delta: 0,
        };
        Sidx { references: vec![reference; 2], ..sidx(0) }.write(&mut out);
    }
    let first = u32::try_from(out.len() - 1).expect("small");
    out.extend(&fragment);
    out.extend(&fragment);
    if by_mfra {
        let mut tfra = vec![0; 4];
        [1, 0, 2].into_iter().for_each(|n| tfra.put_u32(n));
        for (time, offset) in [(0, first), (24_000, first + size)] {
            tfra.put_u32(time);
            tfra.put_u32(offset);
            tfra.put_slice(&[1; 3]);
        }
        let mfra = Container(b"mfra", &[&Raw(b"tfra", tfra), &Raw(b"mfro", vec![0; 8])]);
        mfra.write(&mut out);
        let len = u32::try_from(mfra.size()).expect("small");
        let end = out.len() - 4;
        out[end..].copy_from_slice(&len.to_be_bytes());
    }
    out
}

fn seeds(target: &str, seeds: &[(&str, Vec<u8>)]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    seeds.iter().try_for_each(|(name, bytes)| fs::write(folder.join(name), bytes))
}

fn language(tag: &str) -> Language {
    Language::new(tag).expect("a tag")
}

/// Returns a sample entry: its fixed fields, then its configuration box.
fn sample_entry(format: &[u8; 4], head: usize, kind: &'static [u8; 4], config: &[u8]) -> SampleEntry {
    let mut payload = vec![0, 0, 0, 0, 0, 0, 0, 1];
    payload.resize(8 + head, 0);
    Raw(kind, config.to_vec()).write(&mut payload);
    let mut raw = Vec::new();
    raw.put_u32(u32::try_from(8 + payload.len()).expect("small"));
    raw.put_slice(format);
    raw.extend(payload);
    SampleEntry { format: FourCc(*format), data_reference_index: 1, raw: Bytes::from(raw) }
}

fn avc() -> SampleEntry {
    let config = b"\x01\x64\0\x1f\xff\xe1\0\x04\x67\x64\0\x1f\x01\0\x02\x68\xee\xfd\xf8\xf8\0";
    sample_entry(b"avc1", 70, b"avcC", config)
}

fn aac() -> SampleEntry {
    let config =
        b"\0\0\0\0\x03\x19\0\x01\0\x04\x11\x40\x15\0\0\0\0\0\0\0\0\0\0\0\x05\x02\x11\x90\x06\x01\x02";
    sample_entry(b"mp4a", 20, b"esds", config)
}

fn wvtt() -> SampleEntry {
    sample_entry(b"wvtt", 0, b"vttC", b"WEBVTT")
}

/// A quarter turn.
const TURNED: Matrix = Matrix([0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30]);

fn progressive() -> Vec<u8> {
    let mvhd = Mvhd { timescale: scale(1000), duration: 60_000, matrix: Matrix::UNITY, next_track_id: 2 };
    let tkhd = Tkhd {
        id: 1,
        enabled: true,
        duration: 60_000,
        alternate_group: 0,
        volume: 0,
        matrix: TURNED,
        display_size: (1 << 20, 1 << 20),
    };
    let edits = [
        Edit { duration: 100, media_time: None, rate: Edit::NORMAL_RATE },
        Edit { duration: 59_900, media_time: Some(3000), rate: Edit::NORMAL_RATE },
    ];
    let mdhd = Mdhd { timescale: scale(90_000), duration: 60_000, language: language("eng") };
    let hdlr = Hdlr(FourCc(*b"vide"));
    let header = MediaHeader { handler: hdlr.0 };
    let entries = [avc()];
    let stts: TimeToSamples = [stts::Run { count: 20, delta: 3000 }].into_iter().collect();
    let ctts: CompositionOffsets =
        [ctts::Run { count: 10, offset: 6000 }, ctts::Run { count: 10, offset: -1 }].into_iter().collect();
    let stsz: SampleSizes = (100..120).collect();
    let run = |first_chunk, samples_per_chunk| stsc::Run {
        first_chunk,
        samples_per_chunk,
        sample_description_index: 1,
    };
    let stsc: SamplesToChunks = [run(1, 5), run(3, 10)].into_iter().collect();
    let stco: ChunkOffsets = [1000, 2000, 3000].into_iter().collect();
    let stss: SyncSamples = [1, 11].into_iter().collect();
    let stbl = Container(b"stbl", &[&Stsd(&entries), &stts, &ctts, &stss, &stsc, &stsz, &stco]);
    let minf = Container(b"minf", &[&header, &Container(b"dinf", &[&SelfContained]), &stbl]);
    let mdia = Container(b"mdia", &[&mdhd, &hdlr, &Elng(&language("pt-BR")), &minf]);
    let edts = Container(b"edts", &[&EditList(&edits)]);
    let first = Container(b"trak", &[&tkhd, &edts, &mdia]);
    let tkhd = Tkhd { id: 2, ..tkhd };

    let hdlr = Hdlr(FourCc(*b"soun"));
    let header = MediaHeader { handler: hdlr.0 };
    let entries = [aac()];
    let stsz = SampleSizes::Table { bits: 4, count: 3, entries: Bytes::from_static(b"\x12\x30") };
    let stbl = Container(b"stbl", &[&Stsd(&entries), &stts, &stsc, &stsz, &stco]);
    let minf = Container(b"minf", &[&header, &stbl]);
    let second = Container(b"trak", &[&tkhd, &Container(b"mdia", &[&mdhd, &hdlr, &minf])]);
    bytes_of(&Container(b"moov", &[&mvhd, &first, &second])).to_vec()
}

/// Returns a `moov` that uses every 64-bit form.
fn wide() -> Vec<u8> {
    let large = 1 << 40;
    let mvhd = Mvhd { timescale: scale(1), duration: large, matrix: TURNED, next_track_id: 2 };
    let tkhd = Tkhd {
        id: 1,
        enabled: false,
        duration: large,
        alternate_group: 1,
        volume: 0,
        matrix: Matrix::UNITY,
        display_size: (0, 0),
    };
    let edits = [Edit { duration: large, media_time: Some(large), rate: 0 }];
    let mdhd = Mdhd { timescale: scale(1), duration: large, language: language("und") };
    let hdlr = Hdlr(FourCc(*b"text"));
    let header = MediaHeader { handler: hdlr.0 };
    let entries = [wvtt()];
    let stts: TimeToSamples = [stts::Run { count: 1, delta: 1 }].into_iter().collect();
    let stsz = SampleSizes::Constant { size: 1, count: u32::MAX };
    let stco: ChunkOffsets = [large].into_iter().collect();
    let stbl = Container(b"stbl", &[&Stsd(&entries), &stts, &SamplesToChunks::default(), &stsz, &stco]);
    let minf = Container(b"minf", &[&header, &Container(b"dinf", &[&SelfContained]), &stbl]);
    let edts = Container(b"edts", &[&EditList(&edits)]);
    let trak = Container(b"trak", &[&tkhd, &edts, &Container(b"mdia", &[&mdhd, &hdlr, &minf])]);
    let moov = bytes_of(&Container(b"moov", &[&mvhd, &trak]));
    let mut out = b"\0\0\0\x01moov".to_vec();
    out.put_u64(moov.len() as u64 + 8);
    out.extend(&moov[8..]);
    out
}

/// Returns a `moov` with `mvex`.
fn init() -> Vec<u8> {
    let track = InitTrack {
        enabled: true,
        track_id: 1,
        handler: FourCc(*b"vide"),
        timescale: scale(90_000),
        language: language("nb"),
        alternate_group: 0,
        matrix: TURNED,
        display_size: (640 << 16, 360 << 16),
        sample_entries: vec![avc()],
        edit_media_time: 6000,
        trex: Trex::plain(1),
    };
    let segment = InitSegment::cmaf(track, Some(5_400_000));
    let moov = usize::try_from(segment.brands.size()).expect("small");
    segment.to_bytes()[moov..].to_vec()
}

/// Returns top-level boxes that a walk skips.
fn junk() -> Vec<u8> {
    let raw = |kind, len| Raw(kind, vec![0; len]);
    let mut out = bytes_of(&segment_type(&[FourCc(*b"msdh")])).to_vec();
    for other in [raw(b"emsg", 40), raw(b"prft", 24), raw(b"free", 0), raw(b"uuid", 16)] {
        other.write(&mut out);
    }
    Mehd(9).write(&mut out);
    out.put_slice(b"\0\0\0\0mdat and so on");
    out
}

fn sidx(earliest_presentation_time: u64) -> Sidx {
    let reference =
        Reference { is_index: false, size: 9, duration: 9, starts_with_sap: true, sap_type: 1, sap_delta: 0 };
    let references = vec![reference, Reference { is_index: true, ..reference }];
    Sidx {
        reference_id: 1,
        timescale: scale(90_000),
        earliest_presentation_time,
        first_offset: 0,
        references,
    }
}

fn mfra() -> Vec<u8> {
    let tfra = |version: u8, lengths: u8, entry: usize| {
        let mut payload = vec![version, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, lengths, 0, 0, 0, 2];
        payload.resize(16 + 2 * entry, 1);
        Raw(b"tfra", payload)
    };
    let mfro = Raw(b"mfro", vec![0; 8]);
    let mut out =
        bytes_of(&Container(b"mfra", &[&tfra(0, 0, 11), &tfra(1, 0x3f, 28), &tfra(1, 0x1b, 25), &mfro]))
            .to_vec();
    let size = u32::try_from(out.len()).expect("small");
    let end = out.len() - 4;
    out[end..].copy_from_slice(&size.to_be_bytes());
    out
}

fn write_fragment(samples: &[EmitSample]) -> Vec<u8> {
    let spec = FragmentSpec {
        sequence: 1,
        track_id: 1,
        sample_description_index: None,
        decode_time: 1 << 33,
        samples,
    };
    let mut out = Vec::new();
    fragment(&spec, &mut out).expect("few samples");
    out
}

fn moof_gop() -> Vec<u8> {
    let samples: Vec<_> = (0..8)
        .map(|n| EmitSample {
            size: 100 + n,
            duration: 3000,
            flags: if n == 0 { SYNC } else { NON_SYNC },
            composition_offset: [0, -3000][n as usize % 2],
        })
        .collect();
    write_fragment(&samples)
}

fn moof_bare() -> Vec<u8> {
    write_fragment(&[EmitSample { size: 4, duration: 1, flags: SYNC, composition_offset: 0 }; 100])
}

/// Returns a `moof` with two track fragments that together use every optional box and flag.
fn moof_all() -> Vec<u8> {
    let first = Tfhd {
        track_id: 1,
        base_data_offset: Some(1 << 33),
        sample_description_index: Some(1),
        default_duration: Some(2),
        default_size: Some(3),
        default_flags: Some(4),
        duration_is_empty: false,
        default_base_is_moof: true,
    };
    let second = Tfhd { track_id: 2, duration_is_empty: true, ..Tfhd::default() };
    let trun = |flags: u16, words: usize| {
        let mut payload = vec![1, 0];
        payload.put_u16(flags);
        payload.put_u32(2);
        payload.resize(8 + 4 * words, 1);
        Raw(b"trun", payload)
    };
    let uuid = |usertype: [u8; 16], rest: usize| {
        let mut payload = usertype.to_vec();
        payload.push(1);
        payload.resize(16 + rest, 0);
        Raw(b"uuid", payload)
    };
    let (senc, saiz) = (Raw(b"senc", vec![0; 8]), Raw(b"saiz", vec![0; 9]));
    let traf =
        Container(b"traf", &[&first, &Tfdt(5), &trun(0xf05, 10), &trun(0x201, 3), &trun(0, 0), &senc, &saiz]);
    let other = Container(b"traf", &[&second, &uuid(TFXD, 20), &uuid(PIFF_SENC, 8), &trun(0xa00, 4)]);
    bytes_of(&Container(b"moof", &[&Mfhd(3), &traf, &other])).to_vec()
}
