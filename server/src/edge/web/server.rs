//! The server: its public listener, the administrators' own, and how both end. Never cuts a client off
//! mid-answer unless the time to stop is up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::app::App;
use super::door::Door;
use super::routes::{Paths, router, when_full};
use tidegate::store::Store;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Connections that were still busy when the time to stop was up.
    pub cut_off: usize,
}

/// An edge with its listeners.
pub struct Server<S> {
    listener: TcpListener,
    address: SocketAddr,
    admin: Option<TcpListener>,
    /// Whether the public listener leaves metrics and administrators' calls to another.
    admin_elsewhere: bool,
    app: Arc<App<S>>,
}

impl<S: Store> Server<S> {
    /// Listens at `address`; port 0 takes a free one. Everything is answered there, also metrics and
    /// administrators' calls, unless another listener takes these.
    ///
    /// # Errors
    /// When the address can't be had.
    pub async fn bind(address: SocketAddr, app: App<S>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Server {
            address: listener.local_addr()?,
            listener,
            admin: None,
            admin_elsewhere: false,
            app: Arc::new(app),
        })
    }

    /// Takes metrics and administrators' calls away from the public listener, to one at `address`,
    /// which answers after the server's health as well. Says where that is.
    ///
    /// # Errors
    /// When the address can't be had; then nobody answers these, and the rest is as before.
    pub async fn bind_admin(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.admin_elsewhere = true;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        self.admin = Some(listener);
        Ok(address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` is done. Then it says that it isn't ready and serves on for
    /// [`Bounds::drain`](crate::config::Bounds::drain), each answer telling its client to close the
    /// connection; after that it takes no more connections, lets requests in flight finish for at
    /// most [`Bounds::shutdown_timeout`](crate::config::Bounds::shutdown_timeout), and returns.
    ///
    /// Cancel safety: dropping the future cuts all connections off.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Ended {
        let Server {
            listener,
            admin,
            admin_elsewhere,
            app,
            ..
        } = self;
        let bounds = app.settings.bounds;
        let (stopping, stopped) = watch::channel(());
        let paths = match admin_elsewhere {
            true => Paths::Public,
            false => Paths::All,
        };
        let full = when_full(Arc::clone(&app));
        let door = |listener, paths| {
            let router = router(Arc::clone(&app), paths);
            Door::new(listener, Arc::clone(&app), router, full.clone())
        };
        // Watched until the very end; aborted with the set.
        let mut watched = JoinSet::new();
        if let Some(listener) = admin {
            let door = door(listener, Paths::Admin);
            let stopped = stopped.clone();
            watched.spawn(async move { door.serve(std::future::pending(), stopped).await });
        }
        let told = async {
            stop.await;
            app.stop();
            if !bounds.drain.is_zero() {
                tracing::info!(drain = ?bounds.drain, "told to stop: not ready, and serving on");
                tokio::time::sleep(bounds.drain).await;
            }
        };
        // The listener closes with its door.
        let connections = door(listener, paths).serve(told, stopped).await;
        tracing::info!(connections = connections.len(), "stopping");
        stopping.send_replace(());
        drain(connections, bounds.shutdown_timeout).await
    }
}

/// Lets connections finish for at most `timeout`, and cuts off the others.
async fn drain(mut connections: JoinSet<()>, timeout: Duration) -> Ended {
    let drained = async { while connections.join_next().await.is_some() {} };
    let in_time = tokio::time::timeout(timeout, drained).await.is_ok();
    let cut_off = connections.len();
    if !in_time {
        tracing::warn!(connections = cut_off, "cut off what was still busy");
    }
    connections.shutdown().await;
    Ended { cut_off }
}
