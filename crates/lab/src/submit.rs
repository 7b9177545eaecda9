//! Workflow documents for an engine: the workflow API of Network-Based Media Processing
//! (ISO/IEC 23090-8, clause 11).

use crate::{Error, function::Function, nbmp::Workflow};
use serde_json::Value;
use std::{
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

/// The longest wait for a connection, and for each part of the response.
const WAIT: Duration = Duration::from_secs(30);

/// The largest response in bytes.
const MAX_RESPONSE: u64 = 4 << 20;

/// The most characters of a refusal that are reported.
const MAX_REASON: usize = 200;

/// The port of `http://HOST/`.
const HTTP_PORT: u16 = 80;

/// Creates a workflow at the engine with the address `http://HOST:PORT/…`. Returns its id, which
/// the engine may have changed.
///
/// # Errors
/// If the document is not one that this program would run, the address is not one of http, or the
/// engine refuses the document, does not answer, or answers with something else.
pub fn submit(document: &[u8], engine: &str) -> Result<String, Error> {
    let workflow = Workflow::from_json(document)?;
    if workflow.graph.client().is_some_and(|client| client.function == Function::Player) {
        return Err(Error::invalid(
            "the function 'player' runs only in `latemux lab run`, and not on an engine",
        ));
    }
    let invalid = || Error::invalid(format!("'{engine}' is not the address of an engine: http://HOST:PORT/"));
    let (authority, path) = parse(engine).ok_or_else(invalid)?;
    // An IPv6 address has colons too, in brackets.
    let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
    let server = if has_port { authority.to_owned() } else { format!("{authority}:{HTTP_PORT}") };
    let lacking = |why: &dyn std::fmt::Display| Error::Lacking(format!("{engine}: {why}"));
    let response = post(&server, authority, path, document).map_err(|error| lacking(&error))?;
    let (status, body) = split(&response).ok_or_else(|| lacking(&"the response is not one of HTTP"))?;
    if status != 201 {
        let reason: String = String::from_utf8_lossy(body).chars().take(MAX_REASON).collect();
        let reason = reason.replace(char::is_control, " ");
        return Err(lacking(&format!(
            "the engine refused the workflow with status {status}: {}",
            reason.trim()
        )));
    }
    let id = serde_json::from_slice::<Value>(body).ok();
    let id = id.and_then(|body| Some(body.pointer("/general/id")?.as_str()?.to_owned()));
    Ok(id.unwrap_or(workflow.id))
}

/// Returns the authority and the path of an address, the latter without a slash at its end.
fn parse(engine: &str) -> Option<(&str, &str)> {
    let rest = engine.strip_prefix("http://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = |c: char| c.is_ascii_graphic() && !"?#@\\".contains(c);
    (!authority.is_empty() && rest.chars().all(is_plain)).then(|| (authority, path.trim_end_matches('/')))
}

/// Sends the document and returns the whole response. HTTP/1.0 has no chunked responses.
fn post(server: &str, host: &str, path: &str, document: &[u8]) -> io::Result<Vec<u8>> {
    let address =
        server.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no address of this name"))?;
    let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let head = format!(
        "POST {path}/v2/workflows HTTP/1.0\r\nHost: {host}\r\nAccept: application/mpeg-nbmp-wdd+json\r\n\
         Content-Type: application/mpeg-nbmp-wdd+json\r\nContent-Length: {}\r\n\r\n",
        document.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(document)?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE).read_to_end(&mut response)?;
    Ok(response)
}

/// Returns the status and the body of a response.
fn split(response: &[u8]) -> Option<(u16, &[u8])> {
    let line = response.strip_prefix(b"HTTP/1.")?.get(1..)?;
    let status = std::str::from_utf8(line.get(1..4)?).ok()?.parse().ok()?;
    let end = response.windows(4).position(|end| end == b"\r\n\r\n")?;
    Some((status, &response[end + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Connection, Graph, Node};
    use std::{
        net::{Ipv4Addr, TcpListener},
        thread::{self, JoinHandle},
    };

    const LOAD: [(&str, &str); 4] =
        [("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", "1")];

    /// Returns a workflow of a storage, an origin and a load.
    fn document() -> Vec<u8> {
        with_client(Function::Load, &LOAD)
    }

    /// Returns a workflow of a storage, an origin and a client.
    fn with_client(client: Function, parameters: &[(&str, &str)]) -> Vec<u8> {
        let node = |id: &str, function, parameters: &[(&str, &str)]| Node {
            id: id.to_owned(),
            function,
            host: None,
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let nodes = vec![
            node("storage", Function::Storage, &[("content", "t/mp4")]),
            node("origin", Function::Origin, &[("config", "[cache]")]),
            node("load", client, parameters),
        ];
        let connection =
            |from: &str, to: &str| Connection { from: from.to_owned(), port: 0, to: to.to_owned() };
        let graph =
            Graph::new(nodes, vec![connection("storage", "origin"), connection("origin", "load")]).unwrap();
        Workflow::new("lab-x".to_owned(), "x".to_owned(), graph).unwrap().to_json().unwrap().into_bytes()
    }

    /// Starts an engine that gives one response, and returns its address and the request it gets.
    fn engine(response: &'static str) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("http://{}/api/", listener.local_addr().unwrap());
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            let length = document().len();
            loop {
                let read = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..read]);
                let head = request.windows(4).position(|end| end == b"\r\n\r\n");
                if read == 0 || head.is_some_and(|end| request.len() >= end + 4 + length) {
                    break;
                }
            }
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        };
        (address, thread::spawn(serve))
    }

    #[test]
    fn an_engine_gets_the_document_and_names_the_workflow() {
        let (address, request) = engine("HTTP/1.1 201 Created\r\n\r\n{\"general\": {\"id\": \"lab-7\"}}");
        assert_eq!(submit(&document(), &address), Ok("lab-7".to_owned()));
        let request = request.join().unwrap();
        assert!(request.starts_with("POST /api/v2/workflows HTTP/1.0\r\n"), "{request}");
        assert!(request.ends_with(std::str::from_utf8(&document()).unwrap()), "{request}");
        let (address, _request) = engine("HTTP/1.1 201 Created\r\n\r\n");
        assert_eq!(submit(&document(), &address), Ok("lab-x".to_owned()));
    }

    #[test]
    fn an_engine_that_refuses_or_vanishes_is_one_line() {
        for (response, why) in [
            (
                "HTTP/1.1 409 Conflict\r\n\r\n{\n\"detail\": \"exists\"}",
                "refused the workflow with status 409: { \"detail\": \"exists\"}",
            ),
            ("HTTP/1.1 200 OK\r\n\r\n", "status 200"),
            ("", "the response is not one of HTTP"),
            ("HTTP/1.1 201 Created\r\n", "the response is not one of HTTP"),
            ("SSH-2.0-x\r\n\r\n", "the response is not one of HTTP"),
        ] {
            let (address, _request) = engine(response);
            let error = submit(&document(), &address).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(why) && !text.contains('\n') && error.reason() == "lacking", "{text}");
        }
        // No other test listens on this address, so nobody takes the port when it is free again.
        let closed = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 9), 0)).unwrap().local_addr().unwrap();
        let error = submit(&document(), &format!("http://{closed}")).unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
    }

    #[test]
    fn nothing_is_sent_for_a_wrong_address_or_document() {
        for wrong in ["https://engine/", "engine:80", "http://", "http://a b/", "http://u@h/", "http://h/?q"]
        {
            let error = submit(&document(), wrong).unwrap_err().to_string();
            assert!(error.contains("is not the address of an engine"), "{error}");
        }
        assert_eq!(submit(b"{}", "http://127.0.0.1:1/").unwrap_err().reason(), "invalid");
        let player = with_client(Function::Player, &[("format", "dash"), ("title", "t")]);
        let error = submit(&player, "http://127.0.0.1:1/").unwrap_err().to_string();
        assert_eq!(error, "the function 'player' runs only in `latemux lab run`, and not on an engine");
    }
}
