//! Folders as titles: renditions of one film are one title, several films are none.

use crate::{
    client::get,
    server::{HARBOUR, Server, key, library, sample},
};
use latemux_storage::Memory;
use std::sync::Arc;

#[tokio::test]
async fn two_films_in_one_folder_were_merged_into_one_title() {
    let memory = library();
    memory.put(key("films/one.mp4"), sample("lighthouse.mp4"));
    memory.put(key("films/two.mp4"), sample("ferry.mp4"));
    // Names that say nothing, and different lengths.
    memory.put(key("mixed/1.mp4"), sample("lighthouse.mp4"));
    memory.put(key("mixed/2.mp4"), sample("harbour/video-360p.mp4"));
    // The same film twice.
    memory.put(key("twice/film-a.mp4"), sample("harbour/video-360p.mp4"));
    memory.put(key("twice/film-b.mp4"), sample("harbour/video-360p.mp4"));
    let server = Server::start(memory).await;
    let at = server.address;
    for (folder, why) in [
        ("/films", "one.mp4 and two.mp4 both have avc1 video of 416x234"),
        ("/mixed", "1.mp4 and 2.mp4 last 24.0 s and 48.0 s"),
        ("/twice", "640x360 at nearly the same bit rate"),
        ("", "buoy.mp4 and ferry.mp4 last 12.0 s and 24.0 s"),
    ] {
        for manifest in [".mpd", ".m3u8", "Manifest"] {
            let response = get(at, &format!("{folder}/{manifest}")).await;
            let text = String::from_utf8_lossy(&response.body).into_owned();
            assert_eq!(
                (response.status.as_u16(), response.reason().as_str()),
                (422, "not_one_title"),
                "{text}"
            );
            assert!(text.contains(why) && text.contains("comma list"), "{text}");
        }
    }
    // What says explicitly which files belong together is taken at its word.
    assert_eq!(get(at, "/films/,one,two,.mp4.urlset/.mpd").await.status, 200);
    assert_eq!(get(at, "/films/one.mp4/.mpd").await.status, 200);
    assert_eq!(get(at, "/harbour/.mpd").await.status, 200);
}

#[tokio::test]
async fn a_film_with_an_unusable_file_beside_it_stays_one_title() {
    let memory = Memory::new();
    for name in HARBOUR {
        memory.put(key(&format!("harbour/{name}")), sample(&format!("harbour/{name}")));
    }
    memory.put(key("harbour/notes.mp4"), "not a film");
    let server = Server::start(Arc::new(memory)).await;
    assert_eq!(get(server.address, "/harbour/.mpd").await.status, 200);
}
