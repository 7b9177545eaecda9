use super::{AgentSettings, ContainerCredentials, ECS, NoCredentials, RENEW_BEFORE, parse};
use crate::Options;
use crate::backend::http::{client::Client, retry::Account};
use latemux_testmedia::http_server::{Reply, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn agents_must_be_local_or_use_tls() {
    let full = |text: &str| {
        let agent = AgentSettings { full: Some(text.to_owned()), ..AgentSettings::default() };
        agent.address(ECS).map(|url| url.to_string())
    };
    for good in [
        "http://127.0.0.1:8080/get",
        "http://127.1.2.3/",
        "http://localhost/get",
        "http://[::1]:1/",
        "http://169.254.170.2/v2/x",
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1/credentials",
        "https://agent.example/get",
    ] {
        assert_eq!(full(good).as_deref(), Ok(good));
    }
    for bad in
        ["http://agent.example/", "http://169.254.169.254/", "http://10.0.0.1/", "ftp://localhost/", "/x", ""]
    {
        assert!(full(bad).is_err(), "{bad}");
    }
    let both = AgentSettings {
        relative: Some("/v2/x".into()),
        full: Some("http://no".into()),
        ..AgentSettings::default()
    };
    assert_eq!(
        both.address(ECS).unwrap().as_str(),
        "http://169.254.170.2/v2/x",
        "the relative address takes precedence"
    );
    assert!(AgentSettings::default().address(ECS).is_err());
}

#[test]
fn documents() {
    let at = |expiration: &str| {
        let text =
            format!(r#"{{"RoleArn":"r","AccessKeyId":"a","SecretAccessKey":"s","Token":"t"{expiration}}}"#);
        parse(text.as_bytes(), Instant::now()).unwrap()
    };
    assert_eq!(at("").left(), Duration::MAX);
    assert!(at(r#","Expiration":"2120-01-01T00:00:00Z""#).left() > RENEW_BEFORE);
    for past in ["2020-01-01T00:00:00Z", "1900-01-01T00:00:00Z", "tomorrow"] {
        assert_eq!(at(&format!(r#","Expiration":"{past}""#)).left(), Duration::ZERO);
    }
    assert_eq!(at("").credential.token.as_deref(), Some("t"));
    let e = parse(br#"{"AccessKeyId":"hidden"}"#, Instant::now()).err().unwrap();
    assert!(matches!(e, NoCredentials::Document(_)) && !e.to_string().contains("hidden"), "{e}");
}

#[tokio::test]
async fn valid_credentials_outlive_a_failing_agent() {
    let agent = Server::start(|n, _| match n {
        0 => Reply::new(
            200,
            &[],
            br#"{"AccessKeyId":"a","SecretAccessKey":"s","Expiration":"2120-01-01T00:00:00Z"}"#,
        ),
        _ => Reply::new(400, &[], b""),
    })
    .await;
    let options = Options::default();
    let client = Client::new(&options, Arc::new(Account::new(&options))).unwrap();
    let at = AgentSettings { relative: Some("/v2".to_owned()), ..AgentSettings::default() };
    let credentials = ContainerCredentials::new(client, at, &agent.address).unwrap();
    let age = async |left: Duration, ago: Duration| {
        let mut kept = credentials.kept.lock().await;
        let kept = kept.as_mut().unwrap();
        kept.expires = Some(Instant::now() + left);
        kept.asked = Instant::now().checked_sub(ago).unwrap();
    };
    let get = async || credentials.get().await.map(|credential| credential.key_id.clone());
    assert_eq!(get().await.unwrap(), "a");
    assert_eq!((get().await.unwrap().as_str(), agent.requests().len()), ("a", 1));
    // Valid credentials stay in use, and the agent is not asked each time.
    age(Duration::from_secs(100), Duration::from_secs(2)).await;
    for _ in 0..5 {
        assert_eq!(get().await.unwrap(), "a");
    }
    assert_eq!(agent.requests().len(), 2);
    age(Duration::ZERO, Duration::ZERO).await;
    assert!(matches!(get().await, Err(NoCredentials::Refused(_))));
    assert_eq!(agent.requests().len(), 3);
}
