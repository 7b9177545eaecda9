//! An init segment made from a quality level of a Smooth Streaming client manifest, as players make
//! one. It is written for these tests from the standards, without the code under test.

use std::collections::BTreeMap;

type Attributes = BTreeMap<String, String>;

/// Returns type and payload of the boxes in `bytes`, which must fill them.
pub(crate) fn boxes(bytes: &[u8]) -> Vec<([u8; 4], &[u8])> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let size = usize::try_from(u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap();
        found.push((bytes[at + 4..at + 8].try_into().unwrap(), &bytes[at + 8..at + size]));
        at += size;
    }
    found
}

fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let size = u32::try_from(payload.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, &payload].concat()
}

pub(crate) fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn u16s(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

/// Returns the NAL units of a byte stream with start codes of four bytes.
fn nal_units(stream: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> =
        stream.windows(4).enumerate().filter(|(_, w)| *w == [0, 0, 0, 1]).map(|(at, _)| at + 4).collect();
    let ends = starts.iter().skip(1).map(|next| next - 4).chain([stream.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &stream[start..end]).collect()
}

fn with_length(nal: &[u8]) -> Vec<u8> {
    [&u16s(&[u16::try_from(nal.len()).unwrap()])[..], nal].concat()
}

/// Builds `avcC` (ISO/IEC 14496-15 §5.3.3.1) from sequence and picture parameter sets.
fn avcc(data: &[u8]) -> Vec<u8> {
    let nals = nal_units(data);
    let of = |kind: u8| nals.iter().filter(move |nal| nal[0] & 0x1F == kind).collect::<Vec<_>>();
    let sps = of(7);
    let pps = of(8);
    let lists = |nals: &[&&[u8]]| nals.iter().flat_map(|nal| with_length(nal)).collect::<Vec<u8>>();
    let count = |nals: &[&&[u8]]| u8::try_from(nals.len()).unwrap();
    let head = [&[1][..], &sps[0][1..4], &[0xFF, 0xE0 | count(&sps)]].concat();
    boxed(b"avcC", &[&head, &lists(&sps), &[count(&pps)], &lists(&pps)])
}

/// Builds `hvcC` (ISO/IEC 14496-15 §8.3.3.1) from parameter sets. Its profile fields are a guess,
/// since decoders read the sets.
fn hvcc(data: &[u8]) -> Vec<u8> {
    let arrays: Vec<u8> = nal_units(data)
        .iter()
        .flat_map(|nal| [&[0x80 | (nal[0] >> 1 & 0x3F), 0, 1][..], &with_length(nal)].concat())
        .collect();
    let count = u8::try_from(nal_units(data).len()).unwrap();
    let head = [
        &[1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0x5D, 0xF0, 0, 0xFC, 0xFD, 0xF8, 0xF8, 0, 0, 0x0F][..],
        &[count],
    ]
    .concat();
    boxed(b"hvcC", &[&head, &arrays])
}

/// Builds `esds` (ISO/IEC 14496-14 §5.6) from an AudioSpecificConfig.
fn esds(asc: &[u8]) -> Vec<u8> {
    let descriptor = |tag: u8, parts: &[&[u8]]| {
        let payload = parts.concat();
        [&[tag, u8::try_from(payload.len()).unwrap()][..], &payload].concat()
    };
    let config = descriptor(4, &[&[0x40, 0x15], &[0; 11], &descriptor(5, &[asc])]);
    boxed(b"esds", &[&[0; 4], &descriptor(3, &[&[0, 1, 0], &config, &descriptor(6, &[&[2]])])])
}

fn video_entry(kind: &[u8; 4], width: u16, height: u16, record: &[u8]) -> Vec<u8> {
    let fields =
        [&[0; 6][..], &u16s(&[1]), &[0; 16], &u16s(&[width, height]), &u32s(&[0x48_0000, 0x48_0000, 0])];
    boxed(kind, &[&fields.concat(), &u16s(&[1]), &[0; 32], &u16s(&[24, 0xFFFF]), record])
}

fn audio_entry(kind: &[u8; 4], level: &Attributes, record: &[u8]) -> Vec<u8> {
    // The field has no room for rates beyond 65,535 Hz; the record states them.
    let number = |name: &str| u16::try_from(level[name].parse::<u32>().unwrap()).unwrap_or(0);
    let channels = number("Channels");
    let bits = number("BitsPerSample");
    let rate = number("SamplingRate");
    let fields = [&[0; 6][..], &u16s(&[1]), &[0; 8], &u16s(&[channels, bits, 0, 0, rate, 0])];
    boxed(kind, &[&fields.concat(), record])
}

/// Builds `ftyp` and `moov` for a quality level of a stream.
pub(crate) fn init(level: &Attributes, stream: &Attributes, track_id: u32) -> Vec<u8> {
    let data = unhex(&level["CodecPrivateData"]);
    let size = || {
        let number = |name: &str| level[name].parse::<u16>().unwrap();
        (number("MaxWidth"), number("MaxHeight"))
    };
    let entry = match level["FourCC"].as_str() {
        "AVC1" => video_entry(b"avc1", size().0, size().1, &avcc(&data)),
        "HVC1" => video_entry(b"hvc1", size().0, size().1, &hvcc(&data)),
        "HEV1" => video_entry(b"hev1", size().0, size().1, &hvcc(&data)),
        "AACL" | "AACH" => audio_entry(b"mp4a", level, &esds(&data)),
        // The record follows the fields of a WAVEFORMATEXTENSIBLE.
        "EC-3" => audio_entry(b"ec-3", level, &boxed(b"dec3", &[&data[22..]])),
        "TTML" => boxed(b"stpp", &[&[0; 6], &u16s(&[1]), b"http://www.w3.org/ns/ttml\0\0\0"]),
        other => panic!("FourCC {other}"),
    };
    let (handler, header) = match stream["Type"].as_str() {
        "video" => (b"vide", boxed(b"vmhd", &[&[0, 0, 0, 1], &[0; 8]])),
        "audio" => (b"soun", boxed(b"smhd", &[&[0; 8]])),
        "text" => (b"subt", boxed(b"sthd", &[&[0; 4]])),
        other => panic!("Type {other}"),
    };
    let matrix = u32s(&[0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000]);
    let mvhd =
        [&u32s(&[0, 0, 0, 10_000_000, 0, 0x1_0000])[..], &[1, 0], &[0; 10], &matrix, &[0; 24], &u32s(&[2])];
    let tkhd = [&u32s(&[7, 0, 0, track_id, 0, 0])[..], &[0; 8], &[0; 8], &matrix, &[0; 8]];
    let mdhd = [&u32s(&[0, 0, 0, 10_000_000, 0])[..], &[0x55, 0xC4, 0, 0]];
    let hdlr = [&[0; 8][..], handler, &[0; 13]];
    let empty = |kind: &[u8; 4]| boxed(kind, &[&[0; 8]]);
    let stbl = [
        boxed(b"stsd", &[&u32s(&[0, 1]), &entry]),
        empty(b"stts"),
        empty(b"stsc"),
        boxed(b"stsz", &[&[0; 12]]),
        empty(b"stco"),
    ]
    .concat();
    let url = boxed(b"url ", &[&[0, 0, 0, 1]]);
    let dinf = boxed(b"dinf", &[&boxed(b"dref", &[&u32s(&[0, 1]), &url])]);
    let minf = boxed(b"minf", &[&header, &dinf, &boxed(b"stbl", &[&stbl])]);
    let mdia =
        boxed(b"mdia", &[&boxed(b"mdhd", &[&mdhd.concat()]), &boxed(b"hdlr", &[&hdlr.concat()]), &minf]);
    let trak = boxed(b"trak", &[&boxed(b"tkhd", &[&tkhd.concat()]), &mdia]);
    let mvex = boxed(b"mvex", &[&boxed(b"trex", &[&u32s(&[0, track_id, 1, 0, 0, 0])])]);
    let moov = boxed(b"moov", &[&boxed(b"mvhd", &[&mvhd.concat()]), &trak, &mvex]);
    [boxed(b"ftyp", &[b"iso6\0\0\0\0iso6"]), moov].concat()
}
