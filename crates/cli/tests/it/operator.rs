//! Commands for whoever operates a server: `check`, `health`, `completions`, `man`, and several
//! listeners.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    process::{Command, Output},
};

fn latemux(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latemux")).args(args).output().expect("latemux runs")
}

/// Returns the exit status and everything that was printed.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

/// Checks a configuration file with this text.
fn check(text: &str, more: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latemux.toml");
    fs::write(&path, text).unwrap();
    said(&latemux(&[&["check", path.to_str().unwrap()], more].concat()))
}

#[test]
fn a_valid_configuration_is_checked_without_disturbing_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("source = {:?}\nlisten = [':0', '[::1]:0']\n[cache]\ndir = 'new/cache'\n", samples());
    let path = folder.path().join("latemux.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let server = Server::of({
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["serve", "--config", path, "--listen", "127.0.0.1:0"]);
        command
    });
    let (status, text) = said(&latemux(&["check", path]));
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("is valid: serves") && text.contains("at 0.0.0.0:0, [::1]:0"), "{text}");
    assert_eq!(get(server.address, "/harbour/.mpd").status, 200);
}

#[test]
fn every_problem_of_a_configuration_is_reported() {
    let (status, text) = check(
        "[tls]\ncert = 'no.pem'\nkey = 'no.key'\n[cache]\ndir = 'latemux.toml'\n[log]\nfilter = 'loud'\n\
         [http]\nmax_connections = 0\n",
        &[],
    );
    assert_eq!(status, Some(1));
    for problem in
        ["source is missing", "no.pem", "is not a folder", "'loud' is not a level", "max_connections"]
    {
        assert!(text.contains(problem), "{problem}: {text}");
    }
    assert!(text.ends_with("has 5 problems\n"), "{text}");
}

#[test]
fn mistakes_in_a_configuration_have_a_place() {
    let (status, text) = check("\n[http]\nmax_conections = 5\n", &[]);
    assert_eq!(status, Some(1));
    assert!(text.contains("line 3, column 1") && text.contains("max_conections"), "{text}");
}

#[test]
fn the_storage_of_a_configuration_is_asked_unless_that_is_unwanted() {
    let text = "source = 'http://127.0.0.1:1/vod/'\n";
    let (status, said) = check(text, &[]);
    assert_eq!(status, Some(1));
    assert!(said.contains("the storage does not answer"), "{said}");
    let (status, said) = check(text, &["--offline"]);
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_missing_folder_is_a_problem_also_offline() {
    let mirrored = "source = 'http://127.0.0.1:1/'\n[[storage.mirror]]\nlocation = 'no/copies'\n";
    for (text, missing) in [("source = 'no/media'\n", "no/media"), (mirrored, "no/copies")] {
        for flags in [&[][..], &["--offline"]] {
            let (status, said) = check(text, flags);
            assert_eq!(status, Some(1), "{said}");
            let line = said.lines().next().unwrap_or_default();
            assert!(line.contains(missing) && line.contains("No such file or directory"), "{said}");
            assert!(said.ends_with("has a problem\n"), "{said}");
        }
    }
    let (_, said) = check("source = 'latemux.toml'\n", &["--offline"]);
    assert!(said.contains("is a file; name the folder it is in"), "{said}");
}

#[test]
fn a_log_filter_that_would_show_nothing_is_refused() {
    for filter in ["inof", "info,acess"] {
        let output = Command::new(env!("CARGO_BIN_EXE_latemux"))
            .args(["serve", &samples(), "--listen", "127.0.0.1:0"])
            .env("LATEMUX_LOG", filter)
            .output();
        let (status, text) = said(&output.unwrap());
        assert_eq!(status, Some(1));
        assert!(text.contains("is not a level: write off, error"), "{text}");
    }
}

#[test]
fn health_fails_unless_the_server_is_ready() {
    let server = Server::start(&samples(), &[], &[]);
    let ready = format!("http://{}/healthz/ready", server.address);
    let (status, text) = said(&latemux(&["health", &ready]));
    assert_eq!((status, text.as_str()), (Some(0), ""));
    let (status, text) = said(&latemux(&["health", &format!("http://{}/healthz/no", server.address)]));
    assert_eq!(status, Some(1));
    assert!(text.contains("not ready") && text.contains("404"), "{text}");
    server.stop();
    let (status, text) = said(&latemux(&["health", &ready]));
    assert_eq!(status, Some(1));
    assert!(text.contains("not ready"), "{text}");
}

#[test]
fn all_listeners_are_served_and_closed() {
    let server = Server::start(&samples(), &["--listen", "127.0.0.1:0"], &[]);
    let both = [Some(server.address), server.other];
    for address in both {
        assert_eq!(get(address.unwrap(), "/harbour/.mpd").status, 200);
    }
    server.signal("-INT");
    let (status, _) = server.ended();
    assert!(status.success());
    for address in both {
        assert!(std::net::TcpStream::connect(address.unwrap()).is_err());
    }
}

#[test]
fn clients_may_come_by_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latemux.sock");
    let listen = format!("unix:{}", path.display());
    let server = Server::start(&samples(), &["--listen", &listen], &[]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /harbour/.mpd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"));
    assert!(response.ends_with(&get(server.address, "/harbour/.mpd").body));
    // A proxy may run as another user.
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    server.signal("-INT");
    let (status, log) = server.ended();
    assert!(status.success() && log.contains("client=127.0.0.1") && !path.exists(), "{log}");
}

#[test]
fn completions_are_scripts_of_their_shell() {
    let completions = latemux(&["completions", "bash"]);
    assert!(completions.status.success());
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("latemux");
    fs::write(&script, &completions.stdout).unwrap();
    // Completes the word that follows `latemux`.
    let run = "source \"$0\"; COMP_WORDS=(latemux ser); COMP_CWORD=1; _latemux latemux ser latemux; \
               echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", run]).arg(&script).output().unwrap();
    assert_eq!(said(&output), (Some(0), "serve\n".to_owned()));
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let (status, text) = said(&latemux(&["man", "-o", folder.path().to_str().unwrap()]));
    assert_eq!((status, text.as_str()), (Some(0), ""));
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in ["latemux.1", "latemux-serve.1", "latemux-pack.1"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let page = fs::read_to_string(folder.path().join("latemux-serve.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("segment\\-duration"), "{page}");
}
