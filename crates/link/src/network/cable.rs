//! Cables between two hosts.
//!
//! A cable without rate, round-trip time and loss is a pair of devices of the kernel (veth). For
//! any other cable, a thread of this program reads packets from a TUN device on each host, and
//! writes each packet to the device on the other host when it is due.

use super::{Host, Line, ip, line::Direction};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionbio,
};
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, PipeWriter, Read as _, Seek as _},
    net::Ipv4Addr,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};
use tun_rs::{DeviceBuilder, SyncDevice};

/// Size of the largest group of packets, with the header that describes it.
const LARGEST: usize = VIRTIO_HEADER + (1 << 16);

/// Size of the header of a group of packets (`struct virtio_net_hdr`, Virtual I/O Device 1.2,
/// section 5.1.6).
const VIRTIO_HEADER: usize = 10;

/// The number of packets that the kernel keeps until the thread reads them.
const KERNEL_QUEUE: &str = "10000";

/// The counters of the devices in the network namespace of the thread that opens it.
const DEVICES: &str = "/proc/thread-self/net/dev";

/// The size of the Ethernet header with which the counters of a veth device count each packet.
const ETHERNET_HEADER: u64 = 14;

/// A cable between two hosts, with the address that each of them has on it. When dropped, packets
/// no longer pass.
#[derive(Debug)]
pub struct Cable {
    /// The address of the first host.
    pub first: Ipv4Addr,
    /// The address of the second host.
    pub second: Ipv4Addr,
    name: String,
    carrier: Carrier,
}

/// The part of a cable that carries its packets.
#[derive(Debug)]
enum Carrier {
    /// A pair of devices of the kernel, with the counters of the first and the second host.
    Kernel([File; 2]),
    /// A thread, which ends when `_stop` is closed.
    Thread { to_first: Arc<Counts>, to_second: Arc<Counts>, _stop: PipeWriter },
}

/// Packets of one direction so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The bytes of IP packets that have arrived.
    pub bytes: u64,
    /// The packets that were lost, or found the queue full.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    fn traffic(&self) -> Traffic {
        Traffic { bytes: self.bytes.load(Relaxed), dropped: self.dropped.load(Relaxed) }
    }
}

impl Cable {
    pub(super) fn lay(
        number: u16,
        first: (&Host, Ipv4Addr),
        second: (&Host, Ipv4Addr),
        line: Line,
    ) -> io::Result<Self> {
        let name = format!("line{number}");
        let carrier = if line.is_plain() {
            let namespace = second.0.namespace.clone();
            let name = name.clone();
            first.0.call(move || {
                ip(&[
                    "link", "add", "name", &name, "type", "veth", "peer", "name", &name, "netns", &namespace,
                ])
            })?;
            let counters = |host: &Host| host.call(|| File::open(DEVICES));
            Carrier::Kernel([counters(first.0)?, counters(second.0)?])
        } else {
            let now = Instant::now();
            let to_first = Arc::<Counts>::default();
            let to_second = Arc::<Counts>::default();
            let direction =
                |from: &Host, to, seed| Side::new(from, &name, Direction::new(line, seed, now), to);
            let seeds = (line.seed.wrapping_mul(2), line.seed.wrapping_mul(2).wrapping_add(1));
            let sides = [
                direction(first.0, Arc::clone(&to_second), seeds.0)?,
                direction(second.0, Arc::clone(&to_first), seeds.1)?,
            ];
            let (ended, stop) = io::pipe()?;
            thread::Builder::new().name(name.clone()).spawn(move || carry(sides, ended.as_fd()))?;
            Carrier::Thread { to_first, to_second, _stop: stop }
        };
        for ((host, address), (_, peer)) in [(first, second), (second, first)] {
            let address = address.to_string();
            let peer = peer.to_string();
            let name = name.clone();
            host.call(move || {
                ip(&["link", "set", "dev", &name, "txqueuelen", KERNEL_QUEUE, "up"])?;
                ip(&["address", "add", &address, "peer", &peer, "dev", &name])?;
                let Some(congestion) = line.congestion else { return Ok(()) };
                // The option of a namespace accepts only what the machine allows all users.
                let route = ["route", "replace", &peer, "dev", &name, "src", &address, "congctl"];
                ip(&[&route[..], &[congestion.name()]].concat())
            })?;
        }
        Ok(Self { first: first.1, second: second.1, name, carrier })
    }

    /// Returns the traffic to the first and to the second host so far. The kernel may combine
    /// segments of TCP, and then counts the headers of a group once.
    ///
    /// # Errors
    /// If the kernel's counters of a pair of devices cannot be read.
    pub fn traffic(&self) -> io::Result<[Traffic; 2]> {
        match &self.carrier {
            Carrier::Thread { to_first, to_second, .. } => Ok([to_first.traffic(), to_second.traffic()]),
            Carrier::Kernel([first, second]) => Ok([self.received(first)?, self.received(second)?]),
        }
    }

    /// Reads what the device of one host has received.
    fn received(&self, counters: &File) -> io::Result<Traffic> {
        let mut counters = counters;
        let mut text = String::new();
        counters.rewind()?;
        counters.read_to_string(&mut text)?;
        received(&text, &self.name)
            .ok_or_else(|| io::Error::other(format!("{DEVICES} does not list {}", self.name)))
    }
}

/// Returns what a device has received by proc_pid_net(5): bytes, packets, errors, drops.
fn received(text: &str, device: &str) -> Option<Traffic> {
    let counts = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let mut counts = counts.split_whitespace().map_while(|count| count.parse::<u64>().ok());
    let bytes = counts.next()?;
    let packets = counts.next()?;
    let dropped = counts.nth(1)?;
    Some(Traffic { bytes: bytes.saturating_sub(packets.saturating_mul(ETHERNET_HEADER)), dropped })
}

/// A device, and the packets on their way from it to the other one.
struct Side {
    device: SyncDevice,
    is_grouped: bool,
    direction: Direction,
    /// Packets under way with the times at which they arrive, in order.
    packets: VecDeque<(Instant, Box<[u8]>)>,
    counts: Arc<Counts>,
}

impl Side {
    fn new(host: &Host, name: &str, direction: Direction, counts: Arc<Counts>) -> io::Result<Self> {
        let name = name.to_owned();
        let is_grouped = direction.is_grouped();
        let device = host.call(move || {
            let device = DeviceBuilder::new().name(name).offload(is_grouped).build_sync()?;
            // By default, programs that this one starts would inherit the device.
            rustix::io::fcntl_setfd(&device, rustix::io::FdFlags::CLOEXEC)?;
            ioctl_fionbio(&device, true)?;
            Ok(device)
        })?;
        Ok(Self { device, is_grouped, direction, packets: VecDeque::new(), counts })
    }

    /// Takes the packets that the host has sent.
    fn take(&mut self, buffer: &mut [u8]) {
        // An error means that there are no more packets, or that the device is not up yet.
        while let Ok(length) = self.device.recv(buffer) {
            let packet = &buffer[..length];
            match self.direction.pass(Instant::now(), wire_bytes(packet, self.is_grouped)) {
                Some(at) => self.packets.push_back((at, packet.into())),
                None => _ = self.counts.dropped.fetch_add(1, Relaxed),
            }
        }
    }

    /// Writes the packets that are due to the other device.
    fn deliver(&mut self, to: &SyncDevice, now: Instant) {
        while let Some((_, packet)) = self.packets.pop_front_if(|(at, _)| *at <= now) {
            match to.send(&packet) {
                Ok(_) => {
                    let bytes = wire_bytes(&packet, self.is_grouped);
                    self.counts.bytes.fetch_add(bytes, Relaxed);
                }
                Err(_) => _ = self.counts.dropped.fetch_add(1, Relaxed),
            }
        }
    }
}

/// Returns the bytes that a packet has on the line. Of a group, each packet has headers there.
fn wire_bytes(packet: &[u8], is_grouped: bool) -> u64 {
    if !is_grouped {
        return packet.len() as u64;
    }
    let Some((header, packet)) = packet.split_at_checked(VIRTIO_HEADER) else { return 0 };
    let field = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let headers = field(2);
    let payload = field(4);
    let packets = packet
        .len()
        .saturating_sub(headers)
        .checked_div(payload)
        .map_or(1, |_| packet.len().saturating_sub(headers).div_ceil(payload).max(1));
    (packet.len() + (packets - 1) * headers) as u64
}

/// Carries packets until `ended` is closed.
fn carry([mut first, mut second]: [Side; 2], ended: BorrowedFd<'_>) {
    let mut buffer = vec![0; LARGEST];
    loop {
        let now = Instant::now();
        first.deliver(&second.device, now);
        second.deliver(&first.device, now);
        let next =
            [&first, &second].into_iter().filter_map(|side| side.packets.front()).map(|(at, _)| *at).min();
        let wait = next.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut polled = [
            PollFd::new(&first.device, PollFlags::IN),
            PollFd::new(&second.device, PollFlags::IN),
            PollFd::from_borrowed_fd(ended, PollFlags::IN),
        ];
        let result = poll(&mut polled, wait.as_ref());
        let has_ended = !polled[2].revents().is_empty();
        if has_ended || result.is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        first.take(&mut buffer);
        second.take(&mut buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_device_are_found_by_its_whole_name() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop\n    lo: 1 1 0 0 0 0 0 0 1 1\n\
                    line10: 9 9 9 9 0 0 0 0 9 9\n line1:  1028  2 5 3 0 0 0 0 7 7\n";
        assert_eq!(received(text, "line1"), Some(Traffic { bytes: 1000, dropped: 3 }));
        assert_eq!(received(text, "line"), None);
        assert_eq!(received("line1: 7", "line1"), None);
    }

    #[test]
    fn a_group_counts_as_the_packets_in_it() {
        assert_eq!(wire_bytes(&[0; 1500], false), 1500);
        // Three segments of 1,448 bytes and one of 100, each with 52 bytes of headers.
        let mut group = vec![0; VIRTIO_HEADER + 52 + 3 * 1448 + 100];
        assert_eq!(wire_bytes(&group, true), 52 + 3 * 1448 + 100);
        group[2..4].copy_from_slice(&52_u16.to_ne_bytes());
        group[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        assert_eq!(wire_bytes(&group, true), 4 * 52 + 3 * 1448 + 100);
        assert_eq!(wire_bytes(&[0; 4], true), 0);
    }
}
