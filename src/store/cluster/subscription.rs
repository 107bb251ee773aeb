//! Keeps a subscription to a channel: on the node that owns its slot, over a connection of its own.
//!
//! Never carries a call: a connection with subscribers on it may fall behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::node::Node;
use super::node::connector::{ConnectionTask, Connector};
use super::node::error::CommandError;
use super::node::error_reply::{ErrorCode, ErrorReply};
use super::supervise::{AbortOnDrop, supervise};
use super::topology::Topology;
use crate::model::Slot;
use crate::store::membership::{Announcement, Subscription};

/// Between a lost subscription and the next attempt.
const RETRY_WAIT: Duration = Duration::from_millis(50);
/// How often it is checked that the channel's slot is still where it is subscribed.
const OWNER_PERIOD: Duration = Duration::from_millis(100);

/// A subscription to all announcements of the nodes that share a cluster and a key prefix. One that
/// falls behind by more than `events_len_max` loses the oldest, and is told so. Ends when this is
/// dropped.
#[derive(Debug)]
pub struct ClusterSubscription {
    announcements: broadcast::Receiver<Announcement>,
    _task: AbortOnDrop<()>,
}

impl ClusterSubscription {
    pub(super) fn start(
        connector: &Arc<Connector>,
        topology: &Arc<Topology>,
        channel: String,
    ) -> Self {
        let (sender, announcements) = broadcast::channel(connector.options.events_len_max);
        let subscriber = Arc::new(Subscriber {
            connector: Arc::clone(connector),
            topology: Arc::clone(topology),
            channel,
            sender,
        });
        let task = supervise("subscription".into(), move || {
            let subscriber = Arc::clone(&subscriber);
            async move { subscriber.run().await }
        });
        ClusterSubscription {
            announcements,
            _task: task,
        }
    }
}

impl Subscription for ClusterSubscription {
    async fn next(&mut self) -> Announcement {
        match self.announcements.recv().await {
            Ok(announcement) => announcement,
            Err(RecvError::Lagged(_)) => Announcement::Missed,
            // The task holds the other end for as long as we live.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

struct Subscriber {
    connector: Arc<Connector>,
    topology: Arc<Topology>,
    channel: String,
    sender: broadcast::Sender<Announcement>,
}

impl Subscriber {
    async fn run(&self) {
        let mut last_why = String::new();
        loop {
            let why = match self.owner() {
                Some(node) => self.subscribe_at(&node).await,
                None => "its slot is served by no node".to_owned(),
            };
            if why != last_why {
                tracing::warn!(channel = self.channel, why, "not subscribed");
                last_why = why;
            }
            tokio::time::sleep(RETRY_WAIT).await;
        }
    }

    fn owner(&self) -> Option<Arc<Node>> {
        let slot = Slot::of(self.channel.as_bytes());
        self.topology.slot_map().owner(slot).cloned()
    }

    /// Subscribes until that can't go on, and says why.
    async fn subscribe_at(&self, node: &Arc<Node>) -> String {
        let client = self.connector.subscriber(node.address());
        let mut task = match self.connector.connect(&client).await {
            Ok(task) => task,
            Err(error) => return error.detail,
        };
        let mut messages = client.message_rx();
        let subscribed = client.ssubscribe(self.channel.as_str());
        if let Err(error) = subscribed.await {
            let error = CommandError::from_fred(&error, node.address());
            if let CommandError::Reply(ErrorReply {
                code: ErrorCode::Moved(redirect),
                ..
            }) = &error
            {
                self.topology.follow_moved(redirect);
            }
            return error.describe(node.address());
        }
        tracing::debug!(channel = self.channel, node = %node.address(), "subscribed");
        self.send(Announcement::Missed);
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => {
                        let bytes = message.value.as_bytes().unwrap_or_default();
                        self.send(Announcement::Message(bytes.into()));
                    }
                    Err(RecvError::Lagged(_)) => self.send(Announcement::Missed),
                    Err(RecvError::Closed) => return "the connection was closed".into(),
                },
                why = self.until_it_ends(node, &client, &mut task) => return why,
            }
        }
    }

    /// Ends when the connection does, falls silent, or another node owns the slot.
    ///
    /// Cancel safe: begun anew after each message, which is as good as an answered probe.
    async fn until_it_ends(
        &self,
        node: &Node,
        client: &Client,
        task: &mut ConnectionTask,
    ) -> String {
        let silence_max = self.connector.options.silence_max;
        let probe = async {
            let mut probed = Instant::now();
            loop {
                tokio::time::sleep(OWNER_PERIOD).await;
                if self
                    .owner()
                    .is_some_and(|owner| owner.address() != node.address())
                {
                    return "the channel moved".to_owned();
                }
                if probed.elapsed() < self.connector.options.probe_period {
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

    fn send(&self, announcement: Announcement) {
        // Nobody receives it only while the subscription is being dropped.
        let _ = self.sender.send(announcement);
    }
}
