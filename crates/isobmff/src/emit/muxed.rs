//! Media segments of several tracks: one `moof` with a track fragment for each track, and one
//! `mdat` with their samples, track by track (ISO/IEC 14496-12 §8.8.4). A CMAF segment has one
//! track; HLS allows both forms.

use super::fragment::{FragmentSize, FragmentSpec, Layout, check_sample_count, mdat_header};
use crate::{
    Error, FourCc,
    boxes::{mfhd::Mfhd, tfdt::Tfdt, trun::Trun},
    error::BoxPath,
    write::{Container, WriteBox, header_size},
};

/// Appends `moof` and the header of the `mdat` to `out`. The caller appends the samples' bytes in
/// the order of the specs. The sequence number is that of the first spec. Each track is written as
/// in [`super::fragment()`].
///
/// # Errors
/// [`Error::TooLarge`] for more than [`super::fragment::MAX_SAMPLES`] samples in total, or for a
/// data offset of more than 31 bits. Nothing is written then.
pub fn muxed_fragment(specs: &[FragmentSpec<'_>], out: &mut Vec<u8>) -> Result<FragmentSize, Error> {
    check_sample_count(specs.iter().map(|spec| spec.samples.len() as u64).sum())?;
    let mut trafs = specs.iter().map(Traf::new).collect::<Result<Vec<_>, _>>()?;
    let media = trafs.iter().map(|traf| traf.layout.media).sum();
    let sequence = Mfhd(specs.first().map_or(1, |spec| spec.sequence));
    // Offsets always take 32 bits, so the size can be measured before they are known.
    let moof = with_moof(sequence, &trafs, |moof| moof.size());
    let size = FragmentSize { moof, mdat_header: header_size(media), media };
    let mut offset = size.head();
    for traf in &mut trafs {
        traf.data_offset = i32::try_from(offset).map_err(|_| offset_too_large(offset))?;
        offset += traf.layout.media;
    }
    with_moof(sequence, &trafs, |moof| moof.write(out));
    mdat_header(media, out);
    Ok(size)
}

fn offset_too_large(offset: u64) -> Error {
    let path = BoxPath::default().join(FourCc(*b"moof")).join(FourCc(*b"trun"));
    Error::TooLarge { path, offset: 0, what: "data_offset", value: offset, limit: i32::MAX as u64 }
}

fn with_moof<T>(sequence: Mfhd, trafs: &[Traf<'_>], use_moof: impl FnOnce(&Container<'_>) -> T) -> T {
    let mut children: Vec<&dyn WriteBox> = vec![&sequence];
    children.extend(trafs.iter().map(|traf| traf as &dyn WriteBox));
    use_moof(&Container(b"moof", &children))
}

/// A `traf` to write.
struct Traf<'a> {
    spec: &'a FragmentSpec<'a>,
    layout: Layout,
    data_offset: i32,
}

impl<'a> Traf<'a> {
    fn new(spec: &'a FragmentSpec<'a>) -> Result<Self, Error> {
        Ok(Self { spec, layout: Layout::new(spec)?, data_offset: 0 })
    }

    /// Builds the `traf` and passes it to `use_traf`.
    fn with_boxes<T>(&self, use_traf: impl FnOnce(&Container<'_>) -> T) -> T {
        let Layout { tfhd, first_sample_flags, fields, .. } = self.layout;
        let trun =
            Trun { data_offset: self.data_offset, first_sample_flags, fields, samples: self.spec.samples };
        use_traf(&Container(b"traf", &[&tfhd, &Tfdt(self.spec.decode_time), &trun]))
    }
}

impl WriteBox for Traf<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"traf")
    }

    fn payload_size(&self) -> u64 {
        self.with_boxes(|traf| traf.payload_size())
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        self.with_boxes(|traf| traf.write_payload(out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::{EmitSample, fragment, fragment::MAX_SAMPLES};

    const SAMPLE: EmitSample =
        EmitSample { size: 7, duration: 3, flags: crate::sample_flags::SYNC, composition_offset: 0 };

    fn spec(track_id: u32, samples: &[EmitSample]) -> FragmentSpec<'_> {
        FragmentSpec { sequence: 9, track_id, sample_description_index: None, decode_time: 5, samples }
    }

    #[test]
    fn a_muxed_fragment_of_one_track_equals_a_fragment() {
        let samples = [SAMPLE, EmitSample { composition_offset: 4, size: 8, ..SAMPLE }];
        let mut alone = Vec::new();
        let mut muxed = Vec::new();
        fragment(&spec(1, &samples), &mut alone).unwrap();
        let size = muxed_fragment(&[spec(1, &samples)], &mut muxed).unwrap();
        assert_eq!(muxed, alone);
        assert_eq!((size.head(), size.media), (alone.len() as u64, 15));
    }

    #[test]
    fn a_data_offset_beyond_31_bits_is_refused() {
        let large = [EmitSample { size: u32::MAX >> 1, ..SAMPLE }];
        let mut out = Vec::new();
        let refused = muxed_fragment(&[spec(1, &large), spec(2, &[SAMPLE])], &mut out);
        assert!(matches!(refused, Err(Error::TooLarge { what: "data_offset", .. })), "{refused:?}");
        assert!(out.is_empty());
    }

    #[test]
    fn too_many_samples_in_total_are_refused() {
        let many = vec![SAMPLE; MAX_SAMPLES / 2 + 1];
        let refused = muxed_fragment(&[spec(1, &many), spec(2, &many)], &mut Vec::new());
        assert!(matches!(refused, Err(Error::TooLarge { what: "sample_count", .. })), "{refused:?}");
    }
}
