//! Reads XML documents and their attributes.

use super::limits::MAX_SEGMENTS;
use crate::manifest_error::ManifestError;
use roxmltree::{Document, Node, ParsingOptions};
use std::str::FromStr;

/// Parses XML. Documents with a DTD are refused, so that entities cannot expand.
pub(super) fn document(text: &str) -> Result<Document<'_>, ManifestError> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: 4 * u32::try_from(MAX_SEGMENTS).unwrap_or(u32::MAX),
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| ManifestError::invalid(error.to_string()))
}

/// Returns the child elements of this name, in any namespace.
pub(super) fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// Returns an attribute that is a number.
pub(super) fn number<T: FromStr>(node: Node<'_, '_>, name: &str) -> Result<Option<T>, ManifestError> {
    let wrong = |text: &str| ManifestError::invalid(format!("an invalid value: {name}=\"{text}\""));
    node.attribute(name).map(|text| text.trim().parse().map_err(|_| wrong(text))).transpose()
}
