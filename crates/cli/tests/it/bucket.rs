//! A minimal S3 endpoint whose multipart uploads fail at the second part.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
};

/// Fault at the second part of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondPart {
    /// The part is forbidden.
    Forbidden,
    /// The connection is closed at every attempt.
    Broken,
    /// There is no response.
    Silence,
}

/// A bucket that accepts only the first part of an upload.
pub(crate) struct Bucket {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    /// Receives a message when the second part has arrived.
    pub(crate) second: mpsc::Receiver<()>,
}

impl Bucket {
    pub(crate) fn start(what: SecondPart) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (heard, second) = mpsc::channel();
        let log = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let log = log.clone();
                let heard = heard.clone();
                std::thread::spawn(move || connection(stream, what, &log, &heard));
            }
        });
        Self { address, requests, second }
    }

    /// Returns `METHOD target` of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

fn connection(
    stream: TcpStream,
    what: SecondPart,
    log: &Mutex<Vec<String>>,
    heard: &mpsc::Sender<()>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut first = String::new();
        let mut length = 0;
        reader.read_line(&mut first).ok().filter(|&n| n > 0)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        let request = first.trim().trim_end_matches(" HTTP/1.1").to_owned();
        log.lock().expect("no panic").push(request.clone());
        let (status, body) = match request.split(' ').next() {
            Some("POST") if request.contains("uploads") => {
                let id = "<UploadId>upload-1</UploadId>";
                (
                    "200 OK",
                    format!(
                        "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>{id}</InitiateMultipartUploadResult>"
                    ),
                )
            }
            Some("PUT") if request.contains("partNumber=2") => {
                let _ = heard.send(());
                match what {
                    SecondPart::Forbidden => {
                        ("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>".to_owned())
                    }
                    SecondPart::Broken => return None,
                    SecondPart::Silence => {
                        // Wait until the client leaves.
                        let _ = reader.read_line(&mut String::new());
                        return None;
                    }
                }
            }
            Some("DELETE") => ("204 No Content", String::new()),
            _ => ("200 OK", String::new()),
        };
        let len = body.len();
        write!(stream, "HTTP/1.1 {status}\r\nETag: \"e\"\r\nContent-Length: {len}\r\n\r\n{body}").ok()?;
    }
}
