//! Sets of thumbnails (DASH-IF IOP 4.3 §6.2.6).

use super::{MpdWriter, describe::descriptor, write_timeline};
use crate::{
    PackError,
    address::displayed_rep_id,
    manifest::{check_size, thumbnails::Thumbnails, timeline::Timeline, xml::Xml},
};
use latemux_isobmff::time::Round;

/// Writes the set of one track of thumbnails. `number` is its `@id`.
pub(super) fn write(
    xml: &mut Xml,
    number: u32,
    thumbnails: &Thumbnails<'_>,
    writer: &MpdWriter<'_>,
) -> Result<(), PackError> {
    let timescale = thumbnails.timescale;
    let offset = writer.start.in_scale(timescale, Round::Down);
    let first = thumbnails.sheets.first().map_or(0, |(index, _)| *index);
    xml.tag("AdaptationSet")
        .attr("id", number)
        .attr("contentType", "image")
        .attr("mimeType", "image/jpeg")
        .children();
    xml.tag("SegmentTemplate")
        .attr("timescale", timescale.get())
        .attr_if("presentationTimeOffset", (offset > 0).then_some(offset))
        .attr("startNumber", first + 1)
        .attr("media", writer.links.thumbnail_template(thumbnails.name))
        .children();
    let starts = thumbnails.sheets.iter().map(|(_, sheet)| sheet.start);
    let end = thumbnails.sheets.last().map(|(_, sheet)| sheet.start + sheet.duration);
    write_timeline(xml, &Timeline::new(&starts.chain(end).collect::<Vec<_>>()));
    xml.close();
    xml.tag("Representation")
        .attr("id", displayed_rep_id(thumbnails.name))
        .attr("bandwidth", thumbnails.bandwidth().min(u64::from(u32::MAX)))
        .attr("width", thumbnails.size.0)
        .attr("height", thumbnails.size.1)
        .children();
    let scheme = "http://dashif.org/guidelines/thumbnail_tile";
    descriptor(xml, "EssentialProperty", scheme, thumbnails.tiles);
    xml.close();
    xml.close();
    check_size(xml.text())
}
