//! What a scenario runs on: a cluster of its own, or one that the user named. On the latter it
//! does nothing that loses data or availability beyond what a client could do by accident.

use std::net::SocketAddr;
use std::time::Duration;

use crate::cluster::{ClusterError, ClusterKind, ClusterOptions, ClusterUnderTest, ClusterView};
use crate::oracle::ShardMap;
use crate::resp::{Connection, Reply};
use tidegate::store::cluster::{StoreUrl, StoreUrlError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

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
pub enum GroundError {
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

/// A server that chaos did not start.
#[derive(Debug)]
pub struct Foreign {
    url: String,
    password: Option<(Option<String>, String)>,
    addresses: Vec<SocketAddr>,
    shards: ShardMap,
}

/// What a scenario runs on.
#[derive(Debug)]
pub enum Ground {
    /// A cluster of its own.
    Own(Box<ClusterUnderTest>),
    /// Somebody else's.
    Foreign(Foreign),
}

impl Ground {
    /// Starts a cluster, or looks at the one that was named.
    ///
    /// # Errors
    /// When it can't be started or reached.
    pub async fn prepare(against: &Against, options: ClusterOptions) -> Result<Self, GroundError> {
        match against {
            Against::Own(kind) => {
                let options = match kind {
                    Some(kind) => options.kind(*kind),
                    None => options,
                };
                let cluster = ClusterUnderTest::start(options).await?;
                Ok(Ground::Own(Box::new(cluster)))
            }
            Against::Url(url) => Ok(Ground::Foreign(Foreign::look_at(url).await?)),
        }
    }

    /// What it is, as reports name it.
    pub fn name(&self) -> String {
        match self {
            Ground::Own(cluster) => Against::Own(Some(cluster.kind())).to_string(),
            Ground::Foreign(foreign) => Against::Url(foreign.url.clone()).to_string(),
        }
    }

    /// The cluster, if it is our own: what may be killed.
    pub fn own(&self) -> Option<&ClusterUnderTest> {
        match self {
            Ground::Own(cluster) => Some(cluster),
            Ground::Foreign(_) => None,
        }
    }

    /// As `--redis` takes it.
    pub fn redis_url(&self) -> String {
        match self {
            Ground::Own(cluster) => cluster.redis_url(),
            Ground::Foreign(foreign) => foreign.url.clone(),
        }
    }

    /// Which shard serves what.
    pub fn shards(&self) -> ShardMap {
        match self {
            Ground::Own(cluster) => {
                let primaries = (cluster.node_count() / 2).max(1);
                ShardMap::equal(u16::try_from(primaries).unwrap_or(1))
            }
            Ground::Foreign(foreign) => foreign.shards.clone(),
        }
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        match self {
            Ground::Own(cluster) => cluster.node_count(),
            Ground::Foreign(foreign) => foreign.addresses.len(),
        }
    }

    /// Runs one command on one node.
    ///
    /// # Errors
    /// When the node doesn't answer, or answers with an error.
    pub async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, GroundError> {
        match self {
            Ground::Own(cluster) => Ok(cluster.run(node, args).await?),
            Ground::Foreign(foreign) => foreign.run(node, args).await,
        }
    }

    /// The replica of a shard, by node; `None` when it has none.
    ///
    /// # Errors
    /// When no node says.
    pub async fn replica_of(&self, shard: usize) -> Result<Option<usize>, GroundError> {
        match self {
            Ground::Own(cluster) => Ok(Some(cluster.node_count() / 2 + shard)),
            Ground::Foreign(foreign) => {
                let view = foreign.view(shard).await?;
                let replica = view.as_ref().and_then(|view| {
                    let primary = view.node(shard)?;
                    view.replicas_of(primary).find_map(|replica| replica.node)
                });
                Ok(replica)
            }
        }
    }

    /// The server's name and version: `Redis 7.0.15`.
    ///
    /// # Errors
    /// When node 0 doesn't answer.
    pub async fn server(&self) -> Result<String, GroundError> {
        let info = self.run(0, &["INFO", "server"]).await?;
        let text = info.text().unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
            line.and_then(|rest| rest.strip_prefix(':'))
                .map(str::to_owned)
        };
        Ok(match (field("valkey_version"), field("redis_version")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, Some(version)) => format!("Redis {version}"),
            (None, None) => "a server that doesn't say its version".to_owned(),
        })
    }
}

impl Foreign {
    async fn look_at(text: &str) -> Result<Self, GroundError> {
        let url = StoreUrl::parse(text)?;
        let unusable = |why: &str| {
            GroundError::Unusable(Against::Url(text.to_owned()).to_string(), why.to_owned())
        };
        if url.tls {
            return Err(unusable(
                "it speaks to the nodes without TLS; name a redis:// address",
            ));
        }
        let seed = url
            .seeds()
            .first()
            .ok_or_else(|| unusable("it names no server"))?;
        let resolved = tokio::net::lookup_host((seed.host(), seed.port())).await;
        let mut resolved = resolved.map_err(|error| unusable(&error.to_string()))?;
        let address = resolved
            .next()
            .ok_or_else(|| unusable("its name has no address"))?;
        let credentials = url.credentials.clone();
        let mut foreign = Foreign {
            url: text.to_owned(),
            password: credentials
                .password
                .map(|password| (credentials.user, password)),
            addresses: vec![address],
            shards: ShardMap::equal(1),
        };
        if let Ok(reply) = foreign.run(0, &["CLUSTER", "NODES"]).await {
            let text = reply.text().unwrap_or_default().to_owned();
            foreign
                .take_cluster(&text)
                .ok_or_else(|| unusable("CLUSTER NODES can't be read"))?;
        }
        Ok(foreign)
    }

    /// Numbers the nodes: primaries by their first slot, then everyone else.
    fn take_cluster(&mut self, text: &str) -> Option<()> {
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
        self.addresses = indexes
            .filter_map(|node| unordered.get(node).copied())
            .collect();
        let serving = known.iter().filter(|node| !node.slots.is_empty());
        let ranges: Vec<_> = serving.map(|node| node.slots.clone()).collect();
        self.shards = ShardMap::of(ranges);
        (!self.addresses.is_empty()).then_some(())
    }

    async fn view(&self, node: usize) -> Result<Option<ClusterView>, GroundError> {
        let reply = self.run(node, &["CLUSTER", "NODES"]).await?;
        Ok(ClusterView::parse(
            reply.text().unwrap_or_default(),
            &self.addresses,
        ))
    }

    async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, GroundError> {
        let failed = |why: String| GroundError::Unusable(format!("node {node}"), why);
        let address = self.addresses.get(node).copied();
        let address = address.ok_or_else(|| failed("there is no such node".to_owned()))?;
        let opened = Connection::open(address, CONNECT_TIMEOUT, REPLY_TIMEOUT).await;
        let mut connection = opened.map_err(|error| failed(error.to_string()))?;
        if let Some((user, password)) = &self.password {
            let mut auth = vec!["AUTH"];
            auth.extend(user.as_deref());
            auth.push(password);
            refused(connection.command(&auth).await).map_err(failed)?;
        }
        refused(connection.command(args).await).map_err(failed)
    }
}

/// An error reply as an error.
fn refused(reply: std::io::Result<Reply>) -> Result<Reply, String> {
    match reply {
        Ok(Reply::Error(message)) => Err(message),
        Ok(reply) => Ok(reply),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_cluster_is_numbered_by_its_slots() {
        let mut foreign = Foreign {
            url: String::new(),
            password: None,
            addresses: Vec::new(),
            shards: ShardMap::equal(1),
        };
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
        foreign.take_cluster(&text).unwrap();
        let ports: Vec<u16> = foreign.addresses.iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [7001, 7002, 7003]);
        // foo is in slot 12182, hello in 866.
        assert_eq!(foreign.shards.shard_of("foo"), 1);
        assert_eq!(foreign.shards.shard_of("hello"), 0);
    }

    #[test]
    fn a_report_never_shows_a_password() {
        let against = Against::Url("redis://u:s3cret@127.0.0.1:7000".into());
        assert!(!against.to_string().contains("s3cret"), "{against}");
    }
}
