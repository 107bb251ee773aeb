//! Keeps the slot table right, and says who serves a slot.
//!
//! The table is read anew periodically, when a connection comes or goes, and when a node says
//! that it is wrong; however many ask, one reading runs at a time, and never sooner than a gap
//! after the last. Never waits on behalf of a call.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::address::NodeAddress;
use super::fault::Redirect;
use super::guard::{Owned, keep_running};
use super::heard::{Asked, Heard};
use super::node::Node;
use super::pool::Pool;
use super::preflight::disputed_key;
use super::reading;
use super::shared::Shared;
use super::table::Table;
use crate::model::Slot;
use crate::store::{Readiness, ShardEvent, ShardId, SlotRanges};

/// The longest pause between readings in trouble; it grows with the trouble's age.
const TROUBLE_PERIOD_MAX: Duration = Duration::from_secs(1);
/// A trouble's age divided by this is the pause between its readings.
const TROUBLE_AGE_PARTS: u32 = 100;

/// The slot table and who keeps it.
pub(super) struct Router {
    shared: Arc<Shared>,
    pool: Pool,
    table: ArcSwap<Table>,
    told: Mutex<Told>,
    /// For the one reading that runs at a time.
    heard: Mutex<Heard>,
    /// Whether every slot was once served by a connected node.
    warmed: AtomicBool,
}

/// What was told of shards.
#[derive(Default)]
struct Told {
    /// Promotions that a node's word announced before the table had them.
    promoted: HashMap<ShardId, NodeAddress>,
    lost: HashSet<ShardId>,
    /// Why the last reading brought no view at all.
    unread: Option<String>,
}

impl Router {
    /// Begins to connect to the seeds.
    pub fn start(shared: Arc<Shared>) -> (Arc<Self>, Owned<()>) {
        let router = Arc::new(Router {
            pool: Pool::new(Arc::clone(&shared)),
            shared,
            table: ArcSwap::from_pointee(Table::unknown()),
            told: Mutex::default(),
            heard: Mutex::default(),
            warmed: AtomicBool::new(false),
        });
        router.pool.start_seeds();
        let kept = Arc::downgrade(&router);
        let keeper = keep_running("slot table".into(), move || {
            let router = kept.clone();
            async move {
                match router.upgrade() {
                    Some(router) => router.run().await,
                    None => std::future::pending().await,
                }
            }
        });
        (router, keeper)
    }

    pub fn table(&self) -> arc_swap::Guard<Arc<Table>> {
        self.table.load()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self) {
        let mut trouble: Option<Instant> = Some(Instant::now());
        loop {
            let owed_in = self.heard().owed_in();
            let period = self.period(trouble).min(owed_in.unwrap_or(Duration::MAX));
            tokio::select! {
                () = self.shared.refresh.notified() => {}
                () = tokio::time::sleep(period) => {}
            }
            self.refresh().await;
            let is_troubled = self.shared.is_in_doubt() || self.trouble().is_some();
            trouble = is_troubled.then(|| trouble.unwrap_or_else(Instant::now));
            tokio::time::sleep(self.shared.options.refresh_gap_min).await;
        }
    }

    fn period(&self, trouble: Option<Instant>) -> Duration {
        let options = &self.shared.options;
        let Some(since) = trouble else {
            return options.refresh_period;
        };
        let longest = TROUBLE_PERIOD_MAX.min(options.refresh_period);
        let shortest = options.refresh_period_in_trouble.min(longest);
        (since.elapsed() / TROUBLE_AGE_PARTS).clamp(shortest, longest)
    }

    /// Reads the table anew, from nodes that can be asked.
    async fn refresh(&self) {
        let up: Vec<_> = self.pool.all().into_iter().filter(|n| n.is_up()).collect();
        if up.is_empty() {
            // Perhaps all that we knew has gone elsewhere.
            self.pool.start_seeds();
            self.tell_lost_and_found();
            return;
        }
        if up.iter().any(|node| node.info().cluster == Some(false)) {
            self.refresh_single(&up).await;
        } else {
            let views_max = self.shared.options.views_per_refresh_max;
            let asked = self.heard().whom_to_ask(&up, views_max);
            self.refresh_cluster(asked).await;
        }
        self.tell_lost_and_found();
        if !self.warmed.load(Ordering::Relaxed) && self.trouble().is_none() {
            self.warm().await;
        }
    }

    /// The last test before the store is ready.
    async fn warm(&self) {
        let node = self
            .table
            .load()
            .shards
            .first()
            .map(|s| Arc::clone(&s.primary));
        let prefix = &self.shared.options.key_prefix;
        let disputed = match node {
            Some(node) if node.info().cluster != Some(false) => disputed_key(prefix, &node).await,
            _ => None,
        };
        let disputed = disputed.map(|key| format!("the servers reckon another slot for {key}"));
        if disputed.is_none() {
            self.warmed.store(true, Ordering::Release);
            let shards = self.table.load().shards.len();
            tracing::info!(shards, "the store is ready");
            self.shared.changed.notify_waiters();
        }
        self.told().unread = disputed;
    }

    /// Every node.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.pool.all()
    }

    async fn refresh_single(&self, up: &[Arc<Node>]) {
        let primary = reading::primary_of(up).await;
        let before = self.table.load();
        let known = before
            .shards
            .first()
            .map(|shard| shard.primary.address().clone());
        let Some(node) = primary.filter(|node| known.as_ref() != Some(node.address())) else {
            return;
        };
        // Of single servers any may become the primary: all that were named stay.
        let seeds = self.shared.options.url.seeds.iter().cloned().collect();
        self.install(Table::single(node), seeds);
    }

    async fn refresh_cluster(&self, asked: Asked) {
        let (mut views, mut why) = (Vec::new(), None);
        for view in reading::views_of(&asked.nodes).await {
            match view {
                Ok(view) => views.push(view),
                Err(fault) => why = Some(fault),
            }
        }
        self.told().unread = why.filter(|_| views.is_empty());
        let is_news = self.heard().hear(views);
        if !is_news && !asked.is_whole {
            return;
        }
        let mut merged = self.heard().merged();
        if merged.shards.is_empty() {
            return;
        }
        let map = &self.shared.options.address_map;
        for shard in &mut merged.shards {
            shard.primary = map.reach(shard.primary.clone());
            for replica in &mut shard.replicas {
                *replica = map.reach(replica.clone());
            }
        }
        let before = self.table.load_full();
        let table = Table::clustered(&merged, &before, |at| self.pool.get_or_start(at));
        self.install(table, HashSet::new());
    }

    /// Tells what is new in a table, then has calls follow it. Nodes that are neither in it nor
    /// among `others` are let go.
    fn install(&self, table: Table, others: HashSet<NodeAddress>) {
        let before = self.table.load_full();
        let news = table.news_since(&before);
        let is_new = !news.is_empty();
        let mut told = self.told();
        for event in news {
            let early = match &event {
                ShardEvent::Promoted { shard, to, .. } => told
                    .promoted
                    .remove(shard)
                    .is_some_and(|node| node.to_string() == *to),
                _ => false,
            };
            if !early {
                self.shared.tell(event);
            }
        }
        drop(told);
        let mut known = others;
        known.extend(table.nodes().map(|node| node.address().clone()));
        self.table.store(Arc::new(table));
        if is_new {
            self.shared.recoveries.fetch_add(1, Ordering::Relaxed);
        }
        self.pool.keep_only(&known);
        self.shared.changed.notify_waiters();
    }

    /// Takes a node's word for one slot, and has the rest read anew. Returns who serves it.
    pub fn moved(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        let to = self.shared.options.address_map.reach(redirect.to.clone());
        let table = self.table.load();
        if let Some(shard) = table.shard_of_replica(&to) {
            self.tell_promoted(&table, shard, &to);
        } else if table
            .owner(redirect.slot)
            .is_none_or(|owner| *owner.address() != to)
        {
            // A migration, or a promotion of a node that we don't know as a replica yet: to put
            // back what is there anyway does no harm.
            let slot = SlotRanges::from_ascending([redirect.slot]);
            self.shared.repair.promoted(&slot);
        }
        if let Some(shard) = table.correct(redirect.slot, &to) {
            let slots = SlotRanges::from_ascending([redirect.slot]);
            self.shared.tell(ShardEvent::Moved { shard, slots });
        }
        self.shared.refresh.notify_one();
        self.pool.get_or_start(&to)
    }

    /// Who takes a slot's calls while it moves: the owner stays who it is.
    pub fn asked(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        let to = self.shared.options.address_map.reach(redirect.to.clone());
        self.pool.get_or_start(&to)
    }

    /// A redirect to a replica means that it was promoted: who replays a journal must know before
    /// the next charge goes there, not at the next reading.
    fn tell_promoted(&self, table: &Table, shard: ShardId, to: &NodeAddress) {
        let Some(from) = table.shards.iter().find(|s| s.id == shard) else {
            return;
        };
        if self.told().promoted.insert(shard, to.clone()).as_ref() == Some(to) {
            return;
        }
        self.shared.tell(ShardEvent::Promoted {
            shard,
            slots: table.slots_of(shard),
            from: from.primary.address().to_string(),
            to: to.to_string(),
        });
    }

    fn tell_lost_and_found(&self) {
        let table = self.table.load();
        let mut told = self.told();
        for shard in &table.shards {
            let (id, up) = (shard.id, shard.primary.is_up());
            if !up && told.lost.insert(id) {
                self.shared.tell(ShardEvent::Lost { shard: id });
            } else if up && told.lost.remove(&id) {
                self.shared.tell(ShardEvent::Found { shard: id });
                self.shared.recoveries.fetch_add(1, Ordering::Relaxed);
            }
        }
        told.lost
            .retain(|id| table.shards.iter().any(|shard| shard.id == *id));
    }

    /// What keeps some slot from being served; nothing when all is well.
    fn trouble(&self) -> Option<String> {
        let table = self.table.load();
        if table.shards.is_empty() {
            return Some(self.why_unknown());
        }
        match table.unserved() {
            0 => {}
            1 => return Some("1 slot is served by no node".into()),
            n => return Some(format!("{n} slots are served by no node")),
        }
        table
            .shards
            .iter()
            .find_map(|shard| why_down(&shard.primary))
    }

    fn why_unknown(&self) -> String {
        let nodes = self.pool.all();
        let mut down: Vec<_> = nodes.iter().filter_map(why_down).collect();
        down.sort();
        let unread = self.told().unread.clone();
        let why = unread.or_else(|| down.first().cloned());
        why.unwrap_or_else(|| "no node knows who serves which slot".into())
    }

    /// Before the first moment in which every slot was served by a connected node, what is
    /// missing. Later, only that no primary at all can be reached: one shard's trouble is no
    /// reason to send the other shards' callers away.
    pub fn readiness(&self) -> Readiness {
        if !self.warmed.load(Ordering::Acquire) {
            let unread = || self.told().unread.clone();
            let trouble = self.trouble().or_else(unread);
            return Readiness::NotReady(trouble.unwrap_or_else(|| "not warmed up yet".into()));
        }
        let table = self.table.load();
        match table.shards.iter().any(|shard| shard.primary.is_up()) {
            true => Readiness::Ready,
            false => Readiness::NotReady(self.trouble().unwrap_or_else(|| self.why_unknown())),
        }
    }

    /// The last reason why nothing can be reached, for a call that finds no node at all.
    pub fn failure(&self) -> Option<super::link::LinkFailure> {
        let nodes = self.pool.all();
        nodes.iter().find_map(|node| node.failure())
    }

    /// The shard of a slot.
    pub fn shard_of(&self, slot: Slot) -> ShardId {
        self.table.load().shard_of(slot)
    }
}

fn why_down(node: &Arc<Node>) -> Option<String> {
    node.failure()
        .map(|failure| format!("{}: {}", node.address(), failure.why))
}
