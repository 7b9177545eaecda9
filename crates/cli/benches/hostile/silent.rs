//! Clients that ask for much and read nothing.

use crate::{
    Bench,
    media::FILM,
    report::Report,
    under_attack::{self, Target},
};
use std::{io::Write, net::TcpStream};

const CONNECTIONS: usize = 2000;

/// Requests a manifest 64 times on each of 2,000 connections, and reads no byte of it.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    under_attack::run(bench, report, "", &[], |target: &Target<'_>| {
        let clients: Vec<TcpStream> = (0..CONNECTIONS)
            .filter_map(|_| {
                let mut client = TcpStream::connect(target.origin.address).ok()?;
                let request = format!("GET /{FILM}/.mpd HTTP/1.1\r\nHost: latemux\r\n\r\n");
                client.write_all(request.repeat(64).as_bytes()).ok()?;
                Some(client)
            })
            .collect();
        target.at_full_force();
        target.hold();
        drop(clients);
    });
}
