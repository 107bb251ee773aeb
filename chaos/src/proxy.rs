//! A TCP proxy that makes a link slow, lossy or narrow, connection by connection.
//!
//! What it does to a link can be changed at any time and acts on open connections too. It sees
//! bytes, not messages: never drops, repeats or reorders any, since TCP wouldn't either; a lost
//! packet is what it is to a TCP peer, a pause until the retransmission.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Most bytes that are taken from a socket at once; each such piece may be lost on its own.
const PIECE_LEN_MAX: usize = 16 << 10;
/// Pieces on their way in one direction of a connection; beyond them the sender has to wait.
const PIECES_MAX: usize = 256;
/// The shortest wait before TCP sends again what was lost (Linux); it doubles with each loss.
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// A piece that was lost so often has waited for 6 s; connections rarely live on beyond.
const LOSSES_MAX: u32 = 5;

/// What is done to each connection, in each direction on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Impairment {
    /// Added on the way, so that a round trip takes twice this.
    pub delay: Duration,
    /// Up to this is added to the delay, evenly distributed; bytes stay in order.
    pub jitter: Duration,
    /// Of a thousand pieces so many are lost, and come later by a retransmission (200 ms, doubling).
    pub loss_permille: u16,
    /// Of a thousand pieces so many end their connection with a reset.
    pub reset_permille: u16,
    /// Bytes a second and connection; none for no limit.
    pub bytes_per_second: Option<u64>,
}

/// A running proxy; dropped, it ends with all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: watch::Sender<Control>,
    accepting: AbortHandle,
}

#[derive(Debug, Clone, Copy, Default)]
struct Control {
    impairment: Impairment,
    /// Connections that began under another number are to be reset.
    generation: u64,
}

impl Proxy {
    /// Listens on `listen` (port 0 for a free one) and carries everything to `upstream` and back,
    /// unimpaired at first. Runs on the current tokio runtime, for as long as that does.
    ///
    /// # Errors
    /// The operating system's, when it can't listen there.
    pub async fn start(listen: SocketAddr, upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (control, watched) = watch::channel(Control::default());
        let accepting = tokio::spawn(accept(listener, upstream, watched)).abort_handle();
        Ok(Self {
            address,
            control,
            accepting,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does now.
    pub fn impairment(&self) -> Impairment {
        self.control.borrow().impairment
    }

    /// Does this from now on, to open connections too; what is on its way stays as late as it is.
    pub fn impair(&self, impairment: Impairment) {
        self.control
            .send_modify(|control| control.impairment = impairment);
    }

    /// Resets all open connections, on both sides.
    pub fn reset_connections(&self) {
        self.control.send_modify(|control| control.generation += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections see the control's end.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, control: watch::Receiver<Control>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(carry(client, upstream, control.clone()));
            }
            // Out of file descriptors, say: the next one may fare better.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One connection, until both sides have closed or something ends it.
async fn carry(mut client: TcpStream, upstream: SocketAddr, control: watch::Receiver<Control>) {
    let mut ended = control.clone();
    let born = ended.borrow_and_update().generation;
    let connected = tokio::select! {
        connected = TcpStream::connect(upstream) => connected,
        () = wait_ended(&mut ended, born) => return reset(&client),
    };
    let Ok(mut server) = connected else {
        return reset(&client);
    };
    // Small commands must not wait for each other here; if it can't be set, they do.
    let _ = client.set_nodelay(true).and(server.set_nodelay(true));
    let carried = {
        let (client_in, client_out) = client.split();
        let (server_in, server_out) = server.split();
        let both = async {
            tokio::try_join!(
                pump(client_in, server_out, control.clone()),
                pump(server_in, client_out, control.clone()),
            )
        };
        tokio::select! {
            carried = both => carried.is_ok(),
            () = wait_ended(&mut ended, born) => false,
        }
    };
    if !carried {
        reset(&client);
        reset(&server);
    }
}

/// Has the socket answer its peer with a reset instead of an orderly end when it is dropped.
fn reset(socket: &TcpStream) {
    // If it can't be set the peer sees an orderly end.
    let _ = socket.set_zero_linger();
}

/// Until the connections of generation `born` are to be reset, or the proxy is gone.
async fn wait_ended(control: &mut watch::Receiver<Control>, born: u64) {
    while control.borrow_and_update().generation == born {
        if control.changed().await.is_err() {
            return;
        }
    }
}

/// One direction: reads while earlier pieces are still on their way, writes each when it is due.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    control: watch::Receiver<Control>,
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let read = async move {
        let mut link = Link::new();
        let mut buffer = vec![0; PIECE_LEN_MAX];
        loop {
            let len = from.read(&mut buffer).await?;
            let piece = buffer.get(..len).unwrap_or_default();
            let impairment = control.borrow().impairment;
            let due = link.due(Instant::now(), len, &impairment)?;
            if len == 0 || sender.send((due, piece.to_vec())).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = receiver.recv().await {
            sleep_until(due).await;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(|((), ())| ())
}

/// One direction of a connection: when what enters it leaves it.
struct Link {
    last_due: Instant,
}

impl Link {
    fn new() -> Self {
        Self {
            last_due: Instant::now(),
        }
    }

    /// When a piece that enters `now` comes out; an error when it resets the connection.
    fn due(&mut self, now: Instant, len: usize, link: &Impairment) -> io::Result<Instant> {
        if happens(link.reset_permille) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let mut due = now + link.delay;
        due += link.jitter.mul_f64(rand::random());
        let mut losses = 0;
        while losses < LOSSES_MAX && happens(link.loss_permille) {
            due += RETRANSMISSION * 2u32.pow(losses);
            losses += 1;
        }
        due = due.max(self.last_due);
        if let Some(rate) = link.bytes_per_second {
            due += Duration::from_secs_f64(len as f64 / rate.max(1) as f64);
        }
        self.last_due = due;
        Ok(due)
    }
}

fn happens(permille: u16) -> bool {
    rand::random_ratio(u32::from(permille.min(1000)), 1000)
}
