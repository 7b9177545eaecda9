//! URLs, printed and parsed by one grammar: parsing a printed URL gives the same address.
//!
//! A path is `BASE/REST`. The base names the title, the rest names a resource of it, and the query
//! selects a part of the title. Any `NAME` in it is accepted and ignored, as other servers do. The
//! printed one is derived from the base, so the NAME of a request changes no byte of a response.
//!
//! Under a prefix of another server, an [`Address`] is made in two steps:
//! [`nginx_vod::NginxVodAddress::parse`] needs no title, but
//! [`nginx_vod::NginxVodAddress::address`] does.

mod error;
mod key;
mod links;
mod name;
mod native;
pub mod nginx_vod;
mod parameter;
mod query;
mod resource;

pub(crate) use links::Links;
pub(crate) use name::{displayed_rep_id, name_of, push_rep_id, rep_id};

pub use error::AddressError;
pub use key::KeyAddress;
pub use parameter::MINIMUM_SEGMENT;
pub use resource::{DashTemplate, HlsContainer, IFrameNumber, Resource};

use crate::selection::Selection;
use latemux_index::Title;
use query::QueryOptions;

/// A resource of a title, as one URL names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The grammar of the URL, and of the URLs that its manifest holds.
    pub profile: Profile,
    /// The base, percent-decoded, without `/` at either end: a media file, a folder or a `.urlset`
    /// list; empty for the root. No component is empty, `.`, `..`, or holds `/`, `\` or controls.
    pub base: String,
    /// The requested resource.
    pub resource: Resource,
    /// The selected part of the title.
    pub selection: Selection,
}

/// The grammar that a URL follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The grammar of latemux itself.
    #[default]
    Native,
    /// The grammar of nginx-vod-module.
    NginxVod(nginx_vod::NginxVodUrls),
}

impl Address {
    /// Creates the address of a resource of a whole title in the native grammar.
    pub fn new(base: impl Into<String>, resource: Resource) -> Self {
        Self { profile: Profile::Native, base: base.into(), resource, selection: Selection::default() }
    }

    /// Parses a URL path (percent-encoded, leading `/` optional) and query. Ignores unknown
    /// parameters.
    ///
    /// # Errors
    /// [`AddressError::NoSuchUrl`] if the path does not match the native grammar;
    /// [`AddressError::Malformed`] if a parameter of the query has no meaning.
    pub fn parse(path: &str, query: Option<&str>) -> Result<Self, AddressError> {
        let options = QueryOptions::parse(query.unwrap_or_default());
        let native::Parsed { base, resource, clip } =
            native::parse(path, &options).ok_or(AddressError::NoSuchUrl)?;
        let order = options.order(&resource)?;
        let text = options.text(&resource)?;
        let mut selection = options.selection()?;
        selection.order = order;
        selection.text = text;
        selection.clip = clip.unwrap_or(selection.clip);
        Ok(Self { profile: Profile::Native, base, resource, selection })
    }

    /// Returns the address with its clip moved to where the title is cut, if that is elsewhere: the
    /// manifests of all clips that hold the same segments are then one. Only native URLs can state
    /// such times; in other forms, the path of the request states the clip.
    pub fn at_cuts(&self, title: &Title) -> Option<Self> {
        if self.profile != Profile::Native {
            return None;
        }
        let clip = self.selection.clip.at_cuts(title)?;
        Some(Self { selection: Selection { clip, ..self.selection.clone() }, ..self.clone() })
    }

    /// Returns the NAME that printed URLs of this title carry, percent-encoded.
    pub fn name(&self) -> String {
        name_of(&self.base)
    }

    /// Returns the URL path and query from the root, with the leading `/`.
    pub fn to_url(&self) -> String {
        let mut url = match &self.profile {
            Profile::Native => String::from("/"),
            Profile::NginxVod(urls) => urls.prefix(&self.resource).to_owned(),
        };
        name::push_base(&mut url, &self.base);
        url + &self.relative_to_base()
    }

    /// Returns the URL relative to the base (`BASE/`), query included.
    pub fn relative_to_base(&self) -> String {
        match &self.profile {
            Profile::Native => {
                let path = native::path(&self.resource, &self.name(), self.selection.clip);
                path + &query::of(&self.resource, &self.selection)
            }
            Profile::NginxVod(urls) => urls.requested().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
