//! Checks a second over HTTP on the embedded store, against a bare hyper that reads the same
//! requests and answers the same bytes: what the edge, the limiter and the store cost on top of
//! HTTP itself. Client and server share the machine's cores, in both alike. The processor's time a
//! request (client, kernel and server together) is the steadier figure: others' load moves it
//! less.
//!
//! `cargo bench --bench servers [-- SECONDS]`, or `-- direct [REQUESTS]` for the edge, the limiter and
//! the store without a socket, on one thread: what a profiler should look at.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate::model::Policies;
use tidegate::{Limiter, MemoryStore};
use tidegate_server::config::Settings;
use tidegate_server::edge::web::{App, Paths, Server, router};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

/// The binary's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONNECTIONS: usize = 64;
const SUBJECTS: u64 = 10_000;
const ROUNDS: usize = 5;

const POLICIES: &str = "
version: 1
policies:
  log: {algorithm: sliding_log, global: 1000/min, region: 500/min}
  bucket: {algorithm: token_bucket, global: 1000000/s}
  tight: {algorithm: sliding_log, global: 1/d}
";

fn main() {
    if std::env::args().any(|arg| arg == "direct") {
        let requests = std::env::args().filter_map(|arg| arg.parse().ok()).next();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .expect("a runtime")
            .block_on(direct(requests.unwrap_or(200_000)));
        return;
    }
    let seconds = std::env::args().filter_map(|arg| arg.parse().ok()).next();
    let each = Duration::from_secs_f64(seconds.unwrap_or(2.0));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(compare(each));
}

/// Requests handed to the router, one after the other.
async fn direct(requests: u64) {
    let router = router(Arc::new(app()), Paths::All);
    for (name, policy) in ROWS {
        let began = Instant::now();
        for n in 0..requests {
            let body = body(policy, n % SUBJECTS);
            let request = hyper::Request::post("/v1/check").body(Body::from(body));
            let answer = router.clone().oneshot(request.expect("a request")).await;
            let answer = answer.expect("an answer").into_body().collect().await;
            std::hint::black_box(answer.expect("its body").to_bytes());
        }
        let each_us = began.elapsed().as_secs_f64() * 1e6 / requests as f64;
        println!("{name:34} {each_us:5.2} us a request without a socket");
    }
}

const ROWS: [(&str, &str); 3] = [
    ("admitted, sliding log, 2 ceilings", "log"),
    ("admitted, token bucket, 1 ceiling", "bucket"),
    ("denied, sliding log, 1 ceiling", "tight"),
];

async fn compare(each: Duration) {
    let tidegate = tidegate().await;
    println!("{CONNECTIONS} connections, {SUBJECTS} subjects, best of {ROUNDS} x {each:?}");
    for (name, policy) in ROWS {
        let questions: Arc<Vec<_>> = Arc::new((0..SUBJECTS).map(|n| question(policy, n)).collect());
        // Its answer, once the subjects are known to the store, is what the bare server repeats.
        load(tidegate, &questions, each / 2).await;
        let bare = bare(answer(tidegate, &questions[1]).await).await;
        let (mut ours, mut floor) = (Load::default(), Load::default());
        for _ in 0..ROUNDS {
            floor = floor.best(load(bare, &questions, each).await);
            ours = ours.best(load(tidegate, &questions, each).await);
        }
        println!(
            "{name:34} {:7.0}/s {:5.1} us   bare hyper {:7.0}/s {:5.1} us   share {:.2} of the \
             rate, {:.2} of the time",
            ours.rate,
            ours.cpu_us,
            floor.rate,
            floor.cpu_us,
            ours.rate / floor.rate,
            floor.cpu_us / ours.cpu_us
        );
    }
}

/// What a load found.
#[derive(Clone, Copy)]
struct Load {
    /// Answers a second.
    rate: f64,
    /// The process's own time an answer, user and system, in microseconds.
    cpu_us: f64,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            rate: 0.0,
            cpu_us: f64::INFINITY,
        }
    }
}

impl Load {
    fn best(self, other: Load) -> Load {
        Load {
            rate: self.rate.max(other.rate),
            cpu_us: self.cpu_us.min(other.cpu_us),
        }
    }
}

/// The process's own time so far. Linux counts it in hundredths of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 = after_name
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

fn app() -> App<MemoryStore> {
    let limiter = Limiter::builder()
        .policies(Policies::from_yaml(POLICIES).expect("policies"))
        .store(MemoryStore::default())
        .build()
        .expect("a limiter");
    App::new(Arc::new(limiter), Settings::default(), Arc::default())
}

async fn tidegate() -> SocketAddr {
    let local = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(local, app()).await.expect("a server");
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// hyper, set up as the edge sets it up, that reads each request and repeats `answer`.
async fn bare(answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("its address");
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let _ = socket.set_nodelay(true);
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let _ = request.into_body().collect().await;
                    let mut response = hyper::Response::new(Body::from(answer.body.clone()));
                    *response.status_mut() = answer.status;
                    *response.headers_mut() = answer.headers.clone();
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(Duration::from_secs(30))
                    .serve_connection(TokioIo::new(socket), service),
            );
        }
    });
    address
}

struct Answer {
    status: hyper::StatusCode,
    headers: hyper::HeaderMap,
    body: Vec<u8>,
}

/// One answer, taken apart.
async fn answer(address: SocketAddr, question: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(question).await.expect("sent");
    let mut bytes = Vec::new();
    let (head_end, end) = read_answer(&mut socket, &mut bytes).await;
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut headers = hyper::HeaderMap::new();
    for line in head.lines().skip(1) {
        if let Some((name, value)) = line.split_once(": ")
            && !matches!(name, "content-length" | "date")
        {
            let name = hyper::header::HeaderName::try_from(name).expect("a name");
            headers.insert(name, value.parse().expect("a value"));
        }
    }
    Answer {
        status: head[9..12].parse().expect("a status"),
        headers,
        body: bytes[head_end..end].to_vec(),
    }
}

fn body(policy: &str, subject: u64) -> String {
    format!(r#"{{"policy":"{policy}","subject":"key-{subject}","region":"us"}}"#)
}

fn question(policy: &str, subject: u64) -> Vec<u8> {
    let body = body(policy, subject);
    let length = body.len();
    format!(
        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Asks the questions over and over.
async fn load(address: SocketAddr, questions: &Arc<Vec<Vec<u8>>>, each: Duration) -> Load {
    let answered = Arc::new(AtomicU64::new(0));
    let (began, cpu_before) = (Instant::now(), cpu());
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let (answered, questions) = (Arc::clone(&answered), Arc::clone(questions));
            tokio::spawn(async move {
                let mut socket = TcpStream::connect(address).await.expect("a connection");
                let mut bytes = Vec::with_capacity(4_096);
                for question in questions.iter().cycle().skip(n * 157) {
                    socket.write_all(question).await.expect("sent");
                    bytes.clear();
                    read_answer(&mut socket, &mut bytes).await;
                    answered.fetch_add(1, Ordering::Relaxed);
                    if began.elapsed() >= each {
                        return;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a client");
    }
    let answered = answered.load(Ordering::Relaxed) as f64;
    Load {
        rate: answered / began.elapsed().as_secs_f64(),
        cpu_us: (cpu() - cpu_before).as_secs_f64() * 1e6 / answered,
    }
}

/// Reads one answer: where its head ends, and where it ends.
async fn read_answer(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> (usize, usize) {
    loop {
        let read = socket.read_buf(bytes).await.expect("an answer");
        assert_ne!(read, 0, "the server hung up");
        let Some(head_end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let head_end = head_end + 4;
        const LENGTH: &[u8] = b"content-length: ";
        let head = &bytes[..head_end];
        let at = head.windows(LENGTH.len()).position(|w| w == LENGTH);
        let digits = head[at.expect("a length") + LENGTH.len()..].iter();
        let length = digits
            .take_while(|b| b.is_ascii_digit())
            .fold(0, |n, b| n * 10 + usize::from(b - b'0'));
        if bytes.len() >= head_end + length {
            return (head_end, head_end + length);
        }
    }
}
