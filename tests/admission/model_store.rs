//! A store whose truth is memory, behind links that are slow, silent or cut.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::MemoryStore;
use tidegate::model::{ChargeId, Cost, Target};
use tidegate::store::{
    Announcement, CallKind, ChargeCall, ChargeReply, Membership, Readiness, RefundCall, Refunded,
    ResetCall, ShardId, Store, StoreError, StoreErrorKind, Subscription,
};
use tokio::sync::broadcast;
use tokio::time::Instant;

/// A request that the store decided.
#[derive(Clone, Debug)]
pub struct Executed {
    pub id: ChargeId,
    pub cost: Cost,
    pub at: Instant,
    pub is_admitted: bool,
    pub is_repeated: bool,
    pub is_lease: bool,
    /// Units left of the first ceiling.
    pub remaining: u64,
}

/// The one store of a fleet, and what it did.
pub struct ModelStore {
    memory: MemoryStore,
    executed: Mutex<Vec<Executed>>,
    news: broadcast::Sender<Arc<[u8]>>,
    nodes: u32,
}

/// What a link does to calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Each way takes this long.
    pub delay: Duration,
    /// Nothing gets through, or no answer back.
    pub is_cut: bool,
    /// Calls arrive and are decided, but their answers are lost.
    pub loses_answers: bool,
    /// Calls are refused at once.
    pub refuses: bool,
    /// News of the fleet are lost.
    pub loses_news: bool,
}

/// One node's way to the model store.
pub struct Link {
    model: Arc<ModelStore>,
    weather: Arc<Mutex<Weather>>,
    calls: AtomicU64,
}

impl Link {
    pub fn new(model: &Arc<ModelStore>, weather: &Arc<Mutex<Weather>>) -> Self {
        Link {
            model: Arc::clone(model),
            weather: Arc::clone(weather),
            calls: AtomicU64::new(0),
        }
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().unwrap()
    }

    async fn way<T>(
        &self,
        deadline: std::time::Instant,
        act: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let silence = async {
            tokio::time::sleep_until(Instant::from_std(deadline)).await;
            Err(StoreError::unknown(
                "charge",
                StoreErrorKind::Deadline,
                "silence",
            ))
        };
        let weather = self.weather();
        if weather.refuses {
            let kind = StoreErrorKind::Unavailable;
            return Err(StoreError::not_run("charge", kind, "refused"));
        }
        pass_by(weather.delay).await;
        if weather.is_cut {
            return silence.await;
        }
        let done = act.await;
        if weather.loses_answers {
            return silence.await;
        }
        pass_by(weather.delay).await;
        done
    }
}

/// tokio rounds up to its next millisecond, also from nothing.
async fn pass_by(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

impl ModelStore {
    pub fn new(memory: MemoryStore, nodes: usize) -> Self {
        ModelStore {
            memory,
            executed: Mutex::default(),
            news: broadcast::channel(1_024).0,
            nodes: nodes as u32,
        }
    }

    pub fn executed(&self) -> Vec<Executed> {
        self.executed.lock().unwrap().clone()
    }

    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        let requests = call.requests.clone();
        let is_charge = call.kind == CallKind::Charge;
        let reply = self.memory.charge(call).await?;
        if is_charge {
            let mut executed = self.executed.lock().unwrap();
            executed.extend(
                requests
                    .into_iter()
                    .zip(&reply.outcomes)
                    .map(|(request, outcome)| Executed {
                        id: request.id,
                        cost: request.cost,
                        at: Instant::now(),
                        is_admitted: outcome.is_admitted(),
                        is_repeated: outcome.repeated,
                        is_lease: request.held_for.is_some(),
                        remaining: outcome.ceilings[0].remaining,
                    }),
            );
        }
        Ok(reply)
    }
}

impl Store for Link {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        self.way(call.deadline, self.model.charge(call)).await
    }

    async fn refund(&self, call: RefundCall) -> Result<Refunded, StoreError> {
        self.way(call.deadline, self.model.memory.refund(call))
            .await
    }

    async fn reset(&self, call: ResetCall) -> Result<(), StoreError> {
        self.way(call.deadline, self.model.memory.reset(call)).await
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn calls_sent(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn shard_of(&self, target: &Target) -> ShardId {
        // Subjects that begin with a digit have that shard.
        let first = target.subject.as_str().chars().next();
        let digit = first.and_then(|c| c.to_digit(10));
        ShardId::new(digit.unwrap_or(0))
    }
}

pub struct Ears {
    news: broadcast::Receiver<Arc<[u8]>>,
    weather: Arc<Mutex<Weather>>,
}

impl Subscription for Ears {
    async fn next(&mut self) -> Announcement {
        loop {
            match self.news.recv().await {
                Ok(_) if self.weather.lock().unwrap().loses_news => {}
                Ok(message) => return Announcement::Message(message),
                Err(broadcast::error::RecvError::Lagged(_)) => return Announcement::Missed,
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Membership for Link {
    type Subscription = Ears;

    async fn heartbeat(
        &self,
        _: &str,
        _: Duration,
        _: std::time::Instant,
    ) -> Result<Option<u32>, StoreError> {
        Ok(Some(self.model.nodes))
    }

    async fn announce(&self, message: &[u8], _: std::time::Instant) -> Result<u64, StoreError> {
        // Nobody may be listening.
        let _ = self.model.news.send(message.into());
        Ok(1)
    }

    fn subscribe(&self) -> Ears {
        Ears {
            news: self.model.news.subscribe(),
            weather: Arc::clone(&self.weather),
        }
    }
}
