//! What each node said of the cluster when it was last asked, and whom to ask next. Never asks.
//!
//! A full refresh asks every node, and costs them and us the more the larger the cluster is. While
//! refreshes follow each other closely, as they do while degraded, most are partial: a node or two,
//! by turns, that were not late the last time. What the others said before still counts: a claim
//! that was lost since has the lower epoch ([`super::view`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::view::{MergedView, View, merge};
use crate::store::cluster::address::NodeAddress;
use crate::store::cluster::node::Node;

/// Between two full refreshes at least, but for one that follows a change.
const FULL_GAP_MIN: Duration = Duration::from_millis(500);
/// Nodes that are asked in a partial refresh: one may be cut off from the others.
const PARTIAL: usize = 2;

/// The views of the nodes that can be asked.
#[derive(Debug, Default)]
pub(super) struct Views {
    views: BTreeMap<NodeAddress, View>,
    full_at: Option<Instant>,
    /// Whether the last refresh left others to be asked soon.
    full_is_due: bool,
    turn: usize,
}

/// Whom a refresh asks.
pub(super) struct RefreshPlan {
    pub nodes: Vec<Arc<Node>>,
    /// Whether it is all of them, or as many as are ever asked.
    pub is_full: bool,
}

impl Views {
    /// Those of the connected nodes `up` that are asked now, at most `views_max`. Views of nodes
    /// that are not connected any more are forgotten.
    pub fn plan_refresh(&mut self, up: &[Arc<Node>], views_max: usize) -> RefreshPlan {
        self.views
            .retain(|address, _| up.iter().any(|node| node.address() == address));
        let is_full = self.views.is_empty() || self.full_in().is_zero();
        let mut nodes = up.to_vec();
        nodes.sort_by(|a, b| a.address().cmp(b.address()));
        let count = nodes.len().max(1);
        nodes.rotate_left(self.turn % count);
        if is_full {
            self.full_at = Some(Instant::now());
            nodes.truncate(views_max);
        } else {
            nodes.sort_by_key(|node| node.is_late());
            nodes.truncate(views_max.min(PARTIAL));
        }
        self.full_is_due = !is_full;
        self.turn = (self.turn + nodes.len()) % count;
        RefreshPlan { nodes, is_full }
    }

    /// When the next refresh may be a full one.
    fn full_in(&self) -> Duration {
        let since = self.full_at.map(|at| at.elapsed());
        since.map_or(Duration::ZERO, |since| FULL_GAP_MIN.saturating_sub(since))
    }

    /// When a full refresh must follow, if one must.
    pub fn full_refresh_due_in(&self) -> Option<Duration> {
        self.full_is_due.then(|| self.full_in())
    }

    /// Takes in what nodes say now; whether any says something that it didn't say before.
    pub fn update(&mut self, said: Vec<View>) -> bool {
        let mut is_new = false;
        for view in said {
            if self.views.get(&view.of) != Some(&view) {
                is_new = true;
                self.views.insert(view.of.clone(), view);
            }
        }
        if is_new {
            // The others have heard it too by now, or are about to.
            (self.full_at, self.full_is_due) = (None, true);
        }
        is_new
    }

    /// What all say together.
    pub fn merged(&self) -> MergedView {
        merge(self.views.values())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Pool;
    use super::super::view::Claim;
    use super::*;
    use crate::store::cluster::node::connector::Connector;
    use crate::store::cluster::options::ClusterOptions;

    const VIEWS_MAX: usize = 7;

    fn at(name: &str) -> NodeAddress {
        NodeAddress::new(&format!("{name}.invalid"), 1)
    }

    fn nodes(names: &[&str]) -> Vec<Arc<Node>> {
        let options = ClusterOptions::from_url("redis://a.invalid:1").unwrap();
        let pool = Pool::new(Arc::new(Connector::new(options).unwrap()));
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

    fn names(asked: &RefreshPlan) -> Vec<String> {
        let names = asked.nodes.iter().map(|node| node.address().to_string());
        names.map(|name| name.replace(".invalid:1", "")).collect()
    }

    /// A full refresh that says what was known.
    fn refresh_fully(views: &mut Views, nodes: &[Arc<Node>]) {
        loop {
            let asked = views.plan_refresh(nodes, VIEWS_MAX);
            let says = |node: &Arc<Node>| View {
                of: node.address().clone(),
                ..view("", "a", 1)
            };
            if !views.update(asked.nodes.iter().map(says).collect()) {
                return;
            }
        }
    }

    #[tokio::test]
    async fn after_a_full_refresh_come_partial_ones_by_turns_and_a_full_one_is_due() {
        let (nodes, mut views) = (nodes(&["a", "b", "c", "d"]), Views::default());
        let first = views.plan_refresh(&nodes, VIEWS_MAX);
        assert!(first.is_full && first.nodes.len() == 4);
        refresh_fully(&mut views, &nodes);
        assert_eq!(views.full_refresh_due_in(), None);
        let mut asked = Vec::new();
        for _ in 0..2 {
            let partial = views.plan_refresh(&nodes, VIEWS_MAX);
            assert!(!partial.is_full && partial.nodes.len() == PARTIAL);
            asked.extend(names(&partial));
        }
        asked.sort();
        assert_eq!(asked, ["a", "b", "c", "d"]);
        assert!(
            views
                .full_refresh_due_in()
                .is_some_and(|wait| wait <= FULL_GAP_MIN)
        );
    }

    #[tokio::test]
    async fn a_node_that_was_late_is_not_waited_for_in_a_partial_refresh() {
        let (nodes, mut views) = (nodes(&["a", "b", "c"]), Views::default());
        refresh_fully(&mut views, &nodes);
        nodes[1].replace_late(true);
        for _ in 0..3 {
            let partial = views.plan_refresh(&nodes, VIEWS_MAX);
            assert!(!names(&partial).contains(&"b".to_owned()));
        }
    }

    #[tokio::test]
    async fn one_nodes_news_outweigh_what_the_others_said_before_and_are_followed_up() {
        let (nodes, mut views) = (nodes(&["a", "b", "c"]), Views::default());
        refresh_fully(&mut views, &nodes);
        views.plan_refresh(&nodes, VIEWS_MAX);
        assert!(!views.update(vec![view("c", "a", 1)]));
        assert!(views.update(vec![view("c", "b", 2)]));
        let merged = views.merged();
        assert_eq!(merged.shards.len(), 1);
        assert_eq!(merged.shards[0].primary, at("b"));
        assert_eq!(views.full_refresh_due_in(), Some(Duration::ZERO));
        assert!(views.plan_refresh(&nodes, VIEWS_MAX).is_full);
    }

    #[tokio::test]
    async fn a_node_that_is_gone_has_no_say_any_more() {
        let (nodes, mut views) = (nodes(&["a", "b", "c"]), Views::default());
        refresh_fully(&mut views, &nodes);
        views.update(vec![view("c", "c", 9)]);
        views.plan_refresh(&nodes[..2], VIEWS_MAX);
        assert_eq!(views.merged().shards[0].primary, at("a"));
    }
}
