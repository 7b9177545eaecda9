//! Connections whose time to connect is measured, for the distance of storage.

use crate::backend::http::retry::Account;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower_service::Service;

tokio::task_local! {
    /// The time at which the name of the server was resolved.
    static RESOLVED: Cell<Option<Instant>>;
}

type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;
type Inner = HttpConnector<TimedResolver>;

/// Opens TCP connections.
#[derive(Debug, Clone)]
pub(super) struct TimedConnector {
    inner: Inner,
    account: Arc<Account>,
}

impl TimedConnector {
    /// Creates a connector that notes its times in an account. `configure` makes other settings.
    pub(super) fn new(account: Arc<Account>, configure: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = HttpConnector::new_with_resolver(TimedResolver(GaiResolver::new()));
        configure(&mut inner);
        Self { inner, account }
    }
}

impl Service<Uri> for TimedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = <Inner as Service<Uri>>::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.inner.call(address);
        let account = Arc::clone(&self.account);
        let timed = async move {
            let begun = Instant::now();
            let connection = connecting.await?;
            // The resolver is not asked for an address that has no name.
            let begun = RESOLVED.with(Cell::get).unwrap_or(begun);
            account.distance.note_connection(begun.elapsed());
            Ok(connection)
        };
        Box::pin(RESOLVED.scope(Cell::new(None), timed))
    }
}

/// Resolves names, and notes when that is done: a distant resolver says nothing about storage.
#[derive(Debug, Clone)]
pub(super) struct TimedResolver(GaiResolver);

impl Service<Name> for TimedResolver {
    type Response = GaiAddrs;
    type Error = io::Error;
    type Future = BoxFuture<GaiAddrs, io::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = self.0.call(name);
        Box::pin(async move {
            let addresses = resolving.await;
            // Fails only outside of `TimedConnector::call`.
            let _ = RESOLVED.try_with(|resolved| resolved.set(Some(Instant::now())));
            addresses
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn each_connection_is_a_sample_of_the_distance() {
        let account = Arc::new(Account::new(&Options::default()));
        let mut connector = TimedConnector::new(account.clone(), |_| ());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let samples = || account.distance.connections().len();
        for (count, host) in [(1, "127.0.0.1"), (2, "localhost")] {
            let address = format!("http://{host}:{port}/film.mp4").parse().unwrap();
            let _connection = connector.call(address).await.unwrap();
            assert_eq!(samples(), count, "{host}");
        }
        drop(listener);
        connector.call(format!("http://127.0.0.1:{port}/").parse().unwrap()).await.unwrap_err();
        assert_eq!(samples(), 2, "nothing was connected");
    }

    /// A resolver far away made storage nearby look far.
    #[tokio::test(start_paused = true)]
    async fn the_time_to_resolve_a_name_counted_as_distance() {
        let mut resolver = TimedResolver(GaiResolver::new());
        let resolving = async {
            assert!(RESOLVED.with(Cell::get).is_none());
            let _addresses = resolver.call("localhost".parse().unwrap()).await;
            RESOLVED.with(Cell::get)
        };
        assert!(RESOLVED.scope(Cell::new(None), resolving).await.is_some());
    }
}
