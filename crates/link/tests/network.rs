//! Networks of simulated hosts. Each test starts itself again in namespaces, and reads what that
//! process prints.

#![expect(clippy::unwrap_used, reason = "a test ends at the first error")]

use latemux_link::network::{Congestion, Enclosure, Host, Line, Network};
use socket2::SockRef;
use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Environment variable with the name of the test whose inner part runs.
const INNER: &str = "LATEMUX_TEST_INNER";

/// Environment variable with a text that marks the processes of one test.
const MARK: &str = "LATEMUX_TEST_MARK";

/// Returns the enclosure in the inner process of a test. Elsewhere it starts that process, checks
/// that it succeeds, and returns `None`.
fn enclosed(test: &str) -> Option<Enclosure> {
    if env::var(INNER).is_ok_and(|inner| inner == test) {
        return Some(Enclosure::enter().unwrap());
    }
    if may_enclose() {
        let out = inner(test).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
        // Not a process in which no test has run.
        assert!(text.contains("1 passed"), "{text}");
    }
    None
}

fn inner(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INNER, test);
    command
}

/// Returns true if this user may make networks. Otherwise prints that the test is skipped, or
/// panics if `LATEMUX_REQUIRE_TOOLS=1`.
#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn may_enclose() -> bool {
    let Err(why) = Enclosure::check() else { return true };
    assert!(env::var("LATEMUX_REQUIRE_TOOLS").as_deref() != Ok("1"), "{why}");
    println!("SKIPPED: {why}");
    false
}

/// Starts a server on a host that sends so many bytes to each of several connections, one after the
/// other, and ends.
fn send(host: &Host, address: Ipv4Addr, bytes: usize, connections: usize) -> SocketAddr {
    let listener =
        host.thread(move || TcpListener::bind((address, 0)).unwrap()).unwrap().join().unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let _: JoinHandle<_> = host
        .thread(move || {
            for _ in 0..connections {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&pattern(bytes)).unwrap();
            }
        })
        .unwrap();
    address
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(bytes).collect()
}

/// Returns the time in which a client on a host connects and receives everything.
fn receive(host: &Host, from: SocketAddr, bytes: usize) -> Duration {
    let client = host.thread(move || {
        let begin = Instant::now();
        let mut received = Vec::new();
        TcpStream::connect(from).unwrap().read_to_end(&mut received).unwrap();
        assert!(received == pattern(bytes), "{} of {bytes} bytes", received.len());
        begin.elapsed()
    });
    client.unwrap().join().unwrap().unwrap()
}

#[test]
fn bytes_take_at_least_the_time_of_the_line() {
    let Some(enclosure) = enclosed("bytes_take_at_least_the_time_of_the_line") else { return };
    let mut network = Network::new(&enclosure);
    let server = network.host("server").unwrap();
    let client = network.host("client").unwrap();
    let line = Line { rate: Some(1_000_000), round_trip: Duration::from_millis(60), ..Line::default() };
    let cable = network.connect(&server, &client, line).unwrap();
    let address = send(&server, cable.first, 300_000, 1);
    let took = receive(&client, address, 300_000);
    // 300 kB at 1 MB/s, a round trip to connect, and half a one for the last byte.
    assert!(took >= Duration::from_millis(390), "{took:?}");
    let [to_first, to_second] = cable.traffic().unwrap();
    assert!((300_000..400_000).contains(&to_second.bytes), "{to_second:?}");
    assert!((1..100_000).contains(&to_first.bytes), "{to_first:?}");
}

#[test]
fn bytes_arrive_whole_over_every_kind_of_line() {
    let Some(enclosure) = enclosed("bytes_arrive_whole_over_every_kind_of_line") else { return };
    let mut network = Network::new(&enclosure);
    let server = network.host("server").unwrap();
    let lines = [
        ("plain", Line::default()),
        ("grouped", Line { round_trip: Duration::from_millis(2), ..Line::default() }),
        ("lossy", Line { loss: 0.05, ..Line::default() }),
        ("full", Line { rate: Some(4_000_000), queue: Duration::from_millis(1), ..Line::default() }),
    ];
    for (name, line) in lines {
        let client = network.host(name).unwrap();
        let cable = network.connect(&server, &client, line).unwrap();
        let address = send(&server, cable.first, 1_000_000, 1);
        receive(&client, address, 1_000_000);
        let [to_server, to_client] = cable.traffic().unwrap();
        assert_eq!(to_client.dropped > 0, ["lossy", "full"].contains(&name), "{name}: {cable:?}");
        assert!((1_000_000..2_000_000).contains(&to_client.bytes), "{name}: {to_client:?}");
        assert!((1..500_000).contains(&to_server.bytes), "{name}: {to_server:?}");
    }
}

#[test]
fn a_host_has_options_and_neighbours_of_its_own() {
    let Some(enclosure) = enclosed("a_host_has_options_and_neighbours_of_its_own") else { return };
    let mut network = Network::new(&enclosure);
    let hosts = ["a", "b", "c"].map(|name| network.host(name).unwrap());
    let [a, b, c] = &hosts;
    let first = network.connect(a, b, Line::default()).unwrap();
    let second = network.connect(b, c, Line { loss: 1.0, ..Line::default() }).unwrap();
    a.set("net.ipv4.tcp_congestion_control", "reno").unwrap();
    a.set("net.ipv4.tcp_sack", "0").unwrap();
    assert_eq!(a.get("net.ipv4.tcp_sack").unwrap(), "0");
    assert_eq!(b.get("net.ipv4.tcp_sack").unwrap(), "1");
    let address = send(a, first.first, 10, 1);
    // A host reaches only those that it has a cable to.
    let far = c.thread(move || TcpStream::connect(address)).unwrap().join().unwrap().unwrap();
    assert_eq!(far.unwrap_err().kind(), std::io::ErrorKind::NetworkUnreachable);
    assert_ne!(first.second, second.first);
    for wrong in ["net.ipv4.no_such_option", "vm.swappiness", "net.ipv4/../../vm/swappiness", "net..x"] {
        assert!(a.set(wrong, "1").is_err(), "{wrong}");
        assert!(a.get(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn both_hosts_use_the_congestion_control_of_the_line() {
    let Some(enclosure) = enclosed("both_hosts_use_the_congestion_control_of_the_line") else { return };
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for congestion in Congestion::ALL.into_iter().filter(|one| available.contains(one.name())) {
        let mut network = Network::new(&enclosure);
        let server = network.host("server").unwrap();
        let client = network.host("client").unwrap();
        let line = Line { congestion: Some(congestion), ..Line::default() };
        let cable = network.connect(&server, &client, line).unwrap();
        let listener = server.thread(move || TcpListener::bind((cable.first, 0)).unwrap());
        let listener = listener.unwrap().join().unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let name = |stream: &TcpStream| {
            let name = SockRef::from(stream).tcp_congestion().unwrap();
            String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
        };
        let connected = client.thread(move || TcpStream::connect(address).unwrap());
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(name(&accepted), congestion.name());
        assert_eq!(name(&connected.unwrap().join().unwrap().unwrap()), congestion.name());
    }
}

#[test]
fn commands_run_on_their_host() {
    let Some(enclosure) = enclosed("commands_run_on_their_host") else { return };
    let mut network = Network::new(&enclosure);
    let server = network.host("server").unwrap();
    let client = network.host("client").unwrap();
    let _cable = network.connect(&server, &client, Line { loss: 0.1, ..Line::default() }).unwrap();
    let mut list = Command::new("cat");
    list.arg("/proc/self/net/dev").stdout(Stdio::piped());
    let out = client.spawn(list).unwrap().wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let devices: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert_eq!(devices, BTreeSet::from(["lo", "line0"]));
    let missing = client.spawn(Command::new("no-such-program-of-ours")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

/// Makes a network with a command on a host, prints the namespace, and ends as `how` says.
#[expect(clippy::zombie_processes, reason = "the end of the program is to end it")]
fn hold(how: &str) {
    let enclosure = Enclosure::enter().unwrap();
    let mut network = Network::new(&enclosure);
    let server = network.host("server").unwrap();
    let client = network.host("client").unwrap();
    let _cable = network.connect(&server, &client, Line { loss: 0.1, ..Line::default() }).unwrap();
    // Two processes: one of them is not a child of this program.
    let mut wait = Command::new("sh");
    wait.args(["-c", "sleep 1000 & wait"]).arg(env::var(MARK).unwrap());
    let _child = client.spawn(wait).unwrap();
    print_line(&client.get("net.ipv4.tcp_sack").unwrap());
    match how {
        "fail" => panic!("a failure"),
        "exit" => std::process::exit(3),
        "succeed" => {}
        _ => loop {
            std::thread::park();
        },
    }
}

#[expect(clippy::print_stdout, reason = "the outer process reads it")]
fn print_line(text: &str) {
    println!("ready {text}");
}

#[test]
fn nothing_is_left_of_a_network() {
    let test = "nothing_is_left_of_a_network";
    if env::var(INNER).is_ok_and(|inner| inner == test) {
        return hold(&env::var("LATEMUX_TEST_HOW").unwrap());
    }
    if !may_enclose() {
        return;
    }
    let devices = || fs::read_to_string("/proc/net/dev").unwrap().lines().count();
    let before = devices();
    // What ends the program, and its exit status; none for a signal.
    let ends = [
        ("succeed", Some(0)),
        ("fail", Some(101)),
        ("exit", Some(3)),
        ("INT", None),
        ("TERM", None),
        ("KILL", None),
    ];
    for (how, status) in ends {
        let mark = format!("latemux-{}-{how}", std::process::id());
        let mut command = inner(test);
        command.env("LATEMUX_TEST_HOW", how).env(MARK, &mark);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_ready(&mut child);
        assert_eq!(devices(), before, "the machine's own network is not touched");
        if status.is_none() {
            // The program, the keeper of its namespace, and two on the host.
            wait_until(how, || processes(&mark) == 4);
            let kill = Command::new("kill").args(["-s", how, &child.id().to_string()]).status();
            assert!(kill.unwrap().success());
        }
        assert_eq!(child.wait().unwrap().code(), status, "{how}");
        wait_until(how, || processes(&mark) == 0);
    }
    assert_eq!(devices(), before);
}

fn wait_until(how: &str, is_true: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < until, "{how}");
        std::thread::yield_now();
    }
}

fn wait_ready(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("ready ")));
    // The rest is read, so that the child can write it.
    std::thread::spawn(move || lines.count());
}

/// Returns the number of processes that have the mark in their environment. A namespace exists as
/// long as one of its processes, or as somebody has it open.
fn processes(mark: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let environments = all.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    let mark = format!("{MARK}={mark}\0");
    environments.filter(|text| text.windows(mark.len()).any(|part| part == mark.as_bytes())).count()
}

#[test]
fn a_user_without_rights_is_told_why() {
    if env::var(INNER).is_ok() {
        let error = Enclosure::enter().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("/dev/net/tun: ") || text.contains("network namespaces: "), "{text}");
        return;
    }
    // A user who may not even make a namespace of users: a limit of 0 in a namespace of its own.
    if !may_enclose() {
        return;
    }
    let test = "a_user_without_rights_is_told_why";
    let own = inner(test);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c"]);
    command.arg("echo 0 >/proc/sys/user/max_net_namespaces; exec \"$@\"").arg("sh");
    command.arg(own.get_program()).args(own.get_args()).env(INNER, test);
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("1 passed"),
        "{text} {}",
        String::from_utf8_lossy(&out.stderr)
    );
}
