//! Segments: planning one, after reading the `moof`s whose samples the index does not know, and
//! starting its body, from the cache of finished segments or from storage.

use crate::{
    Error,
    observe::trace::{Stage, enter_stage},
    read::{
        body::{Body, PlanBody, weight},
        cuts::TitleCuts,
        fetch::Fetch,
        first_byte_wait::FirstByteWait,
        fragments::{Fragments, MoofReads},
        prefetch::Prefetch,
    },
    title::loaded_title::LoadedTitle,
};
use latemux_cache::SegmentCache;
use latemux_packager::{
    Address, Part, Plan, Planned,
    plan::{Class, MediaFirst, NeedsCuts, SourceRange},
    plan_protected,
};
use latemux_storage::turns::may_end_turn;
use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

/// Plan of a segment whose samples are all known.
#[derive(Debug)]
pub(crate) enum SegmentPlan {
    Ready(Plan),
    /// The segment's length depends on its media, which must be read before the plan is complete.
    MediaFirst(MediaFirst),
    /// The slices of the segment's video must be found before it can be encrypted.
    CutsFirst(Box<NeedsCuts>),
}

impl SegmentPlan {
    /// Returns the source ranges of the segment in the order they are needed, and their reach.
    pub(crate) fn into_sources(self) -> (Vec<SourceRange>, Vec<SourceRange>) {
        let (parts, reach) = match self {
            Self::Ready(plan) => (plan.parts, plan.reach),
            Self::MediaFirst(media) => (media.parts().to_vec(), media.reach().to_vec()),
            Self::CutsFirst(needs) => (needs.samples().map(Part::Source).collect(), needs.reach().to_vec()),
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
    cuts: &TitleCuts<'_>,
    mut moofs: MoofReads<'_>,
) -> Result<SegmentPlan, Error> {
    let mut known = fragments.of(title);
    let protection = title.protection()?;
    for _ in 0..MAX_PLANS {
        match plan_protected(&title.title, address, &known, cuts, protection)? {
            Planned::Ready(plan) => return Ok(SegmentPlan::Ready(plan)),
            Planned::NeedsMedia(media) => return Ok(SegmentPlan::MediaFirst(media)),
            Planned::NeedsCuts(needs) => return Ok(SegmentPlan::CutsFirst(needs)),
            Planned::Needs(needs) => {
                enter_stage(Stage::Read);
                known.read(needs, &mut moofs).await?;
                enter_stage(Stage::Plan);
            }
        }
    }
    Err(Error::Internal("a plan lacks fragments that were read"))
}

/// Plans a segment completely: reads its media first if its length depends on them, and finds the
/// slices of its video if these are to be encrypted. Before it reads media, `answer` may end the
/// request by the digest and the content type of the segment, which is empty if it is not known.
pub(crate) async fn complete_plan<T>(
    title: &LoadedTitle,
    address: &Address,
    fragments: &Fragments,
    cuts: &mut TitleCuts<'_>,
    mut reads: MoofReads<'_>,
    held: u64,
    answer: impl Fn(u128, &'static str) -> Result<Option<T>, Error>,
) -> Result<ControlFlow<T, Plan>, Error> {
    let mut own = None;
    let mut planned = plan_segment(title, address, fragments, cuts, reads.reborrow()).await?;
    if let SegmentPlan::CutsFirst(needs) = planned {
        if let Some(answer) = answer(needs.digest(), needs.content_type())? {
            return Ok(ControlFlow::Break(answer));
        }
        enter_stage(Stage::Read);
        cuts.find(*needs, reads.of_media(&mut own), held).await?;
        enter_stage(Stage::Plan);
        planned = plan_segment(title, address, fragments, cuts, reads.reborrow()).await?;
    }
    let mut media = match planned {
        SegmentPlan::CutsFirst(_) => return Err(Error::Internal("a plan lacks cuts that were found")),
        SegmentPlan::Ready(plan) => return Ok(ControlFlow::Continue(plan)),
        SegmentPlan::MediaFirst(media) => media,
    };
    if let Some(answer) = answer(media.digest(), "")? {
        return Ok(ControlFlow::Break(answer));
    }
    let fetch = reads.of_media(&mut own);
    fetch.set_reach(media.take_reach());
    let bytes = PlanBody::read_all(media.parts(), fetch, held).await?;
    Ok(ControlFlow::Continue(media.plan(&bytes)?))
}

/// The state that the bodies of all segments share.
#[derive(Debug)]
pub(crate) struct SegmentBodies {
    /// Longest wait for storage before the head of a segment is sent.
    pub(crate) first_byte_wait: FirstByteWait,
    /// Prefetcher, if that is configured and there is a range cache.
    pub(crate) prefetch: Option<Prefetch>,
    /// Cache of finished segments, if that is configured.
    pub(crate) finished: Option<Arc<SegmentCache>>,
}

impl SegmentBodies {
    /// Starts a window of a segment's body.
    pub(crate) async fn start(
        &self,
        title: &Arc<LoadedTitle>,
        address: &Address,
        mut plan: Plan,
        window: Range<u64>,
        mut fetch: Fetch,
    ) -> Result<Body, Error> {
        let length = plan.content_length;
        let is_whole = window == (0..length);
        // To be called only after this segment's own reads have begun.
        let prefetch = || self.prefetch.as_ref().filter(|_| is_whole)?.after(title, address);
        // `plan.digest` covers only the first 64 KiB of an object, so two versions can have the
        // same digest. The title's ID, which is unique in this process, tells them apart.
        let digest = plan.digest ^ u128::from(title.id);
        let finished = self.finished.as_ref().filter(|_| plan.class == Class::Media);
        if let Some(pieces) = finished.and_then(|finished| finished.get(digest)) {
            return Ok(Body::from_cache(&pieces, window).with_prefetch(prefetch()));
        }
        let entry = || finished.filter(|_| is_whole).and_then(|finished| finished.collect(digest, length));
        if let ([Part::Inline(whole)], None, true) = (&plan.parts[..], &plan.transform, is_whole) {
            // Nothing is left to be read.
            return Ok(Body::full(whole.clone()).with_prefetch(prefetch()).cached(entry()));
        }
        fetch.charge().require(weight(&plan))?;
        may_end_turn().await;
        enter_stage(Stage::Read);
        fetch.set_reach(std::mem::take(&mut plan.reach));
        let body = PlanBody::start(plan, window, fetch, &self.first_byte_wait).await?;
        Ok(Body::plan(body, Some(title.checks.clone())).with_prefetch(prefetch()).cached(entry()))
    }
}
