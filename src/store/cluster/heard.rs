//! What each node said of the cluster when it was last asked, and whom to ask next. Never asks.
//!
//! A whole reading asks every node, and costs them and us the more the larger the cluster is. While
//! readings follow each other closely, as they do in trouble, most are glances: a node or two, by
//! turns, that were not late the last time. What the others said before still counts: a claim that
//! was lost since has the lower epoch ([`super::view`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::address::NodeAddress;
use super::node::Node;
use super::view::{Merged, View, merge};

/// Between two whole readings at least, but for one that follows news.
const WHOLE_GAP_MIN: Duration = Duration::from_millis(500);
/// Nodes that are asked in a glance: one may be cut off from the others.
const GLANCED: usize = 2;

/// The views of the nodes that can be asked.
#[derive(Default)]
pub(super) struct Heard {
    views: BTreeMap<NodeAddress, View>,
    whole_at: Option<Instant>,
    /// Whether the last reading left others to be asked soon.
    owes_whole: bool,
    turn: usize,
}

/// Whom a reading asks.
pub(super) struct Asked {
    pub nodes: Vec<Arc<Node>>,
    /// Whether it is all of them, or as many as are ever asked.
    pub is_whole: bool,
}

impl Heard {
    /// Those of the connected nodes `up` that are asked now, at most `views_max`. Views of nodes
    /// that are not connected any more are forgotten.
    pub fn whom_to_ask(&mut self, up: &[Arc<Node>], views_max: usize) -> Asked {
        self.views
            .retain(|address, _| up.iter().any(|node| node.address() == address));
        let is_whole = self.views.is_empty() || self.whole_in().is_zero();
        let mut nodes = up.to_vec();
        nodes.sort_by(|a, b| a.address().cmp(b.address()));
        let count = nodes.len().max(1);
        nodes.rotate_left(self.turn % count);
        if is_whole {
            self.whole_at = Some(Instant::now());
            nodes.truncate(views_max);
        } else {
            nodes.sort_by_key(|node| node.is_late());
            nodes.truncate(views_max.min(GLANCED));
        }
        self.owes_whole = !is_whole;
        self.turn = (self.turn + nodes.len()) % count;
        Asked { nodes, is_whole }
    }

    /// When the next reading may be a whole one.
    fn whole_in(&self) -> Duration {
        let since = self.whole_at.map(|at| at.elapsed());
        since.map_or(Duration::ZERO, |since| WHOLE_GAP_MIN.saturating_sub(since))
    }

    /// When a whole reading must follow, if one must.
    pub fn owed_in(&self) -> Option<Duration> {
        self.owes_whole.then(|| self.whole_in())
    }

    /// Takes in what nodes say now; whether any says something that it didn't say before.
    pub fn hear(&mut self, said: Vec<View>) -> bool {
        let mut is_news = false;
        for view in said {
            if self.views.get(&view.of) != Some(&view) {
                is_news = true;
                self.views.insert(view.of.clone(), view);
            }
        }
        if is_news {
            // The others have heard it too by now, or are about to.
            (self.whole_at, self.owes_whole) = (None, true);
        }
        is_news
    }

    /// What all say together.
    pub fn merged(&self) -> Merged {
        merge(self.views.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::cluster::ClusterOptions;
    use crate::store::cluster::pool::Pool;
    use crate::store::cluster::shared::Shared;
    use crate::store::cluster::view::Claim;

    const VIEWS_MAX: usize = 7;

    fn at(name: &str) -> NodeAddress {
        NodeAddress::new(&format!("{name}.invalid"), 1)
    }

    fn nodes(names: &[&str]) -> Vec<Arc<Node>> {
        let options = ClusterOptions::from_url("redis://a.invalid:1").unwrap();
        let pool = Pool::new(Arc::new(Shared::new(options).unwrap()));
        let node = |name: &&str| pool.get_or_start(&at(name)).unwrap();
        names.iter().map(node).collect()
    }

    /// `of` says that `primary` has all slots.
    fn view(of: &str, primary: &str, epoch: u64) -> View {
        let claim = Claim {
            id: primary.into(),
            primary: at(primary),
            replicas: Vec::new(),
            epoch,
            slots: vec![0..=16_383],
        };
        View {
            of: at(of),
            claims: vec![claim],
        }
    }

    fn names(asked: &Asked) -> Vec<String> {
        let names = asked.nodes.iter().map(|node| node.address().to_string());
        names.map(|name| name.replace(".invalid:1", "")).collect()
    }

    /// A whole reading that says what was known.
    fn read_whole(heard: &mut Heard, nodes: &[Arc<Node>]) {
        loop {
            let asked = heard.whom_to_ask(nodes, VIEWS_MAX);
            let says = |node: &Arc<Node>| View {
                of: node.address().clone(),
                ..view("", "a", 1)
            };
            if !heard.hear(asked.nodes.iter().map(says).collect()) {
                return;
            }
        }
    }

    #[tokio::test]
    async fn after_a_whole_reading_come_glances_by_turns_and_a_whole_one_is_owed() {
        let (nodes, mut heard) = (nodes(&["a", "b", "c", "d"]), Heard::default());
        let first = heard.whom_to_ask(&nodes, VIEWS_MAX);
        assert!(first.is_whole && first.nodes.len() == 4);
        read_whole(&mut heard, &nodes);
        assert_eq!(heard.owed_in(), None);
        let mut asked = Vec::new();
        for _ in 0..2 {
            let glance = heard.whom_to_ask(&nodes, VIEWS_MAX);
            assert!(!glance.is_whole && glance.nodes.len() == GLANCED);
            asked.extend(names(&glance));
        }
        asked.sort();
        assert_eq!(asked, ["a", "b", "c", "d"]);
        assert!(heard.owed_in().is_some_and(|wait| wait <= WHOLE_GAP_MIN));
    }

    #[tokio::test]
    async fn a_node_that_was_late_is_not_waited_for_in_a_glance() {
        let (nodes, mut heard) = (nodes(&["a", "b", "c"]), Heard::default());
        read_whole(&mut heard, &nodes);
        nodes[1].was_late(true);
        for _ in 0..3 {
            let glance = heard.whom_to_ask(&nodes, VIEWS_MAX);
            assert!(!names(&glance).contains(&"b".to_owned()));
        }
    }

    #[tokio::test]
    async fn one_nodes_news_outweigh_what_the_others_said_before_and_are_followed_up() {
        let (nodes, mut heard) = (nodes(&["a", "b", "c"]), Heard::default());
        read_whole(&mut heard, &nodes);
        heard.whom_to_ask(&nodes, VIEWS_MAX);
        assert!(!heard.hear(vec![view("c", "a", 1)]));
        assert!(heard.hear(vec![view("c", "b", 2)]));
        let merged = heard.merged();
        assert_eq!(merged.shards.len(), 1);
        assert_eq!(merged.shards[0].primary, at("b"));
        assert_eq!(heard.owed_in(), Some(Duration::ZERO));
        assert!(heard.whom_to_ask(&nodes, VIEWS_MAX).is_whole);
    }

    #[tokio::test]
    async fn a_node_that_is_gone_has_no_say_any_more() {
        let (nodes, mut heard) = (nodes(&["a", "b", "c"]), Heard::default());
        read_whole(&mut heard, &nodes);
        heard.hear(vec![view("c", "c", 9)]);
        heard.whom_to_ask(&nodes[..2], VIEWS_MAX);
        assert_eq!(heard.merged().shards[0].primary, at("a"));
    }
}
