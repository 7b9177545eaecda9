//! Titles whose objects change while a request is served.

use crate::{
    Error,
    title::{
        checks::{Freshness, MISSING_AGE},
        loaded_title::LoadedTitle,
        titles::Titles,
    },
};
use std::sync::Arc;

impl Titles {
    /// Loads a title again after a request for it failed with `error`, so that the request can be
    /// served once more.
    ///
    /// # Errors
    /// - `error` itself, if the title is not known to have changed
    /// - the reason why the title cannot be loaded
    pub(crate) async fn reload_after(
        self: &Arc<Self>,
        error: Error,
        title: &LoadedTitle,
    ) -> Result<Arc<LoadedTitle>, Error> {
        if error.is_changed() {
            tracing::warn!(reason = error.reason(), title = title.base, "{error}: indexing the title again");
            title.checks.mark_outdated();
            return self.load(&title.base, Freshness::Current).await;
        }
        if !error.is_missing_media() {
            return Err(error);
        }
        // The title may have grown since.
        let current = self.load(&title.base, Freshness::Within(MISSING_AGE)).await?;
        if current.id == title.id { Err(error) } else { Ok(current) }
    }
}
