//! Plans and bytes of segments for commands that write files, the same as in responses.

use crate::{
    Error, Origin,
    read::body::{Body, PlanBody},
    read::fetch::Fetch,
    read::fragments::MoofReads,
    read::segment::complete_plan,
    title::loaded_title::LoadedTitle,
};
use bytes::Bytes;
use hyper::body::Body as _;
use latemux_packager::{Address, Plan, Resource};
use std::{convert::Infallible, future::poll_fn, ops::ControlFlow, pin::Pin, sync::Arc};

/// Bytes of a segment as they arrive, the same bytes that a client gets for the segment's URL.
#[derive(Debug)]
pub struct SegmentBytes(Body);

impl Origin {
    /// Plans a segment. It reads the `moof`s of fragments whose samples the index does not know.
    /// It reads media only if the length of the segment depends on it, as that of converted text
    /// and of encrypted video does.
    ///
    /// # Errors
    /// - [`Error::Pack`] for a segment that does not exist or cannot be made
    /// - [`Error::Storage`] for a failed read. [`Error::is_changed`] is true for an object that is
    ///   no longer the indexed one.
    /// - any other error that a client would get for this segment
    pub async fn plan(&self, title: &LoadedTitle, resource: Resource) -> Result<Plan, Error> {
        let address = Address::new(title.base.clone(), resource);
        let new_fetch = || self.fetch(title);
        let reads = MoofReads::Alone(&new_fetch);
        let app = self.app();
        let mut cuts = app.cuts.of(title);
        let held = app.config.read.held;
        let answer = |_, _| Ok(None::<Infallible>);
        let planned = complete_plan(title, &address, &app.fragments, &mut cuts, reads, held, answer).await?;
        let ControlFlow::Continue(plan) = planned;
        Ok(plan)
    }

    /// Starts to read the bytes of a plan. The rest is read as [`SegmentBytes::next`] is called.
    ///
    /// # Errors
    /// - [`Error::Storage`] for a read that storage refused. [`Error::is_changed`] is true for an
    ///   object that is no longer the indexed one.
    /// - [`Error::BeyondEnd`] for an object that is shorter than its index says
    /// - [`Error::Scattered`] for a plan that takes too many requests to storage
    pub async fn read(&self, title: &LoadedTitle, plan: Plan) -> Result<SegmentBytes, Error> {
        let window = 0..plan.content_length;
        let mut fetch = self.fetch(title);
        fetch.set_reach(plan.reach.clone());
        let body = PlanBody::start(plan, window, fetch, &self.app().bodies.first_byte_wait).await?;
        Ok(SegmentBytes(Body::plan(body, None)))
    }

    fn fetch(&self, title: &LoadedTitle) -> Fetch {
        Fetch::new(title.pinned.clone(), self.app().config.read.clone(), Arc::default())
    }
}

impl SegmentBytes {
    /// Returns the next bytes, or `None` after the last.
    ///
    /// # Errors
    /// [`Error::Storage`] for a failed read. There are no more bytes then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let frame = poll_fn(|cx| Pin::new(&mut self.0).poll_frame(cx)).await.transpose()?;
        Ok(frame.and_then(|frame| frame.into_data().ok()))
    }
}
