//! Servers that misbehave. Each case runs against plain HTTP, S3, GCS and Azure, which share one
//! data path.

use bytes::Bytes;
use futures_util::future::{join, join_all};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::{
    AccessKeys, Key, ListRequest, Options, ReadRequest, S3Overrides, Storage, StorageError, Version, Want,
    open, stand_in,
};
use latemux_testmedia::http_server::{Reply, Request, Server, Then};
use std::sync::Arc;
use std::time::Duration;

const ETAG: (&str, &str) = ("ETag", "\"one\"");
const MODIFIED: (&str, &str) = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");

/// Wait for a server that responds, however busy this machine is.
const LONG: Duration = Duration::from_secs(60);
/// Wait for a server that never responds.
const SHORT: Duration = Duration::from_millis(200);

fn options(server: &Server, wait: Duration) -> Options {
    Options {
        first_byte_timeout: wait,
        stall_timeout: wait,
        retry_within: LONG,
        s3_endpoint: Some(server.address.clone()),
        s3: S3Overrides {
            keys: Some(AccessKeys { id: "AKID".into(), secret: "hidden".into() }),
            ..S3Overrides::default()
        },
        ..Options::default()
    }
}

fn film() -> Key {
    Key::new("film.mp4").unwrap()
}

/// Returns `bytes 5-9/100` and those bytes for a request with `Range: bytes=5-9`.
fn requested<'a>(request: &Request, content: &'a [u8]) -> (String, &'a [u8]) {
    let (first, last) =
        request.header("range").unwrap().strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let last = last.parse().unwrap_or(usize::MAX).min(content.len() - 1);
    (format!("bytes {first}-{last}/{}", content.len()), &content[first..=last])
}

/// Returns a valid response to a range request.
fn good(request: &Request, content: &[u8], headers: &[(&str, &str)]) -> Reply {
    let (range, bytes) = requested(request, content);
    Reply::new(206, &[headers, &[("Content-Range", &range)]].concat(), bytes)
}

/// Returns the same response, broken off after `cut` bytes.
fn broken(request: &Request, content: &[u8], headers: &[(&str, &str)], cut: usize, then: Then) -> Reply {
    let (range, bytes) = requested(request, content);
    Reply::cut(206, &[headers, &[("Content-Range", &range)]].concat(), bytes, cut, then)
}

/// The result of a read: version and bytes, or the error of its head or body.
type Outcome = Result<(Version, Bytes), StorageError>;

async fn get(storage: &dyn Storage, want: Want, pin: Option<&Version>) -> Outcome {
    let read = storage.read(ReadRequest::new(&film(), want).pinned_to(pin)).await?;
    let version = read.object.version.clone();
    Ok((version, collect(read).await?))
}

/// Returns every back end that uses HTTP, connected to a server of ours, and the path by which it
/// requests [`film`].
fn back_ends(server: &Server, wait: Duration) -> [(Arc<dyn Storage>, &'static str); 4] {
    let options = options(server, wait);
    let vod = Key::new("vod").unwrap();
    [
        (open(&format!("{}/vod/", server.address), &options).unwrap(), "/vod/film.mp4"),
        (open("s3://bucket/vod", &options).unwrap(), "/bucket/vod/film.mp4"),
        (stand_in::google(&server.address, "bucket", &vod, &options).unwrap(), "/bucket/vod%2Ffilm%2Emp4"),
        (stand_in::azure(&server.address, "bucket", &vod, &options).unwrap(), "/bucket/vod/film.mp4"),
    ]
}

const BACK_ENDS: usize = 4;

/// Runs one read against a scripted server, over every back end. All must have the same result.
async fn case(
    want: Want,
    pin: Option<Version>,
    handler: impl Fn(usize, &Request) -> Reply + Clone + Send + Sync + 'static,
    check: impl Fn(Outcome, &[Request]),
) {
    case_within(LONG, want, pin, handler, check).await;
}

/// Runs such a read, but waits for the server only this long.
async fn case_within(
    wait: Duration,
    want: Want,
    pin: Option<Version>,
    handler: impl Fn(usize, &Request) -> Reply + Clone + Send + Sync + 'static,
    check: impl Fn(Outcome, &[Request]),
) {
    let one = async |back_end: usize| {
        let server = Server::start(handler.clone()).await;
        let (storage, target) = back_ends(&server, wait)[back_end].clone();
        let outcome = get(&*storage, want.clone(), pin.as_ref()).await;
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.target == target), "{requests:?}");
        let signed = back_end > 0;
        assert!(requests.iter().all(|request| request.header("authorization").is_some() == signed));
        check(outcome, &requests);
    };
    // Concurrently, because the waits between the requests are real.
    join_all((0..BACK_ENDS).map(one)).await;
}

fn reason(outcome: &Outcome) -> &'static str {
    outcome.as_ref().map_or_else(StorageError::reason, |_| "ok")
}

fn methods(requests: &[Request]) -> Vec<&str> {
    requests.iter().map(|request| request.method.as_str()).collect()
}

fn range(request: &Request) -> &str {
    request.header("range").unwrap_or_default()
}

#[tokio::test]
async fn final_statuses_are_not_retried() {
    for (status, expected) in [
        (400, "storage_bad_answer"),
        (401, "storage_denied"),
        (403, "storage_denied"),
        (404, "source_not_found"),
        (412, "source_changed"),
        (416, "source_range"),
        (302, "storage_bad_answer"),
        (304, "storage_bad_answer"),
    ] {
        case(
            Want::Range(0..10),
            None,
            move |_, _| Reply::new(status, &[], b""),
            |outcome, requests| {
                assert_eq!((reason(&outcome), requests.len()), (expected, 1), "{status}");
            },
        )
        .await;
    }
}

#[tokio::test]
async fn failures_are_retried_within_the_budget() {
    let content = pattern(1, 100);
    // Concurrently, because the waits between the requests are real.
    let cases = [500, 502, 503, 504, 429, 408].map(|status| {
        let body = content.clone();
        let content = content.clone();
        let recovering = move |n, request: &Request| match n {
            0 | 1 => Reply::new(status, &[], b"sorry"),
            _ => good(request, &body, &[ETAG]),
        };
        let failing = move |_, _: &Request| Reply::new(status, &[], b"sorry");
        let recovers = case(Want::Range(5..10), None, recovering, move |outcome, requests| {
            assert_eq!(outcome.unwrap().1, content[5..10]);
            assert_eq!(requests.len(), 3, "{status}");
        });
        let fails = case(Want::Range(5..10), None, failing, move |outcome, requests| {
            let expected =
                if matches!(status, 503 | 429) { "storage_throttled" } else { "storage_unavailable" };
            assert_eq!((reason(&outcome), requests.len()), (expected, 3), "{status}");
        });
        join(recovers, fails)
    });
    join_all(cases).await;
}

#[tokio::test]
async fn retry_after_is_obeyed_within_the_budget() {
    let patient = |n, request: &Request| match n {
        0 => Reply::new(503, &[("Retry-After", "0")], b""),
        _ => good(request, &pattern(1, 100), &[ETAG]),
    };
    case(Want::Head(10), None, patient, |outcome, requests| {
        assert_eq!((reason(&outcome), requests.len()), ("ok", 2));
    })
    .await;
    // A longer wait than the budget allows.
    let slow_down = b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>";
    case(
        Want::Head(10),
        None,
        |_, _| Reply::new(503, &[("Retry-After", "60")], slow_down),
        |outcome, requests| {
            let expected = Some(Duration::from_secs(60));
            assert!(
                matches!(outcome, Err(StorageError::Throttled { retry_after, .. }) if retry_after == expected)
            );
            assert_eq!(requests.len(), 1);
        },
    )
    .await;
}

#[tokio::test]
async fn missing_responses_time_out() {
    case_within(
        SHORT,
        Want::Head(10),
        None,
        |_, _| Reply::nothing(Then::Hang),
        |outcome, requests| {
            assert!(matches!(outcome, Err(StorageError::TimedOut { after: a, .. }) if a == SHORT));
            assert_eq!(requests.len(), 1, "a server that hangs is not asked again");
        },
    )
    .await;
    let stalling = |_, request: &Request| broken(request, &pattern(1, 100), &[ETAG], 5, Then::Hang);
    case_within(SHORT, Want::Head(10), None, stalling, |outcome, requests| {
        assert_eq!((reason(&outcome), requests.len()), ("storage_timeout", 1));
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    // No other test listens on this address, so nobody takes the port when it is free again.
    let free = std::net::TcpListener::bind("127.0.0.9:0").unwrap();
    let address = format!("http://{}/vod/", free.local_addr().unwrap());
    drop(free);
    let storage = open(&address, &Options::default()).unwrap();
    assert_eq!(reason(&get(&*storage, Want::Head(10), None).await), "storage_unavailable");
}

#[tokio::test]
async fn a_hanging_handshake_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connect = Duration::from_millis(200);
    let options = Options { connect_timeout: connect, retries: 0, ..Options::default() };
    let storage = open(&format!("https://{}/", silent.local_addr().unwrap()), &options).unwrap();
    let outcome = tokio::time::timeout(connect * 40, get(&*storage, Want::Head(10), None)).await.unwrap();
    assert!(matches!(outcome, Err(StorageError::TimedOut { after, .. }) if after == connect), "{outcome:?}");
}

#[tokio::test]
async fn connections_that_break_before_the_response_are_retried() {
    let content = pattern(1, 100);
    let body = content.clone();
    let recovering = move |n, request: &Request| match n {
        0 => Reply::nothing(Then::Close),
        _ => good(request, &body, &[ETAG]),
    };
    case(Want::Head(10), None, recovering, |outcome, requests| {
        assert_eq!(outcome.unwrap().1, content[..10]);
        assert_eq!(requests.len(), 2);
    })
    .await;
    case(
        Want::Head(10),
        None,
        |_, _| Reply::nothing(Then::Close),
        |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), ("storage_unavailable", 3));
        },
    )
    .await;
}

#[tokio::test]
async fn a_broken_body_is_resumed() {
    let content = pattern(1, 1000);
    for (headers, if_match) in
        [([ETAG, ("X", "x")], Some("\"one\"")), ([MODIFIED, ("ETag", "W/\"one\"")], None)]
    {
        let body = content.clone();
        let halves = move |_, request: &Request| {
            let (_, bytes) = requested(request, &body);
            // 900 bytes are left, then 400, then the last 200.
            let cut = if bytes.len() > 200 { bytes.len() * 4 / 9 } else { bytes.len() };
            broken(request, &body, &headers, cut, Then::Close)
        };
        case(Want::Range(50..500), None, halves, |outcome, requests| {
            let (version, bytes) = outcome.unwrap();
            assert_eq!(bytes, content[50..500]);
            assert_eq!(version.etag.as_deref(), if_match);
            let ranges: Vec<_> = requests.iter().map(range).collect();
            assert_eq!(ranges, ["bytes=50-499", "bytes=250-499", "bytes=361-499"]);
            let pins: Vec<_> = requests.iter().map(|request| request.header("if-match")).collect();
            assert_eq!(pins, [None, if_match, if_match]);
        })
        .await;
    }
}

#[tokio::test]
async fn a_broken_body_that_cannot_be_resumed_is_an_error() {
    let content = pattern(1, 1000);
    let large = pattern(1, 1_300_000);
    // Without ETag and date, nothing shows that the rest belongs to the same object.
    let body = content.clone();
    let nameless = move |_, request: &Request| broken(request, &body, &[], 10, Then::Close);
    case(Want::Head(100), None, nameless, |outcome, requests| {
        assert_eq!((reason(&outcome), requests.len()), ("storage_unavailable", 1));
    })
    .await;
    let body = content.clone();
    let always = move |_, request: &Request| broken(request, &body, &[ETAG], 10, Then::Close);
    case(Want::Head(100), None, always, |outcome, requests| {
        assert_eq!((reason(&outcome), requests.len()), ("storage_unavailable", 3));
    })
    .await;
    let after: [(Reply, &str); 4] = [
        (Reply::new(412, &[], b""), "source_changed"),
        (Reply::new(404, &[], b""), "source_not_found"),
        (
            Reply::new(206, &[("ETag", "\"two\""), ("Content-Range", "bytes 10-99/1000")], &[0; 90]),
            "source_changed",
        ),
        (Reply::new(200, &[ETAG], &large), "source_changed"),
    ];
    for (second, expected) in after {
        let body = content.clone();
        let then = move |n, request: &Request| match n {
            0 => broken(request, &body, &[ETAG], 10, Then::Close),
            _ => second.clone(),
        };
        case(Want::Head(100), None, then, |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), (expected, 2));
        })
        .await;
    }
}

#[tokio::test]
async fn servers_may_ignore_ranges() {
    let content = pattern(1, 1000);
    for (want, expected) in [
        (Want::Head(100), Ok(0..100)),
        (Want::Head(5000), Ok(0..1000)),
        (Want::Range(0..100), Ok(0..100)),
        (Want::Range(1..100), Ok(1..100)),
        (Want::Range(900..1000), Ok(900..1000)),
        (Want::Range(0..1001), Err("source_range")),
    ] {
        let body = content.clone();
        case(
            want,
            None,
            move |_, _| Reply::new(200, &[ETAG], &body),
            |outcome, requests| {
                assert_eq!(requests.len(), 1);
                match &expected {
                    Ok(range) => assert_eq!(outcome.unwrap().1, content[range.clone()]),
                    Err(expected) => assert_eq!(reason(&outcome), *expected),
                }
            },
        )
        .await;
    }
    // At most 1 MiB is read and discarded.
    let large = pattern(1, 1_200_000);
    for (from, expected) in [(1 << 20, "ok"), ((1 << 20) + 1, "storage_bad_answer")] {
        let body = large.clone();
        let whole = move |_, _: &Request| Reply::new(200, &[ETAG], &body);
        case(Want::Range(from..from + 100), None, whole, |outcome, _| {
            assert_eq!(reason(&outcome), expected);
            let at = usize::try_from(from).unwrap();
            assert!(outcome.is_err() || outcome.unwrap().1 == large[at..at + 100]);
        })
        .await;
    }
    // A body that breaks off is read from the first byte on again.
    let body = content.clone();
    let breaking = move |n, _: &Request| match n {
        0 => Reply::cut(200, &[ETAG], &body, 120, Then::Close),
        _ => Reply::new(200, &[ETAG], &body),
    };
    case(Want::Range(100..300), None, breaking, |outcome, requests| {
        assert_eq!(outcome.unwrap().1, content[100..300]);
        assert_eq!(range(&requests[1]), "bytes=120-299");
    })
    .await;
    let endless = |_, _: &Request| Reply::raw(200, &[], b"no length", Then::Close);
    case(Want::Head(5), None, endless, |outcome, _| assert_eq!(reason(&outcome), "storage_bad_answer")).await;
}

#[tokio::test]
async fn wrong_ranges_are_refused() {
    for stated in
        [None, Some("bytes 6-10/100"), Some("bytes 5-8/100"), Some("bytes 5-9/*"), Some("pages 5-9/100")]
    {
        let wrong = move |_, _: &Request| match stated {
            Some(stated) => Reply::new(206, &[ETAG, ("Content-Range", stated)], &[0; 5]),
            None => Reply::new(206, &[ETAG], &[0; 5]),
        };
        case(Want::Range(5..10), None, wrong, |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), ("storage_bad_answer", 1), "{stated:?}");
        })
        .await;
    }
}

/// A 206 whose `Content-Range` is the requested one, but whose length is another.
#[tokio::test]
async fn a_length_that_contradicts_the_range_is_refused() {
    for length in [0, 1, 4, 6, 100] {
        let wrong = move |_, _: &Request| {
            Reply::new(206, &[ETAG, ("Content-Range", "bytes 5-9/100")], &vec![7; length])
        };
        case(Want::Range(5..10), None, wrong, |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), ("storage_bad_answer", 1), "{length}");
        })
        .await;
    }
}

/// A coded body has other bytes than the object, whatever the range says.
#[tokio::test]
async fn content_codings_are_refused() {
    for (coding, expected) in [
        ("gzip", "storage_bad_answer"),
        ("br", "storage_bad_answer"),
        ("identity, GZIP", "storage_bad_answer"),
        ("\u{ff}", "storage_bad_answer"),
        ("identity", "ok"),
        ("", "ok"),
        // S3 services store the coding of the upload with the object, and send the object uncoded.
        ("aws-chunked", "ok"),
    ] {
        let content = pattern(1, 100);
        let ranged = content.clone();
        let coded = move |_, request: &Request| good(request, &ranged, &[ETAG, ("Content-Encoding", coding)]);
        case(Want::Range(5..10), None, coded, |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), (expected, 1), "{coding}");
            assert_eq!(requests[0].header("accept-encoding"), Some("identity"));
        })
        .await;
        let whole = move |_, _: &Request| Reply::new(200, &[ETAG, ("Content-Encoding", coding)], &content);
        case(Want::Head(10), None, whole, |outcome, _| assert_eq!(reason(&outcome), expected, "{coding}"))
            .await;
    }
    // A second header may state the coding that is applied last.
    let twice = |_, request: &Request| {
        good(
            request,
            &pattern(1, 100),
            &[ETAG, ("Content-Encoding", "identity"), ("Content-Encoding", "gzip")],
        )
    };
    case(Want::Head(10), None, twice, |outcome, _| assert_eq!(reason(&outcome), "storage_bad_answer")).await;
}

/// A response that is no answer to any request: `404`, or bytes of another object.
fn stray() -> [Vec<u8>; 3] {
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        [
            b"HTTP/1.1 206 Partial Content\r\nETag: \"one\"\r\nContent-Range: bytes 0-9/100\r\n".as_slice(),
            b"Content-Length: 10\r\n\r\nxxxxxxxxxx",
        ]
        .concat(),
        b"\0".to_vec(),
    ]
}

/// Bytes after a response are never taken for the next one, and nothing shows which of the two is
/// the answer to the request.
#[tokio::test]
async fn surplus_bytes_behind_a_response_spoil_it_and_its_connection() {
    let content = pattern(1, 100);
    for stray in stray() {
        let body = content.clone();
        let surplus = move |n, request: &Request| match n {
            0 => good(request, &body, &[ETAG]).followed_by(&stray),
            _ => good(request, &body, &[ETAG]),
        };
        for back_end in 0..BACK_ENDS {
            let server = Server::start(surplus.clone()).await;
            let (storage, _) = back_ends(&server, LONG)[back_end].clone();
            let first = get(&*storage, Want::Head(10), None).await;
            assert_eq!(reason(&first), "storage_bad_answer");
            for _ in 0..3 {
                assert_eq!(get(&*storage, Want::Head(10), None).await.unwrap().1, content[..10]);
            }
            assert_eq!(server.requests().len(), 4);
        }
    }
}

#[tokio::test]
async fn longer_bodies_are_refused_and_shorter_ones_resumed() {
    let content = pattern(1, 100);
    let chunked = |bytes: &[u8], range: &str| {
        let body = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n0\r\n\r\n"].concat();
        let headers = [ETAG, ("Content-Range", range), ("Transfer-Encoding", "chunked")];
        Reply::raw(206, &headers, &body, Then::NextRequest)
    };
    let body = content.clone();
    case(
        Want::Range(5..10),
        None,
        move |_, _| chunked(&body[5..20], "bytes 5-9/100"),
        |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), ("storage_bad_answer", 1));
        },
    )
    .await;
    let body = content.clone();
    let short = move |n, request: &Request| match n {
        0 => chunked(&body[5..8], "bytes 5-9/100"),
        _ => good(request, &body, &[ETAG]),
    };
    case(Want::Range(5..10), None, short, |outcome, requests| {
        assert_eq!(outcome.unwrap().1, content[5..10]);
        assert_eq!(range(&requests[1]), "bytes=8-9", "missing bytes are requested");
    })
    .await;
}

#[tokio::test]
async fn pins() {
    let content = pattern(1, 100);
    let pin = |etag: Option<&str>, modified| Version { etag: etag.map(Into::into), size: 100, modified };
    // `If-Match` is always sent, and the response is compared even if the server ignores it.
    for (headers, right, wrong) in [
        ([ETAG].as_slice(), pin(Some("\"one\""), None), pin(Some("\"two\""), None)),
        (&[MODIFIED], pin(None, Some(784_111_777)), pin(None, Some(784_111_778))),
        (&[("ETag", "W/\"one\""), MODIFIED], pin(None, Some(784_111_777)), pin(Some("W/\"one\""), None)),
        (&[], pin(None, None), pin(Some("\"one\""), None)),
    ] {
        for (pin, expected) in [(right, "ok"), (wrong, "source_changed")] {
            let body = content.clone();
            let if_match = pin.etag.clone();
            case(
                Want::Range(5..10),
                Some(pin),
                move |_, request| good(request, &body, headers),
                |outcome, requests| {
                    assert_eq!((reason(&outcome), requests.len()), (expected, 1));
                    assert_eq!(requests[0].header("if-match"), if_match.as_deref());
                },
            )
            .await;
        }
    }
}

#[tokio::test]
async fn an_empty_object() {
    let empty = |_, request: &Request| match request.method.as_str() {
        "HEAD" => Reply::raw(200, &[ETAG, ("Content-Length", "0")], b"", Then::NextRequest),
        _ => Reply::new(416, &[("Content-Range", "bytes */0")], b""),
    };
    case(Want::Head(10), None, empty, |outcome, requests| {
        let (version, bytes) = outcome.unwrap();
        assert_eq!((version.size, version.etag.as_deref(), bytes.len()), (0, Some("\"one\""), 0));
        assert_eq!(methods(requests), ["GET", "HEAD"]);
    })
    .await;
    let lying = |_, request: &Request| match request.method.as_str() {
        "HEAD" => Reply::raw(200, &[ETAG, ("Content-Length", "50")], b"", Then::NextRequest),
        _ => Reply::new(416, &[], b""),
    };
    case(Want::Head(10), None, lying, |outcome, _| assert_eq!(reason(&outcome), "storage_bad_answer")).await;
}

#[tokio::test]
async fn error_documents() {
    let expired =
        b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>";
    case(
        Want::Head(10),
        None,
        |_, _| Reply::new(400, &[], expired),
        |outcome, _| {
            assert_eq!(reason(&outcome), "storage_denied");
        },
    )
    .await;
    let failing = b"<Error><Code>InternalError</Code></Error>";
    case(
        Want::Head(10),
        None,
        |_, _| Reply::new(500, &[], failing),
        |outcome, _| {
            assert!(
                outcome
                    .unwrap_err()
                    .to_string()
                    .ends_with("answered 500 Internal Server Error (InternalError)")
            );
        },
    )
    .await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let to_folder =
        |_, request: &Request| Reply::new(301, &[("Location", &format!("{}/", request.target))], b"");
    case(Want::Head(10), None, to_folder, |outcome, requests| {
        assert_eq!((reason(&outcome), requests.len()), ("source_not_found", 1), "a folder is not an object");
    })
    .await;
    let elsewhere = |_, _: &Request| Reply::new(302, &[("Location", "http://127.0.0.1:1/film.mp4")], b"");
    case(Want::Head(10), None, elsewhere, |outcome, requests| {
        assert_eq!((reason(&outcome), requests.len()), ("storage_bad_answer", 1));
    })
    .await;
}

#[tokio::test]
async fn listings_over_plain_http() {
    for (reply, expected) in [
        (Reply::new(200, &[("Content-Type", "text/html")], b"<title>Films</title>"), "cannot_list"),
        (Reply::new(403, &[], b""), "cannot_list"),
        (Reply::new(301, &[("Location", "/elsewhere/")], b""), "cannot_list"),
        (Reply::new(404, &[], b""), "source_not_found"),
        (Reply::new(200, &[("Content-Type", "application/json")], b"[]"), "source_not_found"),
        (Reply::new(401, &[], b""), "storage_denied"),
        (Reply::new(500, &[], b""), "storage_unavailable"),
        (Reply::new(503, &[], b""), "storage_throttled"),
        (Reply::nothing(Then::Hang), "storage_timeout"),
    ] {
        let server = Server::start(move |_, _| reply.clone()).await;
        let wait = if expected == "storage_timeout" { SHORT } else { LONG };
        let storage = open(&format!("{}/vod?token=t", server.address), &options(&server, wait)).unwrap();
        let e = storage.list(ListRequest::new(&Key::new("a b").unwrap())).await.unwrap_err();
        assert_eq!(e.reason(), expected);
        assert_eq!(server.requests()[0].target, "/vod/a%20b/?token=t");
    }
}

#[tokio::test]
async fn listings_over_s3() {
    let no_such = b"<Error><Code>NoSuchBucket</Code></Error>".as_slice();
    for (status, body, expected, requests) in [
        (403, b"".as_slice(), "storage_denied", 1),
        (404, b"", "source_not_found", 1),
        (404, no_such, "no_bucket", 1),
        (403, b"<Error><Code>InvalidAccessKeyId</Code></Error>", "storage_denied", 1),
        (400, b"<Error><Code>ExpiredToken</Code></Error>", "storage_denied", 1),
        (500, b"", "storage_unavailable", 3),
        (503, b"", "storage_throttled", 3),
        (200, b"nonsense", "storage_bad_answer", 1),
    ] {
        let server = Server::start(move |_, _| Reply::new(status, &[], body)).await;
        let storage = open("s3://bucket/vod", &options(&server, LONG)).unwrap();
        let e = storage.list(ListRequest::new(&Key::root())).await.unwrap_err();
        assert_eq!((e.reason(), server.requests().len()), (expected, requests), "{status}: {e}");
    }
}

/// A folder with more names than were asked for was read to its end.
#[tokio::test]
async fn a_page_of_a_bucket_is_one_request() {
    let server = Server::start(|n, _| {
        let more = if n == 0 { "<NextContinuationToken>a/b=</NextContinuationToken>" } else { "" };
        let page = format!(
            "<ListBucketResult><IsTruncated>{}</IsTruncated>{more}<Contents><Key>vod/x/{n}.mp4</Key>\
             <LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>7</Size></Contents>\
             <Contents><Key>elsewhere/y.mp4</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
             <Size>7</Size></Contents></ListBucketResult>",
            n == 0
        );
        Reply::new(200, &[], page.as_bytes())
    })
    .await;
    let storage = open("s3://bucket/vod", &options(&server, LONG)).unwrap();
    let folder = Key::new("x").unwrap();
    let request = ListRequest::new(&folder).limited(5000);
    let first = storage.list(request).await.unwrap();
    assert_eq!((first.objects, server.requests().len()), (vec![("0.mp4".to_owned(), 7)], 1));
    let second = storage.list(request.limited(3).after(first.next.as_ref())).await.unwrap();
    assert_eq!((second.objects, second.next), (vec![("1.mp4".to_owned(), 7)], None));
    let targets: Vec<_> = server.requests().iter().map(|request| request.target.clone()).collect();
    assert!(
        targets[0].contains("max-keys=1000") && !targets[0].contains("continuation-token"),
        "{targets:?}"
    );
    assert!(targets[1].contains("max-keys=3") && targets[1].contains("continuation-token=a%2Fb%3D"));
    assert!(targets.iter().all(|target| target.contains("prefix=vod%2Fx%2F")), "{targets:?}");
}

#[tokio::test]
async fn a_directory_listing_of_endless_length_is_named_as_the_reason() {
    let page = vec![b' '; 9 << 20];
    let server = Server::start(move |_, _| Reply::new(200, &[("Content-Type", "text/html")], &page)).await;
    let storage = open(&server.address, &options(&server, LONG)).unwrap();
    let e = storage.list(ListRequest::new(&Key::root())).await.unwrap_err();
    assert_eq!((e.reason(), server.requests().len()), ("folder_too_large", 1));
}

#[tokio::test]
async fn resets() {
    let content = pattern(1, 1000);
    let body = content.clone();
    let resetting = move |n, request: &Request| match n {
        0 => Reply::nothing(Then::Reset),
        1 => broken(request, &body, &[ETAG], 100, Then::Reset),
        _ => good(request, &body, &[ETAG]),
    };
    case(Want::Range(0..500), None, resetting, |outcome, requests| {
        assert_eq!(outcome.unwrap().1, content[..500]);
        // A reset may destroy bytes that had arrived, so the rest starts at the last byte that was
        // read.
        assert_eq!(requests.len(), 3);
        assert!(range(&requests[2]).ends_with("-499"), "{requests:?}");
    })
    .await;
}

/// A server that fails intermittently: every body is right, and no read takes longer than its
/// budget allows.
#[tokio::test]
async fn flapping() {
    let content = pattern(1, 100_000);
    let body = content.clone();
    let server = Server::start(move |n, request| match n % 7 {
        0 => Reply::new(503, &[("Retry-After", "0")], b""),
        2 => Reply::nothing(Then::Close),
        3 => broken(request, &body, &[ETAG], 30_000, Then::Reset),
        5 => Reply::new(500, &[], b""),
        _ => good(request, &body, &[ETAG]),
    })
    .await;
    for (storage, _) in back_ends(&server, LONG) {
        let reads = (0..20).map(|i| {
            let storage = &storage;
            let content = &content;
            async move {
                let start = i * 1000;
                let outcome = get(&**storage, Want::Range(start..start + 50_000), None).await;
                let from = usize::try_from(start).unwrap();
                match outcome {
                    Ok((_, bytes)) => assert!(bytes == content[from..from + 50_000]),
                    Err(error) => assert!(error.is_fault(), "{error:?}"),
                }
            }
        });
        tokio::time::timeout(Duration::from_secs(20), join_all(reads)).await.unwrap();
    }
}

/// A server that sends another version for the same range: the versions are never mixed.
#[tokio::test]
async fn an_object_replaced_while_it_is_read() {
    let old = pattern(1, 1000);
    let new = pattern(2, 1000);
    for (first, second) in
        [(ETAG, ("ETag", "\"two\"")), (MODIFIED, ("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT"))]
    {
        let old = old.clone();
        let new = new.clone();
        let replaced = move |n, request: &Request| match n {
            0 => broken(request, &old, &[first], 300, Then::Close),
            _ => good(request, &new, &[second]),
        };
        case(Want::Head(1000), None, replaced, |outcome, requests| {
            assert_eq!((reason(&outcome), requests.len()), ("source_changed", 2));
        })
        .await;
    }
}

/// Returns what was logged during `work`.
async fn logged(work: impl Future<Output = ()>) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let shared = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || shared.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    work.await;
    drop(guard);
    let text = lines.0.lock().unwrap().clone();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn missing_features_are_logged_once() {
    for (headers, said) in [
        ([MODIFIED].as_slice(), "by size and modification time"),
        (&[("ETag", "W/\"weak\"")], "by size alone"),
        (&[ETAG], ""),
    ] {
        let content = pattern(1, 100);
        let owned: Vec<_> = headers.to_vec();
        let server = Server::start(move |n, request| match n % 2 {
            0 => good(request, &content, &owned),
            _ => Reply::new(200, &owned, &content),
        })
        .await;
        for (storage, _) in back_ends(&server, LONG) {
            let log = logged(async {
                for _ in 0..6 {
                    get(&*storage, Want::Head(10), None).await.unwrap();
                }
            })
            .await;
            let warnings =
                |text: &str| log.lines().filter(|line| line.contains("WARN") && line.contains(text)).count();
            assert_eq!(warnings("no strong ETag"), usize::from(!said.is_empty()), "{log}");
            assert!(said.is_empty() || log.contains(said), "{log}");
            assert_eq!(warnings("ignores byte ranges"), 1, "{log}");
        }
    }
}
