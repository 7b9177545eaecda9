//! Scalable AVC (SVC): `svcC` (ISO/IEC 14496-15 §6, SVCDecoderConfigurationRecord).
//!
//! `svcC` beside `avcC` describes the layers of a track whose base layer is AVC. Tracks with the
//! sample entries `svc1` and `svc2` have `svcC` alone. They often hold only enhancement layers, and
//! need the base layer of another track.

use super::avc::{nal_length_size, nal_units};
use super::children::Child;
use super::description::Svc;
use crate::{Error, FourCc};
use bytes::Bytes;

/// nal_unit_type of a sequence parameter set (ISO/IEC 14496-10 Table 7-1). That of enhancement
/// layers, a subset sequence parameter set, is 15.
const SPS: u8 = 7;

/// Reads `svcC`. Returns the configuration, its profile bytes, and the sequence parameter set of
/// the base layer, if there is one.
pub(super) fn configuration(svcc: &Child) -> Result<(Svc, [u8; 3], Option<Bytes>), Error> {
    let mut bits = svcc.bits();
    let truncated = || svcc.at.truncated();
    if bits.u8(8).ok_or_else(truncated)? != 1 {
        return Err(svcc.at.unsupported("configurationVersion of svcC"));
    }
    let profile = (|| Some([bits.u8(8)?, bits.u8(8)?, bits.u8(8)?]))().ok_or_else(truncated)?;
    let nal_length_size = nal_length_size(bits.u8(8).ok_or_else(truncated)?, svcc.at)?;
    let count = bits.u8(8).ok_or_else(truncated)? & 0x7f;
    let sets = nal_units(&mut bits, count.into(), &svcc.body).ok_or_else(truncated)?;
    let is_base = |set: &Bytes| set.first().is_some_and(|header| header & 0x1f == SPS);
    let base = sets.into_iter().find(is_base);
    Ok((Svc { nal_length_size, has_base: base.is_some() }, profile, base))
}

/// Returns `svc1.PPCCLL` with six hexadecimal digits (RFC 6381 §3.3).
pub(super) fn rfc6381(format: FourCc, [profile, compatibility, level]: [u8; 3]) -> String {
    format!("{format}.{profile:02x}{compatibility:02x}{level:02x}")
}

#[cfg(test)]
mod tests {
    use crate::FourCc;
    use crate::codec::tests::sample_entries::{boxed, hex, video_entry};
    use crate::codec::{Codec, Config, Svc, describe};

    const BASE: &str = "000c 6742c00c 8c6810142f016a02";
    const SUBSET: &str = "000c 6f53000d aca0a0c2f016a020";

    fn entry(format: &[u8; 4], boxes: &[Vec<u8>]) -> Codec {
        describe(&video_entry(format, 320, 192, boxes), FourCc(*b"vide")).unwrap()
    }

    #[test]
    fn entries_with_and_without_a_base_layer_are_described() {
        let svcc = |sets: &str| boxed(b"svcC", &hex(&format!("01 53000d ff {sets} 01 000468ce3c80")));
        let both = entry(b"svc1", &[svcc(&format!("02 {BASE} {SUBSET}"))]);
        assert_eq!(both.rfc6381, "svc1.53000d");
        assert_eq!(both.config, Config::Svc(Svc { nal_length_size: 4, has_base: true }));
        let enhancement = entry(b"svc2", &[svcc(&format!("01 {SUBSET}"))]);
        assert_eq!(enhancement.rfc6381, "svc2.53000d");
        assert_eq!(enhancement.config, Config::Svc(Svc { nal_length_size: 4, has_base: false }));
    }

    #[test]
    fn entries_whose_configuration_cannot_be_read_are_named() {
        for boxes in [vec![], vec![boxed(b"svcC", &[1, 83, 0])], vec![boxed(b"svcC", &[2; 8])]] {
            let codec = entry(b"svc1", &boxes);
            assert_eq!((codec.rfc6381.as_str(), codec.config), ("svc1", Config::Other));
        }
    }

    #[test]
    fn layers_beside_avc_leave_its_name() {
        let avcc = boxed(b"avcC", &hex(&format!("01 42c00c ff e1 {BASE} 01 000468ce3c80")));
        for (boxes, has_layers) in
            [(vec![avcc.clone(), boxed(b"svcC", &[1])], true), (vec![avcc.clone()], false)]
        {
            let codec = entry(b"avc1", &boxes);
            assert_eq!(codec.rfc6381, "avc1.42c00c");
            let Config::Avc(avc) = codec.config else { panic!() };
            assert_eq!(avc.has_layers, has_layers);
        }
    }
}
