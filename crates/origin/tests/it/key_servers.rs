//! Keys from documents and key servers: CPIX, the JSON of nginx-vod-module, SPEKE; and key servers
//! that are slow, wrong, huge, down and hostile.

use crate::{
    client::{fetch, get},
    encryption::{VIDEO_KEY, VIDEO_KID, encrypting, key_file, refusal, rule, with_rules},
    server::{Server, crawl, crawl_from, key, library},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use latemux_origin::{
    check_keys,
    config::{DrmRule, FairPlayConfig, KeysConfig},
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

/// A request as it was received: its head in lower case, and its body.
#[derive(Debug, Clone)]
struct Received {
    head: String,
    body: String,
}

/// Makes the whole response. `None` leaves the request without one.
type Handler = Box<dyn Fn(usize, &Received) -> Option<Vec<u8>> + Send + Sync>;

/// A stand-in for a key server.
struct KeyServer {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl KeyServer {
    async fn start(handler: Handler, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        let handler = Arc::new(handler);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = log.clone();
                let handler = handler.clone();
                let tls = tls.clone();
                tokio::spawn(async move {
                    let Some(tls) = tls else { return respond(stream, &log, &handler).await };
                    if let Ok(stream) = tls.accept(stream).await {
                        respond(stream, &log, &handler).await;
                    }
                });
            }
        });
        Self { address, received }
    }

    fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

async fn respond<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    log: &Mutex<Vec<Received>>,
    handler: &Handler,
) {
    let mut bytes = Vec::new();
    let received = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                break Received { head, body: body.to_owned() };
            }
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(count) if count > 0) {
            return;
        }
    };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(received.clone());
        log.len()
    };
    match handler(number, &received) {
        Some(response) => drop(stream.write_all(&response).await),
        None => std::future::pending().await,
    }
    let _ = stream.shutdown().await;
}

fn response(status: u16, body: &str) -> Option<Vec<u8>> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes())
}

/// Returns the 32 digits of the key that the stand-in has for a KID (a UUID).
fn key_of(kid: &str) -> String {
    kid.replace('-', "").chars().rev().collect()
}

fn base64_of(hex: &str) -> String {
    STANDARD.encode(u128::from_str_radix(hex, 16).unwrap().to_be_bytes())
}

/// Returns the element of a key.
fn content_key(kid: &str, attributes: &str, key: &str) -> String {
    let value = base64_of(key);
    format!(
        "<cpix:ContentKey kid=\"{kid}\"{attributes}><cpix:Data><pskc:Secret><pskc:PlainValue>{value}\
         </pskc:PlainValue></pskc:Secret></cpix:Data></cpix:ContentKey>"
    )
}

/// Fills the keys into a request.
fn filled(request: &str) -> String {
    let mut parts = request.split("<cpix:ContentKey kid=\"");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (kid, rest) = part.split_once('"').unwrap();
        let (attributes, rest) = rest.split_once("/>").unwrap();
        out += &content_key(kid, attributes, &key_of(kid));
        out += rest;
    }
    let skd = STANDARD.encode(
        "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://stated\",KEYFORMAT=\"com.apple.streamingkeydelivery\"",
    );
    let fairplay = "systemId=\"94ce86fb-07ff-4f43-adb8-93d2fa968ca2\"><cpix:PSSH/><cpix:ContentProtectionData/>\
                    <cpix:HLSSignalingData playlist=\"media\"/>";
    assert!(!out.contains("94ce86fb") || out.contains(fairplay));
    out.replace(
        fairplay,
        &fairplay.replace("\"media\"/>", &format!("\"media\">{skd}</cpix:HLSSignalingData>")),
    )
}

fn speke(address: SocketAddr) -> KeysConfig {
    KeysConfig { speke: Some(format!("http://{address}/v2")), ..KeysConfig::default() }
}

fn of_samples(keys: KeysConfig) -> DrmRule {
    DrmRule {
        titles: vec!["**".to_owned()],
        dash: Some("cenc".to_owned()),
        hls_fmp4: Some("cbcs".to_owned()),
        systems: ["widevine", "playready", "fairplay"].map(str::to_owned).to_vec(),
        fairplay: FairPlayConfig { iv: Some("kid".to_owned()), uri: None },
        keys,
        ..DrmRule::default()
    }
}

async fn text(server: SocketAddr, url: &str) -> String {
    String::from_utf8(fetch(server, url).await.to_vec()).unwrap()
}

/// Two keys in each of two schemes are requested once, and used like the same keys from a file.
#[tokio::test]
async fn keys_of_speke_are_used_like_those_of_a_file() {
    let stand_in = KeyServer::start(Box::new(|_, request| response(200, &filled(&request.body))), None).await;
    let headers = BTreeMap::from([("X-Api-Key".to_owned(), "Letters and 1".to_owned())]);
    let config = KeysConfig { headers, id: Some("id of {title}".to_owned()), ..speke(stand_in.address) };
    let server = encrypting(vec![of_samples(config)]).await;
    let mpd = text(server.address, "/lighthouse.mp4/.mpd").await;
    let playlist = text(server.address, "/lighthouse.mp4/.m3u8").await;
    let requests = stand_in.received.lock().unwrap().clone();
    assert_eq!(requests.len(), 2, "one for each scheme");
    for (request, scheme) in requests.iter().zip(["cenc", "cbcs"]) {
        for part in ["post /v2 http/1.1", "x-api-key: letters and 1", "x-speke-version: 2.0"] {
            assert!(request.head.contains(part), "{}", request.head);
        }
        assert!(request.body.contains("contentId=\"id of lighthouse.mp4\""), "{}", request.body);
        assert_eq!(request.body.matches(&format!("commonEncryptionScheme=\"{scheme}\"")).count(), 2);
    }
    assert!(playlist.contains("skd://stated"), "{playlist}");
    let kids = |text: &str| -> Vec<String> {
        text.split("<cpix:ContentKey kid=\"").skip(1).map(|rest| rest[..36].to_owned()).collect()
    };
    assert!(kids(&requests[0].body).iter().all(|kid| mpd.contains(kid)), "{mpd}");
    assert!(kids(&requests[1].body).iter().all(|kid| !mpd.contains(kid)), "{mpd}");
    // The same keys from files, one for each scheme.
    let entry = |kid: &str, kind: &str| {
        format!(r#"{{"kid":"{kid}","key":"{}","tracks":"type==\"{kind}\""}}"#, key_of(kid))
    };
    for (request, part) in requests.iter().zip(["dash/", "hls/"]) {
        let kids = kids(&request.body);
        let file =
            key_file(&format!("{{\"keys\":[{},{}]}}", entry(&kids[0], "video"), entry(&kids[1], "audio")));
        let of_file = KeysConfig { file: Some(file.path().to_owned()), ..KeysConfig::default() };
        let twin = encrypting(vec![of_samples(of_file)]).await;
        let mut urls = crawl(server.address, "/lighthouse.mp4").await;
        urls.retain(|url| url.contains(part) && !url.contains(':') && !url.contains(".m3u8"));
        assert!(urls.len() > 4, "{urls:?}");
        for url in urls {
            assert!(fetch(server.address, &url).await == fetch(twin.address, &url).await, "{url}");
        }
    }
    assert_eq!(stand_in.count(), 2);
}

/// Whatever the key server does, nothing is sent clear, and the reason says whose fault it is.
#[tokio::test]
async fn a_bad_key_server_is_an_error_and_never_clear_media() {
    let clear = Server::start(library()).await;
    let urls = crawl(clear.address, "/lighthouse.mp4").await;
    let unavailable = (503, "keys_unavailable");
    let denied = (502, "keys_denied");
    let malformed = (502, "keys_malformed");
    let cases: Vec<(&str, (u16, &str), Handler)> = vec![
        ("silent", unavailable, Box::new(|_, _| None)),
        ("failing", unavailable, Box::new(|_, _| response(500, ""))),
        ("busy", unavailable, Box::new(|_, _| response(429, ""))),
        ("hanging up", unavailable, Box::new(|_, _| Some(Vec::new()))),
        ("not HTTP", unavailable, Box::new(|_, _| Some(b"SSH-2.0-x\r\n".to_vec()))),
        (
            "ending early",
            unavailable,
            Box::new(|_, _| Some(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n<a".to_vec())),
        ),
        ("refusing", denied, Box::new(|_, _| response(403, ""))),
        (
            "redirecting",
            denied,
            Box::new(|_, _| {
                Some(b"HTTP/1.1 302 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_vec())
            }),
        ),
        ("empty", malformed, Box::new(|_, _| response(200, ""))),
        ("without keys", malformed, Box::new(|_, request| response(200, &request.body))),
        (
            "with other KIDs",
            malformed,
            Box::new(|_, request| {
                let first = request.body.split("kid=\"").nth(1).unwrap()[..36].to_owned();
                let other = "99999999-9999-9999-9999-999999999999";
                response(200, &filled(&request.body.replace(&first, other)))
            }),
        ),
        (
            "with a DTD",
            malformed,
            Box::new(|_, request| {
                let head = "<!DOCTYPE a [<!ENTITY b \"bbbbbbbb\"><!ENTITY c \"&b;&b;&b;&b;\">]><cpix:CPIX";
                response(200, &filled(&request.body).replacen("<cpix:CPIX", head, 1))
            }),
        ),
        (
            "huge",
            malformed,
            Box::new(|_, request| {
                response(200, &format!("{}{}", filled(&request.body), " ".repeat(1 << 20)))
            }),
        ),
        (
            "endless",
            malformed,
            Box::new(|_, _| {
                let head = "HTTP/1.1 200 x\r\ncontent-length: 99999999999\r\n\r\n";
                Some(format!("{head}{}", " ".repeat(2 << 20)).into_bytes())
            }),
        ),
    ];
    for (name, (status, reason), handler) in cases {
        let stand_in = KeyServer::start(handler, None).await;
        let server = encrypting(vec![of_samples(speke(stand_in.address))]).await;
        // One request for keys serves all of these, because a failure is remembered for a moment.
        for url in urls.iter().take(3).chain(urls.last()) {
            let answer = get(server.address, url).await;
            assert_eq!(refusal(&answer), (status, reason.to_owned()), "{name}: {url}");
            assert_eq!(answer.header("retry-after").is_empty(), status == 502, "{name}");
        }
        assert!((1..=4).contains(&stand_in.count()), "{name}: {}", stand_in.count());
    }
    // No other test listens on this address, so nobody takes the port when it is free again.
    let listener = TcpListener::bind(("127.0.0.9", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = encrypting(vec![of_samples(speke(address))]).await;
    assert_eq!(refusal(&get(server.address, &urls[0]).await), (503, "keys_unavailable".to_owned()));
}

/// A failure is over as soon as the key server works again. Later failures change nothing for
/// titles whose keys are known, and new keys are used when they are stated.
#[tokio::test]
async fn keys_outlive_failures_of_their_server() {
    let state = Arc::new(Mutex::new("down"));
    let told = state.clone();
    let handler: Handler = Box::new(move |_, request| match *told.lock().unwrap() {
        "down" => response(500, ""),
        "new" => response(200, &filled(&request.body).replace("skd://", "skd:///")),
        "other keys" => {
            let document = filled(&request.body);
            let secret = document.split("PlainValue>").nth(1).unwrap().to_owned();
            response(200, &document.replace(&secret, &format!("{}</pskc:", base64_of(VIDEO_KEY))))
        }
        _ => response(200, &filled(&request.body)),
    });
    let stand_in = KeyServer::start(handler, None).await;
    let server = encrypting(vec![DrmRule {
        hls_fmp4: None,
        systems: vec!["widevine".to_owned()],
        fairplay: FairPlayConfig::default(),
        ..of_samples(speke(stand_in.address))
    }])
    .await;
    let url = "/lighthouse.mp4/.mpd";
    let media = "/lighthouse.mp4/dash/lighthouse-video=";
    let pass = async |time: Duration| {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    };
    assert_eq!(get(server.address, url).await.status, 503);
    *state.lock().unwrap() = "up";
    pass(Duration::from_secs(2)).await;
    let first = get(server.address, url).await;
    assert_eq!((first.status.as_u16(), stand_in.count()), (200, 2));
    assert!(String::from_utf8_lossy(&first.body).contains("ContentProtection"), "{media}");
    // Within ten minutes, nothing is asked for.
    pass(Duration::from_secs(500)).await;
    assert_eq!((get(server.address, url).await.status.as_u16(), stand_in.count()), (200, 2));
    *state.lock().unwrap() = "down";
    pass(Duration::from_secs(200)).await;
    for _ in 0..3 {
        assert_eq!(get(server.address, url).await.header("etag"), first.header("etag"));
    }
    until(|| stand_in.count() == 3).await;
    *state.lock().unwrap() = "other keys";
    pass(Duration::from_secs(60)).await;
    get(server.address, url).await;
    until(|| stand_in.count() == 4).await;
    // The next comparison of the title finds the new keys.
    for _ in 0..100 {
        pass(Duration::from_secs(60)).await;
        if get(server.address, url).await.header("etag") != first.header("etag") {
            return;
        }
    }
    panic!("the new keys were not used");
}

/// Lets other tasks run until something holds.
async fn until(holds: impl Fn() -> bool) {
    let holding = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), holding).await.expect("it never held");
}

/// The same key, stated in a file, beside the title, at a URL and as JSON, gives the same bytes.
#[tokio::test]
async fn documents_of_all_sources_state_the_same_keys() {
    let kid = "11111111-1111-1111-1111-111111111111";
    assert_eq!(kid.replace('-', ""), VIDEO_KID);
    let document = format!(
        "<cpix:CPIX xmlns:cpix=\"urn:dashif:org:cpix\" xmlns:pskc=\"urn:ietf:params:xml:ns:keyprov:pskc\">\
         <cpix:ContentKeyList>{}</cpix:ContentKeyList></cpix:CPIX>",
        content_key(kid, "", VIDEO_KEY)
    );
    let json = format!(r#"[{{"key":"{}","key_id":"{}"}}]"#, base64_of(VIDEO_KEY), base64_of(VIDEO_KID));
    let bodies = document.clone();
    let handler: Handler = Box::new(move |_, request| match request.head.split(' ').nth(1).unwrap() {
        "/cpix/harbour%20a/x.mp4" | "/cpix/lighthouse.mp4" => response(200, &bodies),
        "/json/lighthouse.mp4" => response(200, &json),
        _ => response(404, ""),
    });
    let stand_in = KeyServer::start(handler, None).await;
    let url = |path: &str| Some(format!("http://{}/{path}/{{title}}", stand_in.address));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lighthouse.mp4.xml"), &document).unwrap();
    let path = |name: &str| Some(folder.path().join(name).display().to_string());
    let file = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#));
    let reference = encrypting(vec![rule(&file)]).await;
    let urls: Vec<String> = crawl_from(reference.address, &["/lighthouse.mp4/.m3u8".to_owned()]).await;
    assert!(urls.len() > 5);
    for keys in [
        KeysConfig { cpix: path("lighthouse.mp4.xml"), ..KeysConfig::default() },
        KeysConfig { cpix: path("{title}.xml"), ..KeysConfig::default() },
        KeysConfig { cpix: url("cpix"), ..KeysConfig::default() },
        KeysConfig { json: url("json"), ..KeysConfig::default() },
        KeysConfig { beside: true, ..KeysConfig::default() },
    ] {
        let storage = library();
        storage.put(key("lighthouse.cpix"), document.clone());
        let has_all = keys.cpix.as_ref().is_some_and(|place| place.ends_with("lighthouse.mp4.xml"));
        let config = with_rules(vec![DrmRule { keys, ..rule(&file) }]);
        check_keys(&config).unwrap();
        let server = Server::with(storage, config, None).await;
        for url in &urls {
            let one = get(server.address, url).await;
            let other = get(reference.address, url).await;
            assert_eq!(one.lasting_headers(), other.lasting_headers(), "{url}");
            assert!(one.body == other.body, "{url}");
        }
        // A title without a document is refused.
        let other = get(server.address, "/ferry.mp4/.m3u8").await;
        match has_all {
            true => assert_eq!(other.status, 200),
            false => assert_eq!(refusal(&other), (502, "keys_denied".to_owned())),
        }
    }
}

/// Keys by resolution and by kind: each track gets the key whose rule it meets.
#[tokio::test]
async fn renditions_get_the_keys_of_their_resolution() {
    let kids = ["1", "2", "3"].map(|digit| {
        let part = |count| digit.repeat(count);
        format!("{}-{}-{}-{}-{}", part(8), part(4), part(4), part(4), part(12))
    });
    let keys: String = kids.iter().map(|kid| content_key(kid, "", VIDEO_KEY)).collect();
    let rule_of = |kid: &str, filter: &str| {
        format!("<cpix:ContentKeyUsageRule kid=\"{kid}\">{filter}</cpix:ContentKeyUsageRule>")
    };
    let document = |least: u32| {
        format!(
            "<cpix:CPIX xmlns:cpix=\"urn:dashif:org:cpix\" xmlns:pskc=\"urn:ietf:params:xml:ns:keyprov:pskc\">\
             <cpix:ContentKeyList>{keys}</cpix:ContentKeyList><cpix:ContentKeyUsageRuleList>{}{}{}\
             </cpix:ContentKeyUsageRuleList></cpix:CPIX>",
            rule_of(&kids[0], "<cpix:VideoFilter maxPixels=\"100000\"/>"),
            rule_of(&kids[1], &format!("<cpix:VideoFilter minPixels=\"{least}\"/>")),
            rule_of(&kids[2], "<cpix:AudioFilter/>"),
        )
    };
    let of = async |least| {
        let file = key_file(&document(least));
        let keys = KeysConfig { cpix: Some(file.path().display().to_string()), ..KeysConfig::default() };
        (encrypting(vec![of_samples(keys)]).await, file)
    };
    let (server, _file) = of(100_001).await;
    let mpd = text(server.address, "/harbour/.mpd").await;
    for kid in &kids {
        assert!(mpd.contains(&format!("cenc:default_KID=\"{kid}\"")), "{mpd}");
    }
    // Rules that overlap leave it open which key a track has; rules with a gap leave it without.
    for (least, reason) in [(1, "ambiguous_key"), (10_000_000, "no_key")] {
        let (server, _file) = of(least).await;
        let answer = get(server.address, "/harbour/.mpd").await;
        assert_eq!(refusal(&answer), (422, reason.to_owned()));
    }
}

/// A key server that asks for a certificate gets it; without one, and with a server that another
/// authority vouches for, there are no keys.
#[tokio::test]
async fn key_servers_and_this_client_prove_who_they_are() {
    let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let server = made("localhost");
    let client = made("client");
    let mut trusted = RootCertStore::empty();
    trusted.add(client.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), provider.clone());
    let verifier = verifier.build().unwrap();
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server.signing_key.serialize_der()));
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.cert.der().clone()], secret)
        .unwrap();
    let stand_in = KeyServer::start(
        Box::new(|_, request| response(200, &filled(&request.body))),
        Some(TlsAcceptor::from(Arc::new(tls))),
    )
    .await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let ca = write("ca.pem", server.cert.pem());
    let cert = write("cert.pem", client.cert.pem());
    let secret = write("key.pem", client.signing_key.serialize_pem());
    let whole = KeysConfig {
        speke: Some(format!("https://localhost:{}/v2", stand_in.address.port())),
        ca: ca.clone(),
        client_cert: cert.clone(),
        client_key: secret.clone(),
        ..KeysConfig::default()
    };
    for (config, status) in [
        (whole.clone(), 200),
        (KeysConfig { client_cert: None, client_key: None, ..whole.clone() }, 503),
        (KeysConfig { ca: cert.clone(), ..whole.clone() }, 503),
    ] {
        let server = encrypting(vec![of_samples(config)]).await;
        assert_eq!(get(server.address, "/lighthouse.mp4/.mpd").await.status, status);
    }
    assert_eq!(stand_in.count(), 2, "only the first asked, once for each scheme");
    for config in [
        KeysConfig { client_key: None, ..whole.clone() },
        KeysConfig { ca: Some(Path::new("/none.pem").to_owned()), ..whole.clone() },
        KeysConfig { client_key: ca, ..whole },
    ] {
        let problem = check_keys(&with_rules(vec![of_samples(config)])).unwrap_err();
        assert!(problem.starts_with("drm, rule 1: ") && !problem.contains("PRIVATE"), "{problem}");
    }
}
