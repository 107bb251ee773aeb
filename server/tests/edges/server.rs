//! A server under test: the real edge on a real listener, the embedded store behind a gate that
//! can be shut, and a clock set by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate::clock::ManualClock;
use tidegate::model::Timestamp;
use tidegate::store::{
    ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, Store, StoreError,
    StoreErrorKind,
};
use tidegate::{Limiter, MemoryStore};
use tidegate_server::config::{Config, Secret, Settings};
use tidegate_server::edge::web::{self, App, Ended};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

/// When the clock stands before anything is set: a whole second, aligned to minutes.
pub const START_SECS: u64 = 1_760_000_040;

/// Time enough for what must happen at once, on a machine that is busy.
pub const SOON: Duration = Duration::from_secs(20);

pub const TOKEN: &str = "an-administrators-token";

/// The embedded store, which can be taken away (every call fails) or held (calls wait).
pub struct Gate {
    inner: MemoryStore,
    pub away: AtomicBool,
    open: Semaphore,
    held: AtomicBool,
    waiting: AtomicUsize,
}

impl Gate {
    /// Returns when so many calls wait.
    pub async fn until_waiting(&self, calls: usize) {
        let began = Instant::now();
        while self.waiting.load(Ordering::SeqCst) < calls {
            assert!(
                began.elapsed() < SOON,
                "not {calls} calls wait at the store"
            );
            tokio::task::yield_now().await;
        }
    }

    /// Makes calls wait until [`Gate::release`].
    pub fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
    }

    /// Lets this many waiting calls go on.
    pub fn release(&self, calls: usize) {
        self.open.add_permits(calls);
    }

    async fn pass(&self, operation: &'static str) -> Result<(), StoreError> {
        if self.held.load(Ordering::SeqCst) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            self.open.acquire().await.unwrap().forget();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        if self.away.load(Ordering::SeqCst) {
            let kind = StoreErrorKind::Unavailable;
            return Err(StoreError::not_run(operation, kind, "the store is away"));
        }
        Ok(())
    }
}

impl Store for Gate {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        self.pass("charge").await?;
        self.inner.charge(call).await
    }

    async fn refund(&self, call: RefundCall) -> Result<Refunded, StoreError> {
        self.pass("refund").await?;
        self.inner.refund(call).await
    }

    async fn reset(&self, call: ResetCall) -> Result<(), StoreError> {
        self.pass("reset").await?;
        self.inner.reset(call).await
    }

    fn readiness(&self) -> Readiness {
        match self.away.load(Ordering::SeqCst) {
            true => Readiness::NotReady("the store is away".to_owned()),
            false => Readiness::Ready,
        }
    }

    fn calls_sent(&self) -> u64 {
        self.inner.calls_sent()
    }
}

/// A running server. Dropping it ends it.
pub struct Server {
    pub address: SocketAddr,
    /// The administrators' listener, where there is one of their own.
    pub admin: Option<SocketAddr>,
    pub clock: ManualClock,
    pub limiter: Arc<Limiter<Gate>>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Ended>,
}

impl Server {
    pub async fn start(yaml: &str) -> Self {
        Server::start_with(yaml, |_| {}).await
    }

    pub async fn start_with(yaml: &str, set: impl FnOnce(&mut Settings)) -> Self {
        Server::begin(yaml, set, false).await
    }

    /// With a listener of its own for administrators.
    pub async fn start_with_admin(yaml: &str) -> Self {
        let token = Secret::new(TOKEN).unwrap();
        Server::begin(yaml, |settings| settings.admin_token = Some(token), true).await
    }

    async fn begin(yaml: &str, set: impl FnOnce(&mut Settings), own_admin: bool) -> Self {
        let text = format!("version: 1\n{yaml}");
        let config = Config::parse(text).unwrap_or_else(|faults| panic!("{faults}"));
        let mut settings = config.settings;
        set(&mut settings);
        let clock = ManualClock::at(Timestamp::from_micros(START_SECS * 1_000_000));
        let store = Gate {
            inner: MemoryStore::builder().clock(clock.clone()).build(),
            away: AtomicBool::new(false),
            open: Semaphore::new(0),
            held: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        };
        let limiter = Limiter::builder()
            .policies(config.policies)
            .store(store)
            .clock(clock.clone())
            .build()
            .unwrap();
        let limiter = Arc::new(limiter);
        let app = App::new(Arc::clone(&limiter), settings, Arc::default());
        let local = "127.0.0.1:0".parse().unwrap();
        let mut server = web::Server::bind(local, app).await.unwrap();
        let admin = match own_admin {
            true => Some(server.bind_admin(local).await.unwrap()),
            false => None,
        };
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Server {
            address,
            admin,
            clock,
            limiter,
            stop: Some(stop),
            task,
        }
    }

    pub fn store(&self) -> &Gate {
        self.limiter.store()
    }

    /// Tells the server to stop and waits until it has.
    pub async fn stop(mut self) -> Ended {
        self.begin_stop();
        (&mut self.task).await.unwrap()
    }

    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Policies of the tests.
pub const POLICIES: &str = "
policies:
  video_top:
    algorithm: sliding_log
    global: 8/min
    region: 3/min
    regions: {us: 5/min, closed: 0/min}
  plain: {algorithm: sliding_log, global: 2/min}
  queue: {algorithm: leaky_bucket, global: 2/s, burst: 2}
  bucket: {algorithm: token_bucket, global: 10/min}
  counter: {algorithm: sliding_counter, global: 10/min}
  aligned: {algorithm: fixed_window, global: 10/min}
  free: {algorithm: sliding_log, global: unlimited}
  lenient: {algorithm: sliding_log, global: 2/min, on_outage: admit}
";
