//! The listener and its connections: HTTP/1.1 by hyper, within bounds of number, size and time.
//! Never keeps a client that doesn't speak, and never cuts one off mid-answer unless the time to
//! stop is up.

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
use tower::Service as _;

use super::app::App;
use super::patience::Patient;
use super::routes::router;
use tidegate::config::ServerBounds;
use tidegate::store::Store;

/// How long the listener rests after it could not accept: out of file handles, mostly, which
/// only others' ends give back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The most that is kept of what a connection sends ahead, in bytes. hyper wants 8,192 at least.
const BUFFER_BYTES_MAX: usize = 64 * 1_024;

/// What a connection too many is told, whole.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Cache-Control: no-store\r\nContent-Length: 0\r\n\r\n";

/// The address of a request's peer, as an extension of the request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Connections that were still busy when the time to stop was up.
    pub cut_off: usize,
}

/// Answers requests on `listener` until `stop` is done; then takes no more connections, lets
/// requests in flight finish for at most [`ServerBounds::shutdown_timeout`], and returns.
///
/// Cancel safety: dropping the future cuts all connections off.
pub async fn serve<S: Store>(
    listener: TcpListener,
    app: Arc<App<S>>,
    stop: impl Future<Output = ()>,
) -> Ended {
    let (stopping, stopped) = watch::channel(());
    let slots = Arc::new(Semaphore::new(
        app.settings
            .bounds
            .connections_max
            .clamp(1, Semaphore::MAX_PERMITS),
    ));
    let router = router(Arc::clone(&app));
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => match Arc::clone(&slots).try_acquire_owned() {
                    Ok(slot) => {
                        let it = Connection { socket, peer, slot, bounds: app.settings.bounds };
                        connections.spawn(it.run(Arc::clone(&app), router.clone(), stopped.clone()));
                    }
                    Err(_) => refuse(&app, &socket),
                },
                Err(error) => rest(&error).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    app.stop();
    drop(stopped);
    tracing::info!(connections = connections.len(), "stopping");
    stopping.send_replace(());
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(app.settings.bounds.shutdown_timeout, drained)
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            "cut off what was still busy"
        );
    }
    let cut_off = connections.len();
    connections.shutdown().await;
    Ended { cut_off }
}

/// Tells a connection too many so, if that takes no waiting.
fn refuse<S: Store>(app: &App<S>, socket: &TcpStream) {
    app.instruments.connection_shed();
    let _ = socket.try_write(TOO_MANY);
    if let Some(before) = app.shed_log.pass(app.limiter.clock().now()) {
        let max = app.settings.bounds.connections_max;
        tracing::warn!(max, before, "refused a connection: too many are open");
    }
}

async fn rest(error: &io::Error) {
    let of_the_peer = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    );
    if !of_the_peer {
        tracing::warn!(%error, "can't accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

struct Connection {
    socket: TcpStream,
    peer: SocketAddr,
    slot: OwnedSemaphorePermit,
    bounds: ServerBounds,
}

impl Connection {
    async fn run<S: Store>(
        self,
        app: Arc<App<S>>,
        router: Router,
        mut stopped: watch::Receiver<()>,
    ) {
        let _slot = self.slot;
        let _counted = app.instruments.connection();
        let peer = Peer(self.peer);
        // Answers are written whole: waiting for more would only delay them.
        let _ = self.socket.set_nodelay(true);
        let socket = Patient::new(self.socket, self.bounds.body_timeout);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.clone().call(request.map(axum::body::Body::new))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.head_timeout)
            .max_header_size(self.bounds.head_bytes_max)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(socket), service);
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
