//! Hosts: threads in network namespaces of their own.

use super::ip;
use nix::sched::{CloneFlags, setns, unshare};
use std::{
    fmt,
    fs::{self, File},
    io,
    path::PathBuf,
    process::{Child, Command},
    sync::mpsc,
    thread::{self, JoinHandle},
};

type Job = Box<dyn FnOnce() + Send>;

/// A host: a network namespace. Once this value is dropped, it ends with the last process in it.
pub struct Host {
    name: String,
    /// Path of the network namespace.
    pub(super) namespace: String,
    jobs: mpsc::Sender<Job>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).field("namespace", &self.namespace).finish()
    }
}

impl Host {
    /// Makes a host whose processes are in the PID namespace `processes`.
    pub(super) fn new(name: &str, processes: &File) -> io::Result<Self> {
        let processes = processes.try_clone()?;
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (made, result) = mpsc::channel();
        thread::Builder::new().name(format!("host {name}")).spawn(move || {
            let enter = || -> io::Result<String> {
                unshare(CloneFlags::CLONE_NEWNET)?;
                setns(processes, CloneFlags::CLONE_NEWPID)?;
                ip(&["link", "set", "lo", "up"])?;
                Ok(format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid()))
            };
            let entered = enter();
            let has_entered = entered.is_ok();
            let _ = made.send(entered);
            if has_entered {
                to_do.into_iter().for_each(|job| job());
            }
        })?;
        let namespace = result.recv().map_err(|_| io::Error::other("the host's thread ended"))??;
        Ok(Self { name: name.to_owned(), namespace, jobs })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the folder in which procfs has the counters of the host's network, such as `dev` and
    /// `snmp`. Any process that sees this one can read it.
    pub fn counters(&self) -> PathBuf {
        let mut folder = PathBuf::from(&self.namespace);
        // From `…/ns/net` to `…/net`.
        folder.pop();
        folder.set_file_name("net");
        folder
    }

    /// Calls a function on the thread of this host, and waits for its result.
    pub(super) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = mpsc::channel();
        let job: Job = Box::new(move || {
            let _ = done.send(call());
        });
        let ended = || io::Error::other("the host's thread ended");
        self.jobs.send(job).map_err(|_| ended())?;
        result.recv().map_err(|_| ended())?
    }

    /// Starts a command on this host. It is killed when the program that made the network ends.
    ///
    /// # Errors
    /// If the program does not exist, or the system refuses another process.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        self.call(move || command.spawn())
    }

    /// Starts a thread on this host: its sockets are those of the host. The threads that it starts
    /// are on this host too, such as those of an async runtime. The thread returns an error if it
    /// could not enter the host.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub fn thread<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<io::Result<T>>> {
        let namespace = File::open(&self.namespace)?;
        thread::Builder::new().spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Ok(run())
        })
    }

    /// Sets an option of the host's network, such as `net.ipv4.tcp_sack`.
    ///
    /// # Errors
    /// If the option is unknown, or the kernel refuses the value.
    pub fn set(&self, option: &str, value: &str) -> io::Result<()> {
        let path = self.option(option)?;
        let value = value.to_owned();
        self.call(move || fs::write(&path, value).map_err(|error| named(&path, &error)))
    }

    /// Returns an option of the host's network.
    ///
    /// # Errors
    /// If the option is unknown.
    pub fn get(&self, option: &str) -> io::Result<String> {
        let path = self.option(option)?;
        let text = self.call(move || fs::read_to_string(&path).map_err(|error| named(&path, &error)))?;
        Ok(text.trim().to_owned())
    }

    /// Returns the file of an option. All that is below `net` belongs to the host.
    #[expect(clippy::unused_self, reason = "the file is that of this host's thread")]
    fn option(&self, option: &str) -> io::Result<String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !option.starts_with("net.") || !option.chars().all(is_plain) || option.contains("..") {
            let text = format!("'{option}' is not an option of a network, such as net.ipv4.tcp_sack");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(format!("/proc/sys/{}", option.replace('.', "/")))
    }
}

fn named(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}
