//! Signals to stop and to reload.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// SIGINT, which Ctrl+C sends.
    Interrupt,
    /// SIGTERM, which service managers send.
    Terminate,
}

/// Signals to stop, from now on.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
        }
    }
}

/// Returns the signals to reload, SIGHUP, from now on. The signal no longer ends the process.
pub(crate) fn hangups() -> Result<Signal> {
    Ok(signal(SignalKind::hangup())?)
}

/// Returns a future that resolves at the first signal.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>> {
    let mut signals = StopSignals::listen()?;
    Ok(async move {
        signals.next().await;
    })
}
