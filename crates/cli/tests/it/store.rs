//! Servers of other projects as storage: versitygw (S3) and nginx (HTTP).

use latemux_testmedia::process::{Process, tool};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// An S3 server with one bucket, `library`.
pub(crate) struct S3 {
    process: Process,
    /// The buckets, and the users.
    dirs: [TempDir; 2],
}

impl S3 {
    pub(crate) const ACCESS: &str = "tester";
    pub(crate) const SECRET: &str = "secret";

    /// Starts it with copies of the files in a folder. Returns `None` if versitygw is not
    /// installed.
    pub(crate) fn start(folder: &str) -> Option<Self> {
        let versitygw = tool("versitygw")?;
        let dir = tempfile::tempdir().expect("a folder");
        let users = tempfile::tempdir().expect("a folder");
        copy(Path::new(folder), &dir.path().join("library"));
        let process = Process::start(|port| {
            let mut command = Command::new(&versitygw);
            command.env("ROOT_ACCESS_KEY", Self::ACCESS).env("ROOT_SECRET_KEY", Self::SECRET);
            command.arg("--port").arg(format!("127.0.0.1:{port}")).arg("--iam-dir").arg(users.path());
            command.arg("posix").arg(dir.path());
            command.stderr(Stdio::null());
            command
        });
        Some(Self { process, dirs: [dir, users] })
    }

    /// Adds a user who may not do anything yet.
    pub(crate) fn add_user(&self, access: &str, secret: &str) {
        let mut command = Command::new(tool("versitygw").expect("it is running"));
        command.args(["admin", "-a", Self::ACCESS, "-s", Self::SECRET, "-er", &self.endpoint()]);
        let output = command.args(["create-user", "-a", access, "-s", secret, "-r", "user"]).output();
        assert!(output.as_ref().is_ok_and(|output| output.status.success()), "{output:?}");
    }

    /// Replaces what users may do: only this action of this user on a resource. curl must be
    /// installed.
    pub(crate) fn permit(&self, user: &str, action: &str, resource: &str) {
        let policy = format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": "{user}",
                 "Action": "{action}", "Resource": "arn:aws:s3:::{resource}"}}]}}"#
        );
        let mut command = Command::new(tool("curl").expect("it is installed"));
        command.args(["--silent", "--show-error", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3"]);
        command.args(["--user", &format!("{}:{}", Self::ACCESS, Self::SECRET)]);
        command.args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--request", "PUT"]);
        command.args(["--data-binary", &policy, &format!("{}/library?policy=", self.endpoint())]);
        let output = command.output();
        assert!(output.as_ref().is_ok_and(|output| output.status.success()), "{output:?}");
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.process.port)
    }

    /// Returns the folder that holds each object of the bucket as a file.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dirs[0].path().join("library")
    }
}

/// nginx over a folder, without listings.
pub(crate) struct Nginx {
    process: Process,
    _dir: TempDir,
}

impl Nginx {
    /// Starts it. Returns `None` if nginx is not installed.
    pub(crate) fn start(folder: &str) -> Option<Self> {
        let nginx = tool("nginx")?;
        let dir = tempfile::tempdir().expect("a folder");
        let at = dir.path().display();
        symlink(fs::canonicalize(folder).expect("the library"), dir.path().join("vod")).expect("a link");
        let process = Process::start(|port| {
            let config = format!(
                "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log; events {{ }}
                 http {{ access_log off; client_body_temp_path {at}/t1; proxy_temp_path {at}/t2;
                         fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;
                         server {{ listen 127.0.0.1:{port}; root {at}; }} }}"
            );
            fs::write(dir.path().join("nginx.conf"), config).expect("a file");
            let mut command = Command::new(&nginx);
            command
                .arg("-p")
                .arg(dir.path())
                .arg("-c")
                .arg(dir.path().join("nginx.conf"))
                .stderr(Stdio::null());
            command
        });
        Some(Self { process, _dir: dir })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/vod/", self.process.port)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
