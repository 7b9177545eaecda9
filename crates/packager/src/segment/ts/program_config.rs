//! The program config element (ISO/IEC 14496-3 §4.4.1.1): a channel layout that no
//! `channelConfiguration` names. MP4 has it in the AudioSpecificConfig. In ADTS each frame must
//! begin with it.

use bytes::Bytes;
use latemux_isobmff::bits::{BitReader, BitWriter};

/// `id_syn_ele` of a program config element in a frame.
const ID_PCE: u32 = 5;

/// Returns the element of an AudioSpecificConfig as it starts a frame: with its `id_syn_ele` and
/// without its comment. It ends on a byte boundary (§4.5.1.2: `byte_alignment` is relative to the
/// start of the frame), so the frame's own bits are not shifted. `None` if there is no element.
pub(super) fn in_band(asc: &[u8]) -> Option<Bytes> {
    let mut bits = BitReader::new(asc);
    let mut object_type = object_type(&mut bits)?;
    skip_sampling_frequency(&mut bits)?;
    let channels = bits.bits(4)?;
    if matches!(object_type, 5 | 29) {
        skip_sampling_frequency(&mut bits)?;
        object_type = self::object_type(&mut bits)?;
    }
    if channels != 0 || !(1..=4).contains(&object_type) {
        return None;
    }
    // GASpecificConfig: frameLengthFlag, dependsOnCoreCoder with its delay, extensionFlag.
    bits.skip(1)?;
    if bits.flag()? {
        bits.skip(14)?;
    }
    bits.skip(1)?;
    element(&mut bits).map(Bytes::from)
}

fn element(bits: &mut BitReader<'_>) -> Option<Vec<u8>> {
    let mut out = BitWriter::default();
    out.put(3, ID_PCE);
    let mut copy = |count: u32| {
        let value = bits.bits(count)?;
        out.put(count, value);
        Some(value)
    };
    copy(4)?; // element_instance_tag
    copy(2)?; // object_type
    copy(4)?; // sampling_frequency_index
    let [front, side, back] = [copy(4)?, copy(4)?, copy(4)?];
    let [lfe, data, coupling] = [copy(2)?, copy(3)?, copy(4)?];
    for mixdown in [4, 4, 3] {
        if copy(1)? == 1 {
            copy(mixdown)?;
        }
    }
    for _ in 0..front + side + back {
        copy(5)?;
    }
    for _ in 0..lfe + data {
        copy(4)?;
    }
    for _ in 0..coupling {
        copy(5)?;
    }
    out.align().put(8, 0); // comment_field_bytes
    Some(out.to_bytes())
}

fn object_type(bits: &mut BitReader<'_>) -> Option<u32> {
    match bits.bits(5)? {
        31 => Some(32 + bits.bits(6)?),
        object_type => Some(object_type),
    }
}

fn skip_sampling_frequency(bits: &mut BitReader<'_>) -> Option<()> {
    if bits.bits(4)? == 15 { bits.skip(24) } else { Some(()) }
}

#[cfg(test)]
mod tests {
    use super::in_band;
    use proptest::prelude::*;

    /// LC, 48 kHz, configuration 0, with only a single front channel and a front pair.
    #[test]
    fn the_element_ends_on_a_byte_boundary() {
        // 00010 0011 0000 0 0 0 | 0000 01 0011 0010 0000 0000 00 000 0000 0 0 0 00000 10001,
        // padding, no comment
        let asc = [0x11, 0x80, 0x04, 0xC8, 0x00, 0x00, 0x01, 0x10, 0];
        // 101, then the same element.
        let pce = [0xA0, 0x99, 0x00, 0x00, 0x00, 0x22, 0];
        assert_eq!(in_band(&asc).unwrap()[..], pce);
    }

    #[test]
    fn other_configurations_give_none() {
        assert_eq!(in_band(&[0x11, 0x90]), None);
        assert_eq!(in_band(&[]), None);
        assert_eq!(in_band(&[0x11, 0x80]), None);
    }

    proptest! {
        #[test]
        fn no_input_causes_a_panic(asc in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(pce) = in_band(&asc) {
                prop_assert!(pce.len() <= 40);
            }
        }
    }
}
