//! Sources of credentials. They depend on the environment, so each case reads in a process of its
//! own.

use latemux_storage::conformance::collect;
use latemux_storage::{Key, Options, ReadRequest, S3Overrides, open};
use latemux_testmedia::http_server::{Reply, Request, Server};
use percent_encoding::percent_decode_str;
use std::path::Path;

const PAST: &str = "2020-01-01T00:00:00Z";
const FUTURE: &str = "2120-01-01T00:00:00Z";

fn document(n: usize, expiration: &str) -> Reply {
    let keys = format!(
        r#"{{"AccessKeyId":"ID{n}","SecretAccessKey":"s","Token":"T{n}","Expiration":"{expiration}"}}"#
    );
    Reply::new(200, &[], keys.as_bytes())
}

/// Reads in a process with this environment. Returns the key and token that each of its four reads
/// was signed with, or the reason why one failed.
async fn reads(environment: &[(&str, &str)]) -> Vec<String> {
    let object = Server::start(|_, _| Reply::new(206, &[("Content-Range", "bytes 0-0/1")], b"x")).await;
    let inherited = std::env::vars_os().map(|(name, _)| name);
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "credentials::in_a_process_with_this_environment",
        "--include-ignored",
        "--nocapture",
    ]);
    for name in inherited.filter(|name| name.to_string_lossy().starts_with("AWS_")) {
        child.env_remove(name);
    }
    child.env("LATEMUX_TEST_OBJECT", &object.address).envs(environment.iter().copied());
    let output = child.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut failed: Vec<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| Some(line.split_once("FAILED ")?.1.to_owned()))
        .collect();
    let signed = |request: &Request| {
        let authorization = request.header("authorization").unwrap();
        let id = authorization.split("Credential=").nth(1).unwrap().split('/').next().unwrap();
        let token = request.header("x-amz-security-token").unwrap_or("-");
        format!("{id} {token}")
    };
    let mut outcomes: Vec<_> = object.requests().iter().map(signed).collect();
    outcomes.append(&mut failed);
    outcomes
}

#[tokio::test]
#[ignore = "run by the others"]
async fn in_a_process_with_this_environment() {
    let Ok(object) = std::env::var("LATEMUX_TEST_OBJECT") else { return };
    let s3 = S3Overrides {
        metadata_endpoint: std::env::var("LATEMUX_TEST_INSTANCE").ok(),
        container_endpoint: std::env::var("LATEMUX_TEST_CONTAINER").ok(),
        ..S3Overrides::default()
    };
    let storage = match open("s3://bucket", &Options { s3_endpoint: Some(object), s3, ..Options::default() })
    {
        Ok(storage) => storage,
        Err(e) => return println!("FAILED {e}"),
    };
    for _ in 0..4 {
        match storage.read(ReadRequest::head(&Key::new("x").unwrap(), 1)).await {
            Ok(read) => drop(collect(read).await.unwrap()),
            Err(e) => return println!("FAILED {}", e.reason()),
        }
    }
}

/// The first credentials have expired when they are used, the second ones have not.
const RENEWED: [&str; 4] = ["ID0 T0", "ID1 T1", "ID1 T1", "ID1 T1"];

fn renewing(n: usize) -> Reply {
    document(n, if n == 0 { PAST } else { FUTURE })
}

#[tokio::test]
async fn credentials_from_the_environment() {
    // No other source is asked: no server listens at these addresses.
    let others = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/absent"),
        ("AWS_ROLE_ARN", "arn"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/"),
        ("LATEMUX_TEST_INSTANCE", "http://127.0.0.1:1"),
    ];
    let keys = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "s")];
    assert_eq!(reads(&[others.as_slice(), &keys].concat()).await, ["AKID -"; 4]);
    let token = [("AWS_SESSION_TOKEN", "T")];
    assert_eq!(reads(&[others.as_slice(), &keys, &token].concat()).await, ["AKID T"; 4]);
    assert_eq!(reads(&others).await, ["storage_denied"], "no token file, no credentials");
}

#[tokio::test]
async fn credentials_from_the_instance() {
    let instance = Server::start(|n, request| match request.target.as_str() {
        "/latest/api/token" => Reply::new(200, &[], b"session"),
        "/latest/meta-data/iam/security-credentials/" => Reply::new(200, &[], b"role"),
        // Each set of credentials takes three requests.
        _ => renewing(n / 3),
    })
    .await;
    assert_eq!(reads(&[("LATEMUX_TEST_INSTANCE", &instance.address)]).await, RENEWED);
    let requests = instance.requests();
    assert_eq!(requests.len(), 6);
    let last = requests.last().unwrap();
    assert_eq!(last.target, "/latest/meta-data/iam/security-credentials/role");
    assert_eq!(last.header("x-aws-ec2-metadata-token"), Some("session"));
}

/// Missing credentials and failing agents are different errors.
#[tokio::test]
async fn missing_credentials_and_failing_agents_differ() {
    for (status, expected) in [(404, "storage_denied"), (500, "storage_unavailable")] {
        let silent = Server::start(move |_, _| Reply::new(status, &[], b"")).await;
        assert_eq!(reads(&[("LATEMUX_TEST_INSTANCE", &silent.address)]).await, [expected]);
        let environment =
            [("LATEMUX_TEST_CONTAINER", &*silent.address), ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2")];
        assert_eq!(reads(&environment).await, [expected]);
    }
}

#[tokio::test]
async fn credentials_from_a_web_identity() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "first.token").unwrap();
    let rotated = file.clone();
    let sts = Server::start(move |n, _| {
        // A cluster replaces the token before the credentials are renewed.
        std::fs::write(&rotated, "second.token").unwrap();
        let expiration = if n == 0 { PAST } else { FUTURE };
        let answer = format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><SubjectFromWebIdentityToken>s</SubjectFromWebIdentityToken>\
             <Credentials><SessionToken>T{n}</SessionToken><SecretAccessKey>s</SecretAccessKey>\
             <Expiration>{expiration}</Expiration><AccessKeyId>ID{n}</AccessKeyId></Credentials>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        );
        Reply::new(200, &[], answer.as_bytes())
    })
    .await;
    let environment = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader"),
        ("AWS_ROLE_SESSION_NAME", "night shift"),
        ("AWS_ENDPOINT_URL_STS", &sts.address),
        // The container's agent is asked only if there is no web identity.
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/"),
    ];
    assert_eq!(reads(&environment).await, RENEWED);
    let asked: Vec<_> =
        sts.requests().iter().map(|request| (request.method.clone(), request.target.clone())).collect();
    assert_eq!(asked.len(), 2);
    for ((method, target), token) in asked.iter().zip(["first.token", "second.token"]) {
        let target = percent_decode_str(&target.replace('+', " ")).decode_utf8().unwrap().into_owned();
        assert_eq!(method, "POST");
        for part in [
            "Action=AssumeRoleWithWebIdentity",
            "RoleArn=arn:aws:iam::1:role/reader",
            "RoleSessionName=night shift",
            &format!("WebIdentityToken={token}"),
        ] {
            assert!(target.contains(part), "{part} in {target}");
        }
    }

    let refusing = Server::start(|_, _| {
        Reply::new(
            400,
            &[],
            b"<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>",
        )
    })
    .await;
    let environment = environment.map(|(name, value)| match name {
        "AWS_ENDPOINT_URL_STS" => (name, refusing.address.as_str()),
        _ => (name, value),
    });
    assert_eq!(reads(&environment).await, ["storage_denied"]);
}

fn authorizations(agent: &Server) -> Vec<Option<String>> {
    agent.requests().iter().map(|request| request.header("authorization").map(str::to_owned)).collect()
}

#[tokio::test]
async fn credentials_from_the_container() {
    let agent = Server::start(|n, _| renewing(n)).await;
    let environment = [
        ("LATEMUX_TEST_CONTAINER", &*agent.address),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/one"),
    ];
    assert_eq!(reads(&environment).await, RENEWED);
    let targets: Vec<_> = agent.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/v2/credentials/one"; 2]);
    assert_eq!(authorizations(&agent), [None, None]);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let rotated = file.clone();
    let agent = Server::start(move |n, _| {
        std::fs::write(&rotated, "second\n").unwrap();
        renewing(n)
    })
    .await;
    let uri = format!("{}/v1/credentials?x=y", agent.address);
    let full = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str());
    let token_file = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.to_str().unwrap());
    let token = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "plain");
    assert_eq!(reads(&[full, token_file, token]).await, RENEWED);
    assert_eq!(
        authorizations(&agent),
        [Some("first".to_owned()), Some("second".to_owned())],
        "the file takes precedence"
    );
    assert!(agent.requests().iter().all(|request| request.target == "/v1/credentials?x=y"));

    for (token, expected) in [(Some(token), Some("plain".to_owned())), (None, None)] {
        let agent = Server::start(|n, _| renewing(n)).await;
        let uri = format!("{}/get", agent.address);
        let environment: Vec<_> =
            [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())].into_iter().chain(token).collect();
        assert_eq!(reads(&environment).await, RENEWED);
        assert_eq!(authorizations(&agent), [expected.clone(), expected]);
    }
    let elsewhere = reads(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://agent.example/")]).await;
    assert!(elsewhere.len() == 1 && elsewhere[0].contains("full URI"), "{elsewhere:?}");
    let unreadable =
        [full, ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", Path::new("/absent").to_str().unwrap())];
    assert_eq!(reads(&unreadable).await, ["storage_denied"]);
}
