//! The throughput that the simulated lines carry.

use crate::{
    keep,
    server::{FILE, Server},
};
use latemux_link::network::{Enclosure, Line, Network};
use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

const BYTES: u64 = 400_000_000;
/// Longest time of a download; what has arrived by then counts.
const LONGEST: Duration = Duration::from_secs(8);

/// Measures a plain download over lines of several kinds. It has no limits to check.
pub(crate) fn run(enclosure: &Enclosure) -> bool {
    let far = |rate, loss| Line { rate, loss, round_trip: Duration::from_millis(1), ..Line::default() };
    let lines = [
        ("kernel devices", Line::default()),
        ("grouped packets, no rate", far(None, 0.0)),
        ("grouped packets, 1 Gbit/s", far(Some(125_000_000), 0.0)),
        ("single packets, 300 Mbit/s", far(Some(37_500_000), 0.0)),
        ("single packets, 100 Mbit/s", far(Some(12_500_000), 0.0)),
        ("single packets, no rate, 0.0001 % loss", far(None, 0.000_001)),
    ];
    let mut csv = "line,mbit_s\n".to_owned();
    for (name, line) in lines {
        let mut network = Network::new(enclosure);
        let host = network.host("server").unwrap();
        let client = network.host("client").unwrap();
        let cable = network.connect(&host, &client, line).unwrap();
        let _server = Server::start(&host, BYTES);
        let address = cable.first;
        let download = move || {
            let mut stream = TcpStream::connect((address, 80)).unwrap();
            write!(stream, "GET /{FILE} HTTP/1.0\r\n\r\n").unwrap();
            let mut buffer = vec![0; 1 << 20];
            let begun = Instant::now();
            let mut bytes = 0;
            while begun.elapsed() < LONGEST {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    more => bytes += more as u64,
                }
            }
            bytes as f64 * 8e-6 / begun.elapsed().as_secs_f64()
        };
        let rate = client.thread(download).unwrap().join().unwrap().unwrap();
        println!("{name}: {rate:.0} Mbit/s");
        writeln!(csv, "\"{name}\",{rate:.0}").unwrap();
    }
    keep("line", &csv);
    true
}
