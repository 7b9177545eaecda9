//! Plans a segment, after reading the `moof`s whose samples the index does not know.

use crate::{
    Error,
    observe::trace::{Stage, enter_stage},
    read::fragments::{Fragments, MoofReads},
    title::titles::LoadedTitle,
};
use latemux_packager::{
    Address, Part, Plan, Planned, plan,
    plan::{MediaFirst, SourceRange},
};

/// Plan of a segment whose samples are all known.
#[derive(Debug)]
pub(crate) enum SegmentPlan {
    Ready(Plan),
    /// The segment's length depends on its media, which must be read before the plan is complete.
    MediaFirst(MediaFirst),
}

impl SegmentPlan {
    /// Returns the source ranges of the segment in the order they are needed, and their reach.
    pub(crate) fn into_sources(self) -> (Vec<SourceRange>, Vec<SourceRange>) {
        let (parts, reach) = match self {
            Self::Ready(plan) => (plan.parts, plan.reach),
            Self::MediaFirst(media) => (media.parts().to_vec(), media.reach().to_vec()),
        };
        let ranges = parts.into_iter().filter_map(|part| match part {
            Part::Source(range) if !range.range.is_empty() => Some(range),
            _ => None,
        });
        (ranges.collect(), reach)
    }
}

/// Most times that one segment is planned. The first plan names all fragments whose samples are
/// unknown. After these were read, the second plan is complete.
const MAX_PLANS: usize = 2;

/// Plans a segment.
pub(crate) async fn plan_segment(
    title: &LoadedTitle,
    address: &Address,
    fragments: &Fragments,
    mut moofs: MoofReads<'_>,
) -> Result<SegmentPlan, Error> {
    let mut known = fragments.of(title);
    for _ in 0..MAX_PLANS {
        match plan(&title.title, address, &known)? {
            Planned::Ready(plan) => return Ok(SegmentPlan::Ready(plan)),
            Planned::NeedsMedia(media) => return Ok(SegmentPlan::MediaFirst(media)),
            Planned::Needs(needs) => {
                enter_stage(Stage::Read);
                known.read(needs, &mut moofs).await?;
                enter_stage(Stage::Plan);
            }
        }
    }
    Err(Error::Internal("a plan lacks fragments that were read"))
}
