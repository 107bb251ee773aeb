//! Keeps listening to a channel: on the node that owns its slot, over a connection of its own.
//!
//! Never carries a call: a connection with subscribers on it may fall behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::fault::{Code, Fault, Refusal};
use super::fleet::Channel;
use super::guard::{Owned, keep_running};
use super::link::{FredTask, open};
use super::node::Node;
use super::router::Router;
use super::shared::Shared;
use crate::store::FleetNews;

/// Between a lost subscription and the next attempt.
const RETRY_WAIT: Duration = Duration::from_millis(50);
/// How often it is checked that the channel's slot is still where we listen.
const PLACE_PERIOD: Duration = Duration::from_millis(100);

/// A place to listen at; it ends when this is dropped.
pub struct Subscription {
    news: broadcast::Receiver<FleetNews>,
    _keeper: Owned<()>,
}

impl Subscription {
    /// The next news; waits for it.
    ///
    /// Cancel safe.
    pub async fn next(&mut self) -> FleetNews {
        match self.news.recv().await {
            Ok(news) => news,
            Err(RecvError::Lagged(_)) => FleetNews::Missed,
            // The keeper holds the other end for as long as we live.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

struct Listener {
    shared: Arc<Shared>,
    router: Arc<Router>,
    channel: Channel,
    told: broadcast::Sender<FleetNews>,
}

pub(super) fn keep_subscribed(
    shared: &Arc<Shared>,
    router: &Arc<Router>,
    channel: Channel,
) -> Subscription {
    let (told, news) = broadcast::channel(shared.options.events_len_max);
    let listener = Arc::new(Listener {
        shared: Arc::clone(shared),
        router: Arc::clone(router),
        channel,
        told,
    });
    let keeper = keep_running("subscription".into(), move || {
        let listener = Arc::clone(&listener);
        async move { listener.run().await }
    });
    Subscription {
        news,
        _keeper: keeper,
    }
}

impl Listener {
    async fn run(&self) {
        let mut last_why = String::new();
        loop {
            let why = match self.owner() {
                Some(node) => self.listen_at(&node).await,
                None => "its slot is served by no node".to_owned(),
            };
            if why != last_why {
                tracing::warn!(channel = self.channel.as_str(), why, "not subscribed");
                last_why = why;
            }
            tokio::time::sleep(RETRY_WAIT).await;
        }
    }

    fn owner(&self) -> Option<Arc<Node>> {
        self.router.table().owner(self.channel.slot()).cloned()
    }

    /// Listens until that can't go on, and says why.
    async fn listen_at(&self, node: &Arc<Node>) -> String {
        let client = self
            .shared
            .carrier
            .listener(&self.shared.options, node.address());
        let mut task = match open(&self.shared, &client).await {
            Ok(task) => task,
            Err(failure) => return failure.why,
        };
        let mut messages = client.message_rx();
        let subscribed = client.ssubscribe(self.channel.as_str());
        if let Err(error) = subscribed.await {
            let fault = Fault::from_fred(&error, node.address());
            if let Fault::Refused(Refusal {
                code: Code::Moved(redirect),
                ..
            }) = &fault
            {
                self.router.moved(redirect);
            }
            return fault.describe(node.address());
        }
        tracing::debug!(channel = self.channel.as_str(), node = %node.address(), "subscribed");
        self.tell(FleetNews::Missed);
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => {
                        let bytes = message.value.as_bytes().unwrap_or_default();
                        self.tell(FleetNews::Message(bytes.into()));
                    }
                    Err(RecvError::Lagged(_)) => self.tell(FleetNews::Missed),
                    Err(RecvError::Closed) => return "the connection was closed".into(),
                },
                why = self.while_in_place(node, &client, &mut task) => return why,
            }
        }
    }

    /// Ends when the connection does, falls silent, or another node owns the slot.
    ///
    /// Cancel safe: begun anew after each message, which is as good as an answered probe.
    async fn while_in_place(&self, node: &Node, client: &Client, task: &mut FredTask) -> String {
        let silence_max = self.shared.options.silence_max;
        let probe = async {
            let mut probed = Instant::now();
            loop {
                tokio::time::sleep(PLACE_PERIOD).await;
                if self
                    .owner()
                    .is_some_and(|owner| owner.address() != node.address())
                {
                    return "the channel moved".to_owned();
                }
                if probed.elapsed() < self.shared.options.probe_period {
                    continue;
                }
                probed = Instant::now();
                match tokio::time::timeout(silence_max, client.ping::<()>(None)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return error.details().to_owned(),
                    Err(_) => return "the node fell silent".to_owned(),
                }
            }
        };
        tokio::select! {
            why = probe => why,
            _ = task.join() => "the connection ended".to_owned(),
        }
    }

    fn tell(&self, news: FleetNews) {
        // Nobody listens only while the subscription is being dropped.
        let _ = self.told.send(news);
    }
}
