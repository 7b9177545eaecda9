//! `latemux lab submit` and `latemux lab serve`: workflows over the workflow API.

use super::{VERSION, program, read_document, stop_flag};
use crate::{signals::stop_signal, standard_output::say, storage_flags::StorageFlags};
use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use futures_util::StreamExt as _;
use latemux_lab::{
    machine::Machine,
    manager::{self, Manager},
    submit::{Engine, submit},
    task::Part,
};
use latemux_quantity::TimeSpan;
use latemux_storage::{Key, ReadRequest, StorageError, open};
use std::{
    env, fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

/// The most bytes of a part.
const MAX_PART: u64 = 1 << 30;

/// Run a cell of an experiment on an engine: send its workflow document there
///
/// An engine is a program with the workflow API of Network-Based Media Processing (NBMP, ISO/IEC
/// 23090-8): `latemux lab serve`, or the nagare media engine on Kubernetes with the functions of
/// lab/nbmp/kubernetes. It starts each function of the document as `latemux lab task`. Prints the
/// ID of the workflow, which runs until it is deleted.
#[derive(Debug, ClapArgs)]
pub(crate) struct Submit {
    /// Workflow document (.wdd) that `lab plan --documents` or `lab run` wrote
    #[arg(value_name = "FILE")]
    document: PathBuf,
    /// Address of the engine, such as http://127.0.0.1:8090/
    ///
    /// The paths of the workflow API, which begin with /v2/workflows, are added to it.
    #[arg(long, value_name = "URL")]
    engine: String,
    /// Wait until the load has ended and its results are in --results, then delete the workflow
    ///
    /// Prints the location of the file that the load has written there.
    /// The workflow is also deleted if the load fails, and at SIGINT or SIGTERM.
    #[arg(long, requires = "results")]
    wait: bool,
    /// Folder or bucket with the results of the load, such as s3://bucket/prefix
    ///
    /// It must be the location that the engine passes to `lab task --results`.
    #[arg(long, value_name = "LOCATION")]
    results: Option<String>,
    /// With --wait: time between two requests for the state of the workflow
    #[arg(long, default_value = "2s", value_name = "DURATION")]
    interval: TimeSpan,
    /// Longest time to wait for each response of the engine
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    timeout: TimeSpan,
    #[command(flatten)]
    storage: StorageFlags,
}

/// Run the workflow documents that clients send: an engine on this machine
///
/// Serves the workflow API of Network-Based Media Processing (NBMP, ISO/IEC 23090-8). A client,
/// such as `latemux lab submit`, creates a workflow with POST /v2/workflows, reads its state and
/// its results with GET /v2/workflows/ID, and ends it with DELETE. One workflow runs at a time;
/// further ones are refused with status 503. All functions share 127.0.0.1. Anyone who can connect
/// may start workflows, so the API is served on loopback addresses only.
#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Loopback address to listen on; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Folder for results; each function writes a file to the folder `results` in it
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Folder with titles that `lab run` has made [default: `content` in the folder of --out]
    #[arg(long, value_name = "DIR")]
    content: Option<PathBuf>,
    /// Program `latemux` that runs as origin and load, such as another version [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Sends a document, and waits for the end of its load if that is asked for.
pub(super) fn send(flags: &Submit) -> Result<()> {
    let engine = Engine::at(&flags.engine, flags.timeout.0)?;
    let stop = stop_flag()?;
    let submitted = submit(&read_document(&flags.document)?, &engine)
        .with_context(|| flags.document.display().to_string())?;
    say(&format!("{}\n", submitted.id))?;
    let Some(results) = flags.results.as_deref().filter(|_| flags.wait) else { return Ok(()) };
    let results = results.trim_end_matches('/');
    let name = submitted.part_name();
    let mut part = || {
        find_part(results, &name, &flags.storage)
            .map_err(|error| latemux_lab::Error::Lacking(format!("{results}: {error:#}")))
    };
    submitted.wait(&engine, flags.interval.0, &mut part, &stop)?;
    say(&format!("{results}/{name}\n"))
}

/// Reads a part from the results, if it is there.
fn find_part(results: &str, name: &str, flags: &StorageFlags) -> Result<Option<Part>> {
    let bytes = if results.contains("://") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(fetch(results, name, flags))?
    } else {
        match fs::read(Path::new(results).join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read?),
        }
    };
    bytes.map(|bytes| Part::from_bytes(&bytes).with_context(|| name.to_owned())).transpose()
}

/// Reads an object, if it is there.
async fn fetch(results: &str, name: &str, flags: &StorageFlags) -> Result<Option<Vec<u8>>> {
    let storage = open(results, &flags.options())?;
    let key = Key::root().join(name).with_context(|| format!("{name}: not the name of an object"))?;
    let mut read = match storage.read(ReadRequest::head(&key, MAX_PART)).await {
        Err(StorageError::NotFound(_)) => return Ok(None),
        read => read?,
    };
    let mut bytes = Vec::new();
    while let Some(frame) = read.body.next().await {
        bytes.extend_from_slice(&frame?);
    }
    Ok(Some(bytes))
}

/// Serves the workflow API until a signal to stop.
pub(super) fn serve(flags: &Serve) -> Result<()> {
    ensure!(
        flags.listen.ip().is_loopback(),
        "{}: the workflow API is served on loopback addresses only",
        flags.listen
    );
    let listener = TcpListener::bind(flags.listen).with_context(|| flags.listen.to_string())?;
    let content = flags.content.clone().unwrap_or_else(|| flags.out.join("content"));
    for folder in [&flags.out, &content] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Machine::this(VERSION, "loopback").write(&flags.out)?;
    let manager = Arc::new(Manager::new(
        env::current_exe()?,
        program(flags.program.as_deref())?,
        fs::canonicalize(&flags.out)?,
        fs::canonicalize(content)?,
    )?);
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let stop = runtime.block_on(async { stop_signal() })?;
    let served = Arc::clone(&manager);
    let server = thread::spawn(move || {
        let result = runtime.block_on(async {
            tokio::select! {
                result = manager::serve(listener, Arc::clone(&served)) => result,
                () = stop => Ok(()),
            }
        });
        served.close();
        runtime.shutdown_background();
        result
    });
    say(&format!("http://{address}/\n"))?;
    // Processes are killed when the thread that has started them ends, so this thread starts them.
    manager.run();
    let result = server.join().unwrap_or_else(|_| Err(io::Error::other("the server's thread failed")));
    Ok(result?)
}
