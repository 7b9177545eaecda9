//! Hosts with network namespaces of their own, and lines between them.
//!
//! A program that makes networks first calls [`Enclosure::enter`], which starts it again in
//! namespaces. Whatever it then makes is outside the machine's own network, and ends with it, even
//! if it is killed.
//!
//! ```no_run
//! use latemux_link::network::{Congestion, Enclosure, Line, Network};
//! use std::{process::Command, time::Duration};
//!
//! # fn main() -> std::io::Result<()> {
//! let enclosure = Enclosure::enter()?;
//! let mut network = Network::new(&enclosure);
//! let (server, client) = (network.host("server")?, network.host("client")?);
//! let line = Line {
//!     rate: Some(1_250_000),
//!     round_trip: Duration::from_millis(50),
//!     loss: 0.01,
//!     congestion: Some(Congestion::Reno),
//!     ..Line::default()
//! };
//! let cable = network.connect(&server, &client, line)?;
//! client.set("net.ipv4.tcp_sack", "0")?;
//! let mut serve = Command::new("latemux");
//! serve.args(["serve", "media", "--listen", &format!("{}:80", cable.first)]);
//! let mut server = server.spawn(serve)?;
//! # server.kill()
//! # }
//! ```

mod cable;
mod enclosure;
mod host;
mod line;

pub use cable::{Cable, Traffic};
pub use enclosure::{Enclosure, has_entered};
pub use host::Host;
pub use line::{Congestion, Line};

use std::{
    io,
    net::Ipv4Addr,
    process::{Command, Stdio},
};

/// The most cables of a network. Each has a network of 10.0.0.0/8 with 256 addresses.
const MAX_CABLES: u16 = 4096;

/// Hosts and the cables between them. They exist until the program ends or the last [`Host`] and
/// [`Cable`] are dropped.
#[derive(Debug)]
pub struct Network<'a> {
    enclosure: &'a Enclosure,
    cables: u16,
}

impl<'a> Network<'a> {
    /// Starts with a network without hosts.
    pub fn new(enclosure: &'a Enclosure) -> Self {
        Self { enclosure, cables: 0 }
    }

    /// Makes a host, which reaches nothing but itself.
    ///
    /// # Errors
    /// If the system refuses another network namespace.
    pub fn host(&self, name: &str) -> io::Result<Host> {
        Host::new(name, &self.enclosure.processes)
    }

    /// Connects two hosts. Each gets an address of its own on this cable, which only the other one
    /// reaches.
    ///
    /// # Errors
    /// If the system refuses a device, or there are more than 4,096 cables.
    pub fn connect(&mut self, first: &Host, second: &Host, line: Line) -> io::Result<Cable> {
        let number = self.cables;
        if number >= MAX_CABLES {
            return Err(io::Error::other("a network has at most 4096 cables"));
        }
        self.cables += 1;
        let [high, low] = number.to_be_bytes();
        let address = |last| Ipv4Addr::new(10, high, low, last);
        Cable::lay(number, (first, address(1)), (second, address(2)), line)
    }
}

/// Runs `ip` (iproute2) in the network namespace of this thread.
fn ip(arguments: &[&str]) -> io::Result<()> {
    let out = tool("ip").args(arguments).stdin(Stdio::null()).output();
    let out = out.map_err(|error| io::Error::new(error.kind(), format!("ip (iproute2): {error}")))?;
    if out.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.stderr);
    Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), text.trim())))
}

/// Returns a command of the system, which may be in a folder outside an ordinary user's PATH.
fn tool(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}
