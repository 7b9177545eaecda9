//! A gateway that serves the files of a title as a bucket of S3.

use super::{START_WAIT, quiet, wait_until};
use crate::{
    Error, http,
    process::{Process, command},
};
use std::{
    env, fs, net::SocketAddr, os::unix::fs::symlink, path::Path, process::Command, sync::atomic::AtomicBool,
};

/// The program.
const PROGRAM: &str = "versitygw";
/// The name of the bucket.
const BUCKET: &str = "lab";
/// The credentials of the bucket. They protect nothing: the files are those of the lab.
const ACCESS: &str = "latemux-lab";
const SECRET: &str = "latemux-lab-secret";

/// A gateway, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
}

impl Gateway {
    /// Starts a gateway to the files below `root`. Its users, buckets and output go to `own`.
    ///
    /// # Errors
    /// If there is no free port, a folder cannot be made, or the program is not installed or does
    /// not start.
    pub(super) fn start(root: &Path, own: &Path, stop: &AtomicBool) -> Result<Self, Error> {
        let failed = |error| Error::file(own, &error);
        let [buckets, users] = ["buckets", "users"].map(|name| own.join(name));
        fs::create_dir_all(&buckets).map_err(failed)?;
        fs::create_dir_all(&users).map_err(failed)?;
        let root = fs::canonicalize(root).map_err(|error| Error::file(root, &error))?;
        symlink(root, buckets.join(BUCKET)).map_err(failed)?;
        let lacking = |why: &str| Error::Lacking(format!("{PROGRAM}: {why}"));
        let address = http::free_address().map_err(|error| lacking(&format!("no free port: {error}")))?;
        let mut command = command(Path::new(PROGRAM));
        command.env("ROOT_ACCESS_KEY", ACCESS).env("ROOT_SECRET_KEY", SECRET);
        command.args(["--quiet", "--keep-alive", "--port", &address.to_string(), "--iam-dir"]).arg(users);
        command.args(["posix", "--nometa", "--bucketlinks"]).arg(buckets);
        let mut process = Process::start(&mut quiet(command, own))?;
        let has_begun = || process.ended().is_some() || http::answers(address);
        let is_over = !wait_until(START_WAIT, stop, has_begun) || process.ended().is_some();
        if is_over { Err(lacking("does not start")) } else { Ok(Self { process, address }) }
    }
}

/// Returns true if the program is installed.
pub(crate) fn is_installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
}

/// Makes `latemux serve` read the bucket of the storage at `input`.
pub(super) fn read_bucket(serve: &mut Command, input: SocketAddr) {
    serve.env("AWS_ACCESS_KEY_ID", ACCESS).env("AWS_SECRET_ACCESS_KEY", SECRET);
    serve.arg(format!("s3://{BUCKET}")).args(["--s3-endpoint", &format!("http://{input}")]);
}
