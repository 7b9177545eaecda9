//! The resource usage of other machines, which run `latemux load --host-stats`.

use crate::usage::{Host, HostUse};
use latemux_client::{
    http::{Client, Connection},
    presentation::Resource,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior, interval};
use url::Url;

/// The interval of requests to each machine.
const PERIOD: Duration = Duration::from_secs(1);

/// The age at which a usage is out of date.
const MAX_AGE: Duration = Duration::from_secs(3);

/// The maximum number of bytes of a response.
const MAX_BYTES: usize = 16 << 10;

/// The path of the usage on each machine.
pub(super) const PATH: &str = "/host.json";

/// A machine that is watched.
#[derive(Debug)]
pub struct HostStats {
    url: Url,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Result<Host, String>,
    used: Option<(Instant, HostUse)>,
}

impl HostStats {
    /// Makes the state of the machine at `host:port`. Returns `None` if the text has another form.
    pub fn at(address: &str) -> Option<Self> {
        let url = Url::parse(&format!("http://{address}{PATH}")).ok()?;
        let plain = url.path() == PATH && url.username().is_empty() && url.query().is_none();
        (plain && url.has_host()).then(|| Self {
            url,
            state: Mutex::new(State { last: Err("no response yet".to_owned()), used: None }),
        })
    }

    /// Returns the URL at which the machine serves its usage.
    pub const fn url(&self) -> &Url {
        &self.url
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the latest usage, unless it is out of date.
    pub(super) fn latest(&self) -> Option<HostUse> {
        self.state().used.filter(|(at, _)| at.elapsed() < MAX_AGE).map(|(_, used)| used)
    }

    /// Returns the name and address of the machine, and its last reading or the reason why there is
    /// none.
    pub fn named(&self) -> (String, Result<Host, String>) {
        let address = self.url.authority().to_owned();
        let last = self.state().last.clone();
        let name =
            last.as_ref().map_or_else(|_| address.clone(), |host| format!("{} ({address})", host.name));
        (name, last)
    }

    fn update(&self, new: Result<Host, String>) {
        let mut state = self.state();
        let used = match (&state.last, &new) {
            (Ok(before), Ok(now)) => now.since(before),
            _ => None,
        };
        if let Some(used) = used {
            state.used = Some((Instant::now(), used));
        }
        state.last = new;
    }
}

/// Requests the usage of a machine every second for as long as the future is polled.
pub async fn watch(client: Client, host: Arc<HostStats>) {
    let mut clock = interval(PERIOD);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection = Connection::default();
    let resource = Resource { url: host.url.clone(), range: None };
    loop {
        clock.tick().await;
        let (fetched, body) = client.get_whole(&mut connection, &resource, Instant::now(), MAX_BYTES).await;
        host.update(match fetched {
            Ok(_) => serde_json::from_slice(&body)
                .map_err(|error| format!("the response is not the usage of a machine: {error}")),
            Err(failed) => Err(failed.failure.to_string()),
        });
    }
}
