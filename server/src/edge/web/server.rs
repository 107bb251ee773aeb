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
use tokio_io_timeout::TimeoutWriter;
use tower::Service as _;

use super::app::App;
use super::routes::router;
use crate::config::Bounds;
use crate::edge::client_address::Peer;
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

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Connections that were still busy when the time to stop was up.
    pub cut_off: usize,
}

/// An edge with its listener.
pub struct Server<S> {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App<S>>,
}

impl<S: Store> Server<S> {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address can't be had.
    pub async fn bind(address: SocketAddr, app: App<S>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Server {
            address: listener.local_addr()?,
            listener,
            app: Arc::new(app),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop` is done; then takes no more connections, lets requests in
    /// flight finish for at most [`Bounds::shutdown_timeout`], and returns.
    ///
    /// Cancel safety: dropping the future cuts all connections off.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Ended {
        let Server { listener, app, .. } = self;
        let bounds = app.settings.bounds;
        let (stopping, stopped) = watch::channel(());
        let slots = bounds.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        let slots = Arc::new(Semaphore::new(slots));
        let router = router(Arc::clone(&app));
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((socket, peer)) => match Arc::clone(&slots).try_acquire_owned() {
                        Ok(slot) => {
                            let it = Connection { socket, peer, slot, bounds };
                            connections.spawn(it.run(Arc::clone(&app), router.clone(), stopped.clone()));
                        }
                        Err(_) => shed(&app, &socket),
                    },
                    Err(error) => pause(&error).await,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
        drop(listener);
        app.stop();
        drop(stopped);
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

/// Tells a connection too many so, if that takes no waiting.
fn shed<S: Store>(app: &App<S>, socket: &TcpStream) {
    app.instruments.connection_shed();
    let _ = socket.try_write(TOO_MANY);
    if let Some(before) = app.shed_log.pass(app.limiter.clock().now()) {
        let max = app.settings.bounds.connections_max;
        tracing::warn!(max, before, "refused a connection: too many are open");
    }
}

async fn pause(error: &io::Error) {
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
    bounds: Bounds,
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
