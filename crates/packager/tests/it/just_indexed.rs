//! Responses of a title that has just been indexed, whose values need no decoding, equal those that
//! are made of the packed columns.

use crate::media::avc_aac;
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_packager::{
    PackError, Resource,
    address::{DashTemplate, HlsContainer},
};
use latemux_testmedia::{edits::with_edits, origin::Origin, rewrite::looped};
use std::{fs, path::Path, time::Duration};

/// Returns all manifests of a title, and a segment of each track, or the errors in their place.
fn responses(origin: &mut Origin) -> Vec<Result<(u128, Vec<u8>), PackError>> {
    let mut resources = vec![
        Resource::DashManifest(DashTemplate::Time),
        Resource::DashManifest(DashTemplate::Number),
        Resource::SmoothManifest,
        Resource::HdsManifest,
    ];
    for container in [HlsContainer::Auto, HlsContainer::Cmaf] {
        resources.push(Resource::HlsMultivariant(container));
    }
    for kind in [TrackKind::Video, TrackKind::Audio] {
        for name in origin.names(kind) {
            resources.extend([
                Resource::HlsPlaylist(vec![name.clone()], HlsContainer::Auto),
                Resource::HlsIFramePlaylist(name.clone(), HlsContainer::Auto),
                Resource::HlsTsSegment(vec![name.clone()], 1),
                Resource::DashSegment(name, 1),
            ]);
        }
    }
    let made = |resource: &Resource| origin.get(resource).map(|response| (response.digest, response.bytes));
    resources.iter().map(made).collect()
}

fn check(what: &str, objects: Vec<Bytes>) {
    let target = Duration::from_secs(2);
    let mut origin = Origin::just_indexed(objects.clone(), target).unwrap();
    let of_values = responses(&mut origin);
    assert!(of_values.iter().filter(|made| made.is_ok()).count() > 8, "{what}: {of_values:?}");
    assert!(origin.drop_values(), "{what}: no values were kept");
    let same = |made: &[Result<(u128, Vec<u8>), PackError>]| format!("{of_values:?}") == format!("{made:?}");
    assert!(same(&responses(&mut origin)), "{what}: without its values");
    assert!(same(&responses(&mut Origin::of(objects, target).unwrap())), "{what}: never with values");
}

#[test]
fn a_title_that_was_just_indexed_is_served_like_any_other() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    let file = |name: &str| Bytes::from(fs::read(library.join(name)).unwrap());
    let lighthouse = file("lighthouse.mp4");
    check("a file", vec![lighthouse.clone()]);
    check("a long file", vec![looped(&lighthouse, 8).into()]);
    check("two files", vec![file("buoy.mp4"), lighthouse]);
    // Times of hidden frames are changed after the tables have been read.
    let edited = |start| with_edits(&fs::read(avc_aac()).unwrap(), &[(b"vide", &[(3000, Some(start))])]);
    check("an edit list", vec![edited(512).into()]);
    check("an edit list that starts inside a GOP", vec![edited(7 * 512 + 1024).into()]);
}
