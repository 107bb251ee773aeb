//! What a scenario runs on: a cluster of its own, or one that the user named. On the latter it
//! does nothing that loses data or availability beyond what a client could do by accident.

use std::net::SocketAddr;

use crate::cluster::{
    ClusterError, ClusterKind, ClusterSpec, ClusterUnderTest, ClusterView, NodeClient,
};
use crate::oracle::ShardMap;
use crate::resp::Reply;
use tidegate::store::cluster::{StoreUrl, StoreUrlError};

/// Against what chaos runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    /// Clusters that it starts and ends itself; of the kind that suits this machine when none is
    /// named.
    Own(Option<ClusterKind>),
    /// A cluster or a server that the user named, as `--redis` takes it.
    Url(String),
}

impl std::fmt::Display for Against {
    /// As reports name it; a URL without its password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Against::Own(Some(ClusterKind::Containers)) => f.write_str("containers"),
            Against::Own(Some(ClusterKind::Processes)) => f.write_str("processes"),
            Against::Own(None) => f.write_str("auto"),
            Against::Url(url) => {
                let Ok(url) = StoreUrl::parse(url) else {
                    return f.write_str("a malformed URL");
                };
                let seeds: Vec<_> = url.seeds().iter().map(ToString::to_string).collect();
                f.write_str(&seeds.join(","))
            }
        }
    }
}

/// Why there is nothing to run on.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The cluster can't be started, seen or hurt.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The URL is none.
    #[error(transparent)]
    Url(#[from] StoreUrlError),
    /// The URL is one that chaos can't use.
    #[error("chaos can't run against {0}: {1}")]
    Unusable(String, String),
}

/// What a scenario runs on.
#[derive(Debug)]
pub(super) struct Environment {
    /// As reports name it.
    pub(super) name: String,
    /// As `--redis` takes it.
    pub(super) redis_url: String,
    /// Which shard serves what.
    pub(super) shards: ShardMap,
    client: NodeClient,
    own: Option<ClusterUnderTest>,
}

impl Environment {
    /// Starts a cluster, or looks at the one that was named.
    pub(super) async fn prepare(
        against: &Against,
        spec: ClusterSpec,
    ) -> Result<Self, EnvironmentError> {
        let kind = match against {
            Against::Url(url) => return Self::external(url).await,
            Against::Own(kind) => *kind,
        };
        let cluster = ClusterUnderTest::start(match kind {
            Some(kind) => spec.kind(kind),
            None => spec,
        });
        let cluster = cluster.await?;
        let primaries = (cluster.node_count() / 2).max(1);
        Ok(Self {
            name: Against::Own(Some(cluster.kind())).to_string(),
            redis_url: cluster.redis_url(),
            shards: ShardMap::equal(u16::try_from(primaries).unwrap_or(1)),
            client: cluster.client().clone(),
            own: Some(cluster),
        })
    }

    async fn external(text: &str) -> Result<Self, EnvironmentError> {
        let url = StoreUrl::parse(text)?;
        let name = Against::Url(text.to_owned()).to_string();
        let unusable = |why: &str| EnvironmentError::Unusable(name.clone(), why.to_owned());
        if url.tls {
            return Err(unusable("chaos doesn't speak TLS; name a redis:// address"));
        }
        let seed = url
            .seeds()
            .first()
            .ok_or_else(|| unusable("it names no server"))?;
        let resolved = tokio::net::lookup_host((seed.host(), seed.port())).await;
        let mut resolved = resolved.map_err(|error| unusable(&error.to_string()))?;
        let address = resolved.next();
        let mut environment = Self {
            client: NodeClient {
                addresses: vec![address.ok_or_else(|| unusable("its name has no address"))?],
                user: url.credentials.user.clone(),
                password: url.credentials.password.clone(),
            },
            name: name.clone(),
            redis_url: text.to_owned(),
            shards: ShardMap::equal(1),
            own: None,
        };
        if let Ok(reply) = environment.run(0, &["CLUSTER", "NODES"]).await {
            let nodes = numbered(reply.text().unwrap_or_default());
            let nodes = nodes.ok_or_else(|| unusable("CLUSTER NODES can't be read"))?;
            (environment.client.addresses, environment.shards) = nodes;
        }
        Ok(environment)
    }

    /// The cluster, if it is our own: what may be killed.
    pub(super) fn own(&self) -> Option<&ClusterUnderTest> {
        self.own.as_ref()
    }

    pub(super) fn node_count(&self) -> usize {
        self.client.addresses.len()
    }

    /// Runs one command on one node.
    pub(super) async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, ClusterError> {
        self.client.run(node, args).await
    }

    /// The replica of a shard, by node; `None` when it has none.
    pub(super) async fn replica_of(&self, shard: usize) -> Result<Option<usize>, ClusterError> {
        let view = self.client.view(shard).await?;
        let primary = view.node(shard);
        Ok(primary.and_then(|primary| view.replicas_of(primary).find_map(|replica| replica.node)))
    }

    /// The server's name and version: `Redis 7.0.15`.
    pub(super) async fn server(&self) -> Result<String, ClusterError> {
        let info = self.run(0, &["INFO", "server"]).await?;
        let fields = info.text().unwrap_or_default().lines();
        let fields: Vec<_> = fields
            .filter_map(|line| line.trim().split_once(':'))
            .collect();
        let version = [("valkey_version", "Valkey"), ("redis_version", "Redis")]
            .into_iter()
            .find_map(|(field, name)| {
                let (_, version) = fields.iter().find(|(key, _)| *key == field)?;
                Some(format!("{name} {version}"))
            });
        Ok(version.unwrap_or_else(|| "a server that doesn't say its version".to_owned()))
    }
}

/// The nodes that `CLUSTER NODES` lists, and what they serve: primaries by their first slot, then
/// everyone else.
fn numbered(text: &str) -> Option<(Vec<SocketAddr>, ShardMap)> {
    let addresses = text.lines().filter_map(|line| {
        let address = line.split(' ').nth(1)?.split('@').next()?;
        address.parse::<SocketAddr>().ok()
    });
    let unordered: Vec<_> = addresses.collect();
    let view = ClusterView::parse(text, &unordered)?;
    let mut known: Vec<_> = view
        .nodes
        .iter()
        .filter(|node| node.node.is_some())
        .collect();
    known.sort_by_key(|node| {
        let first = node.slots.iter().map(|range| *range.start()).min();
        (first.is_none(), first)
    });
    let indexes = known.iter().filter_map(|node| node.node);
    let addresses: Vec<_> = indexes
        .filter_map(|node| unordered.get(node).copied())
        .collect();
    let serving = known.iter().filter(|node| !node.slots.is_empty());
    let shards = ShardMap::of(serving.map(|node| node.slots.clone()).collect());
    (!addresses.is_empty()).then_some((addresses, shards))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_cluster_is_numbered_by_its_slots() {
        let line = |id: char, port: u16, rest: &str| {
            format!(
                "{} 127.0.0.1:{port}@1{port} {rest}\n",
                id.to_string().repeat(40)
            )
        };
        let replica = format!("slave {} 0 0 1 connected", "b".repeat(40));
        let text = [
            line('a', 7003, &replica),
            line('b', 7002, "myself,master - 0 0 2 connected 8000-16383"),
            line('c', 7001, "master - 0 0 1 connected 0-7999"),
        ]
        .concat();
        let (addresses, shards) = numbered(&text).unwrap();
        let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [7001, 7002, 7003]);
        // foo is in slot 12182, hello in 866.
        assert_eq!(shards.shard_of("foo"), 1);
        assert_eq!(shards.shard_of("hello"), 0);
    }

    #[test]
    fn a_report_never_shows_a_password() {
        let against = Against::Url("redis://u:s3cret@127.0.0.1:7000".into());
        assert!(!against.to_string().contains("s3cret"), "{against}");
    }
}
