//! Runs the conformance suite against nginx, over plain HTTP and TLS.

use crate::folder::OnDisk;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use latemux_storage::conformance::{self, Fixture};
use latemux_storage::{Key, Options, Storage, open};
use latemux_testmedia::process::{Process, tool};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

struct Nginx {
    files: OnDisk,
    lists: bool,
    refused: Option<Arc<dyn Storage>>,
}

impl Fixture for Nginx {
    fn put<'a>(&'a mut self, key: &'a Key, bytes: Bytes) -> BoxFuture<'a, ()> {
        self.files.put(key, bytes)
    }

    fn remove<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, ()> {
        self.files.remove(key)
    }

    fn lists(&self) -> bool {
        self.lists
    }

    fn refused(&mut self) -> Option<(Arc<dyn Storage>, Key)> {
        let key = Key::new("forbidden/x.mp4").unwrap();
        self.files.write(&key, b"x");
        Some((self.refused.take()?, key))
    }
}

/// Starts nginx over `dir/root` and returns its address. `server` goes into its server block.
fn start(nginx: &Path, dir: &Path, tls: bool, server: &str) -> (Process, String) {
    fs::create_dir_all(dir.join("root")).unwrap();
    let at = dir.display();
    // One process in the foreground, which the test can end.
    let process = Process::start(|port| {
        let listen = if tls {
            format!("listen 127.0.0.1:{port} ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem;")
        } else {
            format!("listen 127.0.0.1:{port};")
        };
        let config = format!(
            "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;
             events {{ }}
             http {{
               types {{ video/mp4 mp4; }} access_log off;
               client_body_temp_path {at}/t1; proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3;
               uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;
               server {{ {listen} root {at}/root; location /vod/ {{ alias {at}/root/; {server} }}
                         location /vod/forbidden/ {{ deny all; }} }}
             }}"
        );
        fs::write(dir.join("nginx.conf"), config).unwrap();
        let mut command = Command::new(nginx);
        command.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf")).stderr(Stdio::null());
        command
    });
    let address = format!("{}://127.0.0.1:{}/vod/", if tls { "https" } else { "http" }, process.port);
    (process, address)
}

async fn conforms(tls: bool, server: &str, lists: bool, prepare: impl FnOnce(&Path)) {
    let Some(nginx) = tool("nginx") else { return };
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let (_process, address) = start(&nginx, dir.path(), tls, server);
    let storage = open(&address, &Options::default()).unwrap();
    assert_eq!(storage.describe(), address);
    let files = OnDisk(dir.path().join("root"));
    let mut fixture = Nginx { files, lists, refused: Some(Arc::clone(&storage)) };
    conformance::run(&*storage, &mut fixture).await;
}

#[tokio::test]
async fn conforms_with_html_listing() {
    conforms(false, "autoindex on;", true, |_| {}).await;
}

#[tokio::test]
async fn conforms_with_json_listing() {
    conforms(false, "autoindex on; autoindex_format json;", true, |_| {}).await;
}

#[tokio::test]
async fn conforms_without_listing() {
    conforms(false, "", false, |_| {}).await;
}

/// Without ETag, versions are size and date. Without If-Match, the responses are compared.
#[tokio::test]
async fn conforms_without_etag() {
    conforms(false, "etag off; if_modified_since off;", false, |_| {}).await;
}

/// A certificate authority can only be set in the environment, so this runs in a process of its
/// own.
#[test]
fn conforms_over_tls() {
    let (Some(openssl), Some(_)) = (tool("openssl"), tool("nginx")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = "[req]\ndistinguished_name=name\nx509_extensions=extensions\n[name]\n[extensions]\n\
                  basicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n";
    fs::write(dir.path().join("request.conf"), config).unwrap();
    let made = Command::new(openssl)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=test", "-config", "request.conf", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for (trusted, passes) in [(dir.path().join("cert.pem"), true), (dir.path().join("absent.pem"), false)] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "nginx::in_a_process_that_trusts_the_certificate",
                "--include-ignored",
                "--nocapture",
            ])
            .env("SSL_CERT_FILE", trusted)
            .env_remove("SSL_CERT_DIR")
            .env("LATEMUX_TEST_CERTIFICATE", dir.path())
            .output()
            .unwrap();
        assert_eq!(child.status.success(), passes, "{child:?}");
        assert!(passes || String::from_utf8_lossy(&child.stderr).contains("UnknownIssuer"), "{child:?}");
    }
}

#[tokio::test]
#[ignore = "run by conforms_over_tls"]
async fn in_a_process_that_trusts_the_certificate() {
    let Some(made) = std::env::var_os("LATEMUX_TEST_CERTIFICATE") else { return };
    conforms(true, "autoindex on;", true, |dir| {
        for name in ["cert.pem", "key.pem"] {
            fs::copy(Path::new(&made).join(name), dir.join(name)).unwrap();
        }
    })
    .await;
}
