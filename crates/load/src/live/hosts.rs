//! Machines that run `latemux load --host-stats`: what they do, asked for each second.

use crate::usage::{Host, HostUse};
use latemux_client::{
    failure::{Failure, Reason},
    http::{Client, Connection},
    presentation::Resource,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior, interval};
use url::Url;

/// How often they are asked.
const PERIOD: Duration = Duration::from_secs(1);

/// What is older says nothing of now.
const FRESH: Duration = Duration::from_secs(3);

/// The most bytes of an answer.
const MAX_BYTES: usize = 16 << 10;

/// Where they tell it.
pub(super) const PATH: &str = "/host.json";

/// Another machine.
#[derive(Debug)]
pub struct HostStats {
    url: Url,
    heard: Mutex<Heard>,
}

#[derive(Debug)]
struct Heard {
    last: Result<Host, String>,
    used: Option<(Instant, HostUse)>,
}

impl HostStats {
    /// Of what listens at an address: `host:port`. `None` where it is none.
    #[must_use]
    pub fn at(address: &str) -> Option<Self> {
        let url = Url::parse(&format!("http://{address}{PATH}")).ok()?;
        let plain = url.path() == PATH && url.username().is_empty() && url.query().is_none();
        (plain && url.has_host()).then(|| Self {
            url,
            heard: Mutex::new(Heard { last: Err("it has not answered yet".to_owned()), used: None }),
        })
    }

    /// Where it is asked.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it did in the last second that is known of.
    pub(super) fn latest(&self) -> Option<HostUse> {
        self.heard().used.filter(|(at, _)| at.elapsed() < FRESH).map(|(_, used)| used)
    }

    /// Its name, or address, and what it said last or why it did not.
    pub(super) fn named(&self) -> (String, Result<Host, String>) {
        let address = self.url.authority().to_owned();
        let last = self.heard().last.clone();
        let name =
            last.as_ref().map_or_else(|_| address.clone(), |host| format!("{} ({address})", host.name));
        (name, last)
    }

    fn hear(&self, said: Result<Host, String>) {
        let mut heard = self.heard();
        let used = match (&heard.last, &said) {
            (Ok(before), Ok(now)) => now.since(before),
            _ => None,
        };
        if let Some(used) = used {
            heard.used = Some((Instant::now(), used));
        }
        heard.last = said;
    }
}

/// Asks a machine each second, for ever.
pub async fn watch(client: Client, host: Arc<HostStats>) {
    let mut clock = interval(PERIOD);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection = Connection::default();
    let resource = Resource { url: host.url.clone(), range: None };
    loop {
        clock.tick().await;
        let mut body = Vec::new();
        let mut keep = |piece: &[u8]| {
            body.extend_from_slice(piece);
            if body.len() > MAX_BYTES {
                return Err(Failure::new(Reason::TooLarge, "more than statistics of a host"));
            }
            Ok(())
        };
        let answer = client.get(&mut connection, &resource, Instant::now(), &mut keep).await;
        host.hear(match answer {
            Ok(_) => {
                serde_json::from_slice(&body).map_err(|error| format!("no statistics of a host: {error}"))
            }
            Err(lost) => Err(lost.failure.to_string()),
        });
    }
}
