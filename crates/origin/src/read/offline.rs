//! Segments without a client: the plans and bytes that answers are made of, for whoever writes files of them.

use crate::{
    Error, LoadedTitle, Origin,
    read::body::{Body, PlanBody},
    read::fetch::Fetch,
};
use bytes::Bytes;
use hyper::body::Body as _;
use latemux_packager::{Address, Plan, Planned, Resource, plan};
use std::{future::poll_fn, pin::Pin};

/// The bytes of a segment as they arrive; the very ones its URL gives.
#[derive(Debug)]
pub struct SegmentBytes(Body);

impl Origin {
    /// The plan of a segment. Nothing of the media is read for it, only `moof`s of fragments whose samples the index does not know.
    ///
    /// # Errors
    /// What a client would be told; [`Error::is_changed`] where an object is no longer the one that was indexed.
    pub async fn plan(&self, title: &LoadedTitle, resource: Resource) -> Result<Plan, Error> {
        let address = Address::new(title.base.clone(), resource);
        let mut known = self.app.fragments.of(title);
        // As in `serve`: there is no third time.
        for _ in 0..2 {
            match plan(&title.title, &address, &known)? {
                Planned::Ready(plan) => return Ok(plan),
                Planned::Needs(needs) => known.learn_alone(&|| self.fetch(title), &needs.fragments).await?,
                Planned::NeedsMedia(_) => {
                    return Err(Error::Internal("a segment whose media makes its length"));
                }
            }
        }
        Err(Error::Internal("a plan that is never complete"))
    }

    /// The bytes of a plan. Storage has answered all requests for them; they are read as they are taken.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn read(&self, title: &LoadedTitle, plan: Plan) -> Result<SegmentBytes, Error> {
        let (whole, mut fetch) = (0..plan.content_length, self.fetch(title));
        fetch.belongs_to(plan.reach.clone());
        let body = PlanBody::start(plan, whole, fetch, &self.app.patience).await?;
        Ok(SegmentBytes(Body::plan(body, None)))
    }

    fn fetch(&self, title: &LoadedTitle) -> Fetch {
        Fetch::new(self.app.media.clone(), title.objects.clone(), self.app.config.read.clone())
    }
}

impl SegmentBytes {
    /// The next bytes; `None` after the last.
    ///
    /// # Errors
    /// As [`Origin::plan`]; there are no more bytes then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let frame = poll_fn(|cx| Pin::new(&mut self.0).poll_frame(cx)).await.transpose()?;
        Ok(frame.and_then(|frame| frame.into_data().ok()))
    }
}
