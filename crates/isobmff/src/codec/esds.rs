//! `esds`: the elementary stream descriptor (ISO/IEC 14496-14 §6.7.2, ISO/IEC 14496-1 §7.2.6).

use super::children::Child;
use super::description::DeclaredBitrate;
use crate::Error;
use crate::bits::BitReader;
use bytes::Bytes;

/// Contents of the decoder configuration descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stream {
    /// objectTypeIndication (ISO/IEC 14496-1 Table 5).
    pub(super) object_type: u8,
    pub(super) bitrate: DeclaredBitrate,
    /// DecoderSpecificInfo, if there is one.
    pub(super) specific: Option<Bytes>,
    /// The fields before DecoderSpecificInfo, object type first.
    fields: [u8; CONFIG_FIELDS],
    /// True if each descriptor ends within the one around it.
    is_nested: bool,
}

/// The object type of JPEG pictures (ISO/IEC 14496-1 Table 5).
pub(super) const JPEG: u8 = 0x6C;

/// Number of bytes before DecoderSpecificInfo in a decoder configuration descriptor.
const CONFIG_FIELDS: usize = 13;

/// Descriptor tags (ISO/IEC 14496-1 Table 1).
const ES_DESCRIPTOR: u8 = 3;
const DECODER_CONFIG: u8 = 4;
const DECODER_SPECIFIC: u8 = 5;
const SYNC_LAYER_CONFIG: u8 = 6;

/// Reads `esds`.
pub(super) fn stream(esds: &Child) -> Result<Stream, Error> {
    let (_, bits) = esds.full_box()?;
    let mut elementary =
        Descriptor::find(bits, ES_DESCRIPTOR).ok_or_else(|| esds.at.bad("no ES descriptor"))?;
    skip_es_fields(&mut elementary.bits).ok_or(esds.at.truncated())?;
    let mut config = Descriptor::find(elementary.bits, DECODER_CONFIG)
        .ok_or_else(|| esds.at.bad("no decoder configuration descriptor"))?;
    let read = config.bits.bytes(CONFIG_FIELDS).and_then(|fields| fields.try_into().ok());
    let fields: [u8; CONFIG_FIELDS] = read.ok_or(esds.at.truncated())?;
    // streamType, upStream, reserved and bufferSizeDB come before the bit rates.
    let [object_type, _, _, _, _, m0, m1, m2, m3, a0, a1, a2, a3] = fields;
    let bitrate =
        DeclaredBitrate::new(u32::from_be_bytes([m0, m1, m2, m3]), u32::from_be_bytes([a0, a1, a2, a3]));
    let specific = Descriptor::find(config.bits, DECODER_SPECIFIC);
    let innermost = specific.as_ref().map_or(config.bytes_after, |specific| specific.bytes_after);
    let ends = [innermost, config.bytes_after, elementary.bytes_after, Some(0)];
    let is_nested = ends.is_sorted_by(|inner, outer| inner.is_some() && inner >= outer);
    let specific = specific.map(|info| esds.body.slice_ref(info.payload));
    Ok(Stream { object_type, bitrate, specific, fields, is_nested })
}

/// Returns the payload of an `esds` in which each descriptor ends within the one around it. If that
/// does not hold for the source, the payload is written anew, without the fields that latemux does
/// not read: decoders that trust the lengths would fail.
pub(super) fn nested(esds: &Child) -> Bytes {
    match stream(esds) {
        Ok(stream) if !stream.is_nested => {
            written(&stream.fields, stream.specific.as_deref().unwrap_or_default()).into()
        }
        _ => esds.body.clone(),
    }
}

/// Skips the fields from ES_ID to OCR_ES_Id, some of which depend on flags.
fn skip_es_fields(bits: &mut BitReader<'_>) -> Option<()> {
    bits.skip(16)?;
    let has_dependency = bits.flag()?;
    let has_url = bits.flag()?;
    let has_clock_reference = bits.flag()?;
    bits.skip(5)?;
    if has_dependency {
        bits.skip(16)?;
    }
    if has_url {
        let length = bits.u8(8)?;
        bits.skip(usize::from(length) * 8)?;
    }
    if has_clock_reference { bits.skip(16) } else { Some(()) }
}

/// A descriptor in the bytes of an `esds`.
struct Descriptor<'a> {
    /// A reader from the payload on to the end of the box. Some writers count the length bytes of
    /// inner descriptors wrongly, so that outer ones seem to end early.
    bits: BitReader<'a>,
    /// The payload. A length beyond the end of the box is cut to the end.
    payload: &'a [u8],
    /// Number of bytes of the box after the descriptor. `None` if its length is beyond the end.
    bytes_after: Option<usize>,
}

impl<'a> Descriptor<'a> {
    /// Returns the next descriptor with this tag, skipping all others.
    fn find(mut bits: BitReader<'a>, tag: u8) -> Option<Self> {
        loop {
            let found = bits.u8(8)?;
            let mut length = 0usize;
            for _ in 0..4 {
                let byte = bits.u8(8)?;
                length = length << 7 | usize::from(byte & 0x7f);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let start = bits.clone();
            let bytes_after = (bits.remaining() / 8).checked_sub(length);
            let payload = bits.bytes(length.min(bits.remaining() / 8))?;
            if found == tag {
                return Some(Self { bits: start, payload, bytes_after });
            }
        }
    }
}

/// Returns the payload of an `esds` for an object type and the configuration of its decoder, if it
/// has one. It states an audio stream without its buffer size and bit rates.
pub fn elementary_stream(object_type: u8, specific: &[u8]) -> Vec<u8> {
    let mut fields = [0; CONFIG_FIELDS];
    // An audio stream, with the reserved bit.
    (fields[0], fields[1]) = (object_type, 0x15);
    written(&fields, specific)
}

/// Returns the payload of an `esds` with the fields of a decoder configuration descriptor, and with
/// the configuration of the decoder if that is not empty.
fn written(fields: &[u8; CONFIG_FIELDS], specific: &[u8]) -> Vec<u8> {
    let tagged = |tag: u8, payload: &[u8]| {
        let size = u32::try_from(payload.len()).unwrap_or(0);
        // A size has four bytes of seven bits each (ISO/IEC 14496-1 §8.3.3).
        let digit = |place: u32| u8::try_from(size >> (7 * place) & 0x7f).unwrap_or(0);
        let mut out = vec![tag, 0x80 | digit(3), 0x80 | digit(2), 0x80 | digit(1), digit(0)];
        out.extend_from_slice(payload);
        out
    };
    let mut decoder = fields.to_vec();
    if !specific.is_empty() {
        decoder.extend(tagged(DECODER_SPECIFIC, specific));
    }
    let stream = [vec![0, 0, 0], tagged(DECODER_CONFIG, &decoder), tagged(SYNC_LAYER_CONFIG, &[2])].concat();
    [vec![0; 4], tagged(ES_DESCRIPTOR, &stream)].concat()
}

/// Returns the payload of an `esds` for MP3 of this rate in Hz. Rates below 32 kHz are those of
/// MPEG-2.
pub(super) fn mp3(sample_rate: u32) -> Vec<u8> {
    elementary_stream(if sample_rate < 32_000 { 0x69 } else { 0x6b }, &[])
}

/// Returns e.g. `mp4v.20.9`: the object type in hexadecimal and, for MPEG-4 part 2,
/// profile_and_level_indication in decimal (RFC 6381 §3.3) if the configuration begins with a
/// visual object sequence.
pub(super) fn visual_rfc6381(stream: &Stream) -> String {
    let name = format!("mp4v.{:02X}", stream.object_type);
    match stream.specific.as_deref() {
        Some([0, 0, 1, 0xb0, indication, ..]) if stream.object_type == 0x20 => format!("{name}.{indication}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{audio_entry, boxed, hex, video_entry};
    use crate::codec::{Config, Media, describe};
    use crate::{Error, FourCc};

    const SOUN: FourCc = FourCc(*b"soun");

    fn read(esds: &str) -> Result<crate::codec::Codec, Error> {
        describe(&audio_entry(b"mp4a", 2, 44100, &[boxed(b"esds", &hex(esds))]), SOUN)
    }

    #[test]
    fn optional_fields_and_long_lengths_are_skipped() {
        // It depends on another stream, and has a URL of three bytes and a clock reference.
        let codec = read(
            "00000000 03 20 0001 e0 0002 03 616263 0004 04 11 40 15 000300 00030d40 00020000 05 02 \
             1210 06 01 02",
        );
        let codec = codec.unwrap();
        assert_eq!(codec.rfc6381, "mp4a.40.2");
        assert_eq!(
            (codec.declared_bitrate.max, codec.declared_bitrate.average),
            (Some(200_000), Some(131_072))
        );
        // An unknown descriptor first, lengths of four bytes, and one beyond the end.
        let codec = read(
            "00000000 ff 01 00 03 80808022 0000 00 04 808080ff 40 15 000000 00000000 00000000 05 \
             808080 02 1210",
        );
        assert_eq!(codec.unwrap().declared_bitrate, crate::codec::DeclaredBitrate::default());
    }

    #[test]
    fn malformed_descriptors_are_refused() {
        assert!(matches!(read("000000"), Err(Error::Truncated { .. })));
        assert!(matches!(read("00000000 04 02 4015"), Err(Error::BadValue { .. })));
        assert!(matches!(read("00000000 03 03 000100"), Err(Error::BadValue { .. })));
        assert!(matches!(read("00000000 03 07 000100 04 02 4015"), Err(Error::Truncated { .. })));
        assert!(matches!(
            read("00000000 03 12 000100 04 0d 4015 000300 00030d40 00020000"),
            Err(Error::BadValue { .. })
        ));
        assert!(matches!(
            read("00000000 03 14 000100 04 0f 4015 000300 00030d40 00020000 05 00"),
            Err(Error::Truncated { .. })
        ));
    }

    #[test]
    fn mpeg4_part_2_is_named_by_its_profile() {
        let esds = boxed(
            b"esds",
            &hex("00000000 03 1a 0001 00 04 15 20 11 000000 00000000 00000000 05 06 000001b009 00"),
        );
        let codec = describe(&video_entry(b"mp4v", 176, 144, &[esds]), FourCc(*b"vide")).unwrap();
        assert_eq!((codec.rfc6381.as_str(), &codec.config), ("mp4v.20.9", &Config::Other));
        assert!(matches!(codec.media, Media::Video(_)));
    }
}
