//! A listener and its connections: HTTP/1.1 by hyper, within bounds of number, size and time.
//! Never keeps a client that doesn't speak. When all its places are taken it still answers who asks
//! after the server's health, and tells everyone else so.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutWriter;
use tower::Service as _;

use super::app::App;
use crate::config::Bounds;
use crate::edge::client_address::Peer;
use crate::telemetry::Throttle;
use tidegate::model::Micros;
use tidegate::store::Store;

/// How long the listener rests when it can't accept and can't even say so.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The most that is kept of what a connection sends ahead, in bytes. hyper wants 8,192 at least.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;

/// Connections beyond the bound that may still ask after the server's health.
const SPARE_MAX: usize = 64;

/// How long each of those may take to ask.
const SPARE_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// An error of the listener is logged once in this long.
const LOG_PERIOD: Micros = Micros::from_secs(10);

/// What a connection is told for which there is no place at all, whole.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Cache-Control: no-store\r\nContent-Length: 0\r\n\r\n";

/// A listener, and what answers behind it.
pub(super) struct Door<S> {
    listener: TcpListener,
    app: Arc<App<S>>,
    router: Router,
    /// Answers connections beyond the bound: health, and to the rest that there is no place.
    when_full: Router,
    slots: Arc<Semaphore>,
    spare_slots: Arc<Semaphore>,
    spare_handle: SpareHandle,
    accept_log: Throttle,
}

impl<S: Store> Door<S> {
    /// Answers by `router` those who connect to `listener`; beyond `connections_max`, by `when_full`.
    pub(super) fn new(
        listener: TcpListener,
        app: Arc<App<S>>,
        router: Router,
        when_full: Router,
    ) -> Self {
        let slots = app.settings.bounds.connections_max;
        Door {
            listener,
            app,
            router,
            when_full,
            slots: Arc::new(Semaphore::new(slots.clamp(1, Semaphore::MAX_PERMITS))),
            spare_slots: Arc::new(Semaphore::new(SPARE_MAX)),
            spare_handle: SpareHandle::new(),
            accept_log: Throttle::new(LOG_PERIOD),
        }
    }

    /// Takes connections until `close` is done, and returns those that are open then. They end after
    /// their request in flight once `stopped` changes.
    ///
    /// Cancel safety: dropping the future cuts all connections off.
    pub(super) async fn serve(
        mut self,
        close: impl Future<Output = ()>,
        stopped: watch::Receiver<()>,
    ) -> JoinSet<()> {
        let mut connections = JoinSet::new();
        tokio::pin!(close);
        loop {
            tokio::select! {
                () = &mut close => return connections,
                accepted = self.listener.accept() => match accepted {
                    Ok((socket, peer)) => {
                        if let Some(it) = self.admit(socket, peer) {
                            let app = Arc::clone(&self.app);
                            connections.spawn(it.run(app, stopped.clone()));
                        }
                    }
                    Err(error) => self.cannot_accept(&error).await,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    /// A place for a connection, among the spare ones when all others are taken.
    fn admit(&self, socket: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let mut bounds = self.app.settings.bounds;
        let (slot, router, keep_alive) = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => (slot, &self.router, true),
            Err(_) => {
                bounds.head_timeout = bounds.head_timeout.min(SPARE_HEAD_TIMEOUT);
                self.app.connection_shed();
                let Ok(slot) = Arc::clone(&self.spare_slots).try_acquire_owned() else {
                    turn_away(&socket);
                    return None;
                };
                (slot, &self.when_full, false)
            }
        };
        Some(Connection {
            socket,
            peer,
            slot,
            bounds,
            router: router.clone(),
            keep_alive,
        })
    }

    async fn cannot_accept(&mut self, error: &io::Error) {
        let of_the_peer = matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
        );
        if of_the_peer {
            return;
        }
        if let Some(before) = self.accept_log.pass(self.app.limiter.clock().now()) {
            let cure = "raise the limit of open files (ulimit -n), or lower --connections-max";
            tracing::warn!(%error, before, cure, "can't accept a connection");
        }
        // Out of file handles, a waiting client would hang; one handle kept back tells it so.
        if self.spare_handle.give() {
            let waiting = tokio::time::timeout(ACCEPT_PAUSE, self.listener.accept()).await;
            if let Ok(Ok((socket, _))) = waiting {
                self.app.connection_shed();
                turn_away(&socket);
            }
            self.spare_handle.take_back();
        } else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            self.spare_handle.take_back();
        }
    }
}

/// Tells a connection that there is no place for it, if that takes no waiting. What it has sent is
/// read first: closing on unread bytes would take the answer back.
fn turn_away(socket: &TcpStream) {
    let _ = socket.try_read(&mut [0; 4_096]);
    let _ = socket.try_write(TOO_MANY);
}

/// A file handle kept back for the moment when there is no other.
struct SpareHandle(Option<File>);

impl SpareHandle {
    fn new() -> Self {
        SpareHandle(File::open("/dev/null").ok())
    }

    /// Gives it free; false when there is none.
    fn give(&mut self) -> bool {
        self.0.take().is_some()
    }

    fn take_back(&mut self) {
        self.0 = self.0.take().or_else(|| File::open("/dev/null").ok());
    }
}

struct Connection {
    socket: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    bounds: Bounds,
    router: Router,
    keep_alive: bool,
}

impl Connection {
    async fn run<S: Store>(self, app: Arc<App<S>>, mut stopped: watch::Receiver<()>) {
        let _slot = self.slot;
        let _counted = app.instruments.connection();
        let (peer, router) = (Peer(self.peer), self.router);
        // Answers are written whole: waiting for more would only delay them.
        let _ = self.socket.set_nodelay(true);
        // hyper bounds how long a client may take to speak; this bounds how long it may take to
        // listen.
        let mut socket = TimeoutWriter::new(self.socket);
        socket.set_timeout(Some(self.bounds.body_timeout));
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.clone().call(request.map(axum::body::Body::new))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(self.keep_alive)
            .header_read_timeout(self.bounds.head_timeout)
            .max_header_size(self.bounds.head_bytes_max)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(Box::pin(socket)), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = stopped.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::Instant;

    const LIMIT: Duration = Duration::from_secs(10);

    fn within(socket: DuplexStream) -> Pin<Box<TimeoutWriter<DuplexStream>>> {
        let mut socket = TimeoutWriter::new(socket);
        socket.set_timeout(Some(LIMIT));
        Box::pin(socket)
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up_at_the_limit() {
        let (ours, _theirs) = duplex(4);
        let began = Instant::now();
        let written = within(ours).write_all(&[0; 5]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_a_little_now_and_then_is_waited_for() {
        let (ours, mut theirs) = duplex(1);
        let began = Instant::now();
        let mut socket = within(ours);
        let writing = socket.write_all(&[7; 5]);
        let reading = async {
            for _ in 0..5 {
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                assert_eq!(theirs.read_u8().await.unwrap(), 7);
            }
        };
        let (written, ()) = tokio::join!(writing, reading);
        written.unwrap();
        assert!(began.elapsed() > LIMIT * 4);
    }
}
