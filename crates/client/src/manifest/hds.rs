//! HDS manifests (Flash Media Manifest File Format Specification 1.0).

use super::{
    hds_bootstrap::{self, Bootstrap},
    limits::MAX_RENDITIONS,
    reference::join,
    xml::children,
};
use crate::manifest_error::ManifestError;
use crate::presentation::{
    Deferred, Index, MediaKind, Presentation, Protocol, Rendition, RenditionSet, Resource,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use roxmltree::{Document, Node};
use std::sync::Arc;
use url::Url;

pub(super) fn read(url: &Url, document: &Document<'_>) -> Result<Presentation, ManifestError> {
    let root = document.root_element();
    let text = |name: &'static str| children(root, name).find_map(|node| node.text()).map(str::trim);
    if text("streamType").is_some_and(|kind| kind != "recorded") {
        return Err(ManifestError::unsupported("a live presentation"));
    }
    let base = match text("baseURL") {
        // A base URL is a folder even without a slash at its end.
        Some(base) => join(url, &format!("{}/", base.trim_end_matches('/')))?,
        None => url.clone(),
    };
    // Alternate media are not played by default.
    let played: Vec<Node<'_, '_>> =
        children(root, "media").filter(|media| media.attribute("alternate") != Some("true")).collect();
    if played.len() > MAX_RENDITIONS {
        return Err(ManifestError::TooMuch { what: "media", limit: MAX_RENDITIONS });
    }
    let mut renditions = Vec::new();
    for media in played {
        renditions.push(rendition(&base, root, media)?);
    }
    if renditions.is_empty() {
        return Err(ManifestError::invalid("a manifest without media"));
    }
    renditions.sort_by_key(|rendition| rendition.bandwidth);
    Ok(Presentation {
        protocol: Protocol::Hds,
        sets: vec![RenditionSet { kind: MediaKind::Muxed, renditions }],
    })
}

fn rendition(base: &Url, root: Node<'_, '_>, media: Node<'_, '_>) -> Result<Rendition, ManifestError> {
    let Some(address) = media.attribute("url") else {
        return Err(match media.attribute("href") {
            Some(_) => ManifestError::unsupported("a manifest of manifests"),
            None => ManifestError::invalid("media without url"),
        });
    };
    let fragments = join(base, address)?;
    let id = media.attribute("bootstrapInfoId");
    let bootstrap = children(root, "bootstrapInfo")
        .find(|info| id.is_none() || info.attribute("id") == id)
        .ok_or_else(|| ManifestError::invalid("media without bootstrap information"))?;
    let index = match bootstrap.attribute("url") {
        Some(reference) => {
            let resource = Resource { url: join(base, reference)?, range: None };
            Index::Deferred(Arc::new(Deferred::new(resource, Bootstrap(fragments))))
        }
        None => {
            let text: String = bootstrap.text().unwrap_or_default().split_whitespace().collect();
            let bytes = STANDARD
                .decode(text)
                .map_err(|_| ManifestError::invalid("bootstrap information that is not base64"))?;
            Index::Known(Arc::new(hds_bootstrap::read(&fragments, &bytes)?))
        }
    };
    let kilobits: u64 = media.attribute("bitrate").and_then(|rate| rate.trim().parse().ok()).unwrap_or(0);
    let bandwidth = kilobits.checked_mul(1000).ok_or_else(|| ManifestError::beyond("a bit rate"))?;
    Ok(Rendition { name: address.to_owned(), bandwidth, index, coding: None })
}
