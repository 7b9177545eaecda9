//! Video sample entries: their codec and the facts that manifests state.

use super::children::Children;
use super::colour;
use super::description::{Codec, Colour, Config, DeclaredBitrate, Media, Video, VideoRange};
use super::dolby_vision::{self, DolbyVision};
use super::parameter_sets::Sequence;
use super::sample_entry::EntryBody;
use super::{av1, avc, esds, hevc, other, sinf, svc, vp9};
use crate::{Error, FourCc};

/// Codec-specific part of a [`Codec`].
struct VideoCoding {
    rfc6381: String,
    config: Config,
    sequence: Sequence,
    bitrate: DeclaredBitrate,
}

impl VideoCoding {
    fn new(rfc6381: String, config: Config, sequence: Sequence) -> Self {
        Self { rfc6381, config, sequence, bitrate: DeclaredBitrate::default() }
    }
}

/// Returns true if the entry is video, or was before encryption.
pub(super) fn is_video(format: FourCc) -> bool {
    is_read(format) || other::is_video(format) || matches!(&format.0, b"encv" | b"drmi")
}

/// Returns true for coding names whose configuration is read.
fn is_read(format: FourCc) -> bool {
    matches!(
        &format.0,
        b"avc1"
            | b"avc2"
            | b"avc3"
            | b"avc4"
            | b"svc1"
            | b"svc2"
            | b"hvc1"
            | b"hev1"
            | b"av01"
            | b"vp09"
            | b"vp08"
            | b"mp4v"
            | b"jpeg"
            | b"mjpg"
    ) || dolby_vision::is_primary(format)
}

pub(super) fn describe(entry: &EntryBody) -> Result<Codec, Error> {
    let (fields, boxes) = entry.video()?;
    let protection = if sinf::is_protected(entry.format) { Some(sinf::protection(&boxes)?) } else { None };
    let format = protection.map_or(entry.format, |protection| protection.original);
    let dolby = dolby_vision::configuration(&boxes)?;
    let colr = colour::colour_box(&boxes);
    let coding = coding(format, &boxes, colr, dolby)?;
    let described = colour::colour(colr, coding.sequence.colour);
    let aspect = colour::pixel_aspect(&boxes).or(coding.sequence.aspect).unwrap_or((1, 1));
    let transfer = described.map(|colour| colour.transfer);
    let (coded_width, coded_height) = coding.sequence.size.unwrap_or_default();
    let video = Video {
        width: if fields.width == 0 { coded_width } else { fields.width },
        height: if fields.height == 0 { coded_height } else { fields.height },
        pixel_aspect: colour::reduced(aspect),
        range: match dolby {
            Some(dolby) => dolby.range(described),
            None => described.map_or(VideoRange::Sdr, Colour::range),
        },
        colour: described,
        supplemental: dolby.and_then(|dolby| dolby.supplemental(format, transfer)),
    };
    Ok(Codec {
        format,
        rfc6381: coding.rfc6381,
        protection: protection.map(|protection| protection.scheme),
        config: coding.config,
        media: Media::Video(video),
        declared_bitrate: colour::bitrate(&boxes).or(coding.bitrate),
    })
}

/// Returns the values that the configuration record states.
pub(super) fn sequence(entry: &EntryBody) -> Result<Sequence, Error> {
    let (_, boxes) = entry.video()?;
    let colr = colour::colour_box(&boxes);
    Ok(coding(entry.format, &boxes, colr, dolby_vision::configuration(&boxes)?)?.sequence)
}

/// Reads the configuration record that belongs to the coding name.
fn coding(
    format: FourCc,
    boxes: &Children,
    colr: Option<colour::ColourBox>,
    dolby: Option<DolbyVision>,
) -> Result<VideoCoding, Error> {
    let coding = match &format.0 {
        b"avc1" | b"avc2" | b"avc3" | b"avc4" | b"dva1" | b"dvav" => {
            let mut avc = avc::configuration(&boxes.require(b"avcC")?)?;
            avc.has_layers = boxes.first(b"svcC").is_some();
            let sequence = avc::sequence(avc.sps.first());
            VideoCoding::new(avc::rfc6381(format, &avc), Config::Avc(avc), sequence)
        }
        b"svc1" | b"svc2" => match boxes.first(b"svcC").map(|svcc| svc::configuration(&svcc)) {
            Some(Ok((svc, profile, base))) => {
                let sequence = avc::sequence(base.as_ref());
                VideoCoding::new(svc::rfc6381(format, profile), Config::Svc(svc), sequence)
            }
            _ => VideoCoding::new(format.to_string(), Config::Other, Sequence::default()),
        },
        b"hvc1" | b"hev1" | b"dvh1" | b"dvhe" => {
            let (hevc, general) = hevc::configuration(&boxes.require(b"hvcC")?)?;
            let sequence = hevc::sequence(&hevc);
            VideoCoding::new(hevc::rfc6381(format, &general), Config::Hevc(hevc), sequence)
        }
        b"av01" | b"dav1" => {
            let record = boxes.require(b"av1C")?;
            let (av1, facts) = av1::configuration(&record)?;
            VideoCoding::new(av1::rfc6381(format, &facts, colr), Config::Av1(av1), facts.sequence)
        }
        b"vp08" | b"vp09" => {
            let vp = vp9::configuration(&boxes.require(b"vpcC")?)?;
            let config = if format == b"vp09" { Config::Vp9 } else { Config::Other };
            VideoCoding::new(vp9::rfc6381(format, &vp), config, vp9::sequence(&vp))
        }
        b"mp4v" => {
            let stream = esds::stream(&boxes.require(b"esds")?)?;
            let name = esds::visual_rfc6381(&stream);
            let config = if stream.object_type == esds::JPEG { Config::Jpeg } else { Config::Other };
            VideoCoding { bitrate: stream.bitrate, ..VideoCoding::new(name, config, Sequence::default()) }
        }
        b"jpeg" | b"mjpg" => VideoCoding::new(format.to_string(), Config::Jpeg, Sequence::default()),
        _ if other::is_video(format) => {
            VideoCoding::new(other::video_rfc6381(format, boxes), Config::Other, Sequence::default())
        }
        _ => return Err(boxes.at().unsupported("video coding name")),
    };
    if !dolby_vision::is_primary(format) {
        return Ok(coding);
    }
    let dolby = dolby.ok_or_else(|| boxes.at().missing(b"dvcC"))?;
    Ok(VideoCoding { rfc6381: dolby.rfc6381(format), ..coding })
}
