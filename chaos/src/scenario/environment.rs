//! What a scenario runs on: a cluster of its own, or one that the user named. On the latter it
//! does nothing that loses data or availability beyond what a client could do by accident.

use std::net::SocketAddr;
use std::time::Duration;

use crate::cluster::{ClusterError, ClusterKind, ClusterSpec, ClusterUnderTest, ClusterView};
use crate::oracle::ShardMap;
use crate::resp::{NodeConnection, Reply};
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
                let seeds: Vec<_> = url.seeds.iter().map(ToString::to_string).collect();
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

/// A server that chaos did not start.
#[derive(Debug)]
pub struct ExternalCluster {
    url: String,
    password: Option<(Option<String>, String)>,
    addresses: Vec<SocketAddr>,
    shards: ShardMap,
}

/// What a scenario runs on.
#[derive(Debug)]
pub enum Environment {
    /// A cluster of its own.
    Own(Box<ClusterUnderTest>),
    /// Somebody else's.
    External(ExternalCluster),
}

impl Environment {
    /// Starts a cluster, or looks at the one that was named.
    ///
    /// # Errors
    /// When it can't be started or reached.
    pub async fn prepare(
        against: &Against,
        options: ClusterSpec,
    ) -> Result<Self, EnvironmentError> {
        match against {
            Against::Own(kind) => {
                let options = match kind {
                    Some(kind) => options.kind(*kind),
                    None => options,
                };
                let cluster = ClusterUnderTest::start(options).await?;
                Ok(Environment::Own(Box::new(cluster)))
            }
            Against::Url(url) => Ok(Environment::External(ExternalCluster::look_at(url).await?)),
        }
    }

    /// What it is, as reports name it.
    pub fn name(&self) -> String {
        match self {
            Environment::Own(cluster) => Against::Own(Some(cluster.kind())).to_string(),
            Environment::External(external) => Against::Url(external.url.clone()).to_string(),
        }
    }

    /// The cluster, if it is our own: what may be killed.
    pub fn own(&self) -> Option<&ClusterUnderTest> {
        match self {
            Environment::Own(cluster) => Some(cluster),
            Environment::External(_) => None,
        }
    }

    /// As `--redis` takes it.
    pub fn redis_url(&self) -> String {
        match self {
            Environment::Own(cluster) => cluster.redis_url(),
            Environment::External(external) => external.url.clone(),
        }
    }

    /// Which shard serves what.
    pub fn shards(&self) -> ShardMap {
        match self {
            Environment::Own(cluster) => {
                let primaries = (cluster.node_count() / 2).max(1);
                ShardMap::equal(u16::try_from(primaries).unwrap_or(1))
            }
            Environment::External(external) => external.shards.clone(),
        }
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        match self {
            Environment::Own(cluster) => cluster.node_count(),
            Environment::External(external) => external.addresses.len(),
        }
    }

    /// Runs one command on one node.
    ///
    /// # Errors
    /// When the node doesn't answer, or answers with an error.
    pub async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, EnvironmentError> {
        match self {
            Environment::Own(cluster) => Ok(cluster.run(node, args).await?),
            Environment::External(external) => external.run(node, args).await,
        }
    }

    /// The replica of a shard, by node; `None` when it has none.
    ///
    /// # Errors
    /// When no node says.
    pub async fn replica_of(&self, shard: usize) -> Result<Option<usize>, EnvironmentError> {
        match self {
            Environment::Own(cluster) => Ok(Some(cluster.node_count() / 2 + shard)),
            Environment::External(external) => {
                let view = external.view(shard).await?;
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
    pub async fn server(&self) -> Result<String, EnvironmentError> {
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

impl ExternalCluster {
    async fn look_at(text: &str) -> Result<Self, EnvironmentError> {
        let url = StoreUrl::parse(text)?;
        let unusable = |why: &str| {
            EnvironmentError::Unusable(Against::Url(text.to_owned()).to_string(), why.to_owned())
        };
        if url.tls {
            return Err(unusable(
                "it speaks to the nodes without TLS; name a redis:// address",
            ));
        }
        let seed = url
            .seeds
            .first()
            .ok_or_else(|| unusable("it names no server"))?;
        let resolved = tokio::net::lookup_host((seed.host(), seed.port())).await;
        let mut resolved = resolved.map_err(|error| unusable(&error.to_string()))?;
        let address = resolved
            .next()
            .ok_or_else(|| unusable("its name has no address"))?;
        let credentials = url.credentials;
        let mut external = ExternalCluster {
            url: text.to_owned(),
            password: credentials
                .password
                .map(|password| (credentials.user, password)),
            addresses: vec![address],
            shards: ShardMap::equal(1),
        };
        if let Ok(reply) = external.run(0, &["CLUSTER", "NODES"]).await {
            let text = reply.text().unwrap_or_default().to_owned();
            external
                .take_cluster(&text)
                .ok_or_else(|| unusable("CLUSTER NODES can't be read"))?;
        }
        Ok(external)
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

    async fn view(&self, node: usize) -> Result<Option<ClusterView>, EnvironmentError> {
        let reply = self.run(node, &["CLUSTER", "NODES"]).await?;
        Ok(ClusterView::parse(
            reply.text().unwrap_or_default(),
            &self.addresses,
        ))
    }

    async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, EnvironmentError> {
        let failed = |why: String| EnvironmentError::Unusable(format!("node {node}"), why);
        let address = self.addresses.get(node).copied();
        let address = address.ok_or_else(|| failed("there is no such node".to_owned()))?;
        let opened = NodeConnection::open(address, CONNECT_TIMEOUT, REPLY_TIMEOUT).await;
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
        let mut external = ExternalCluster {
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
        external.take_cluster(&text).unwrap();
        let ports: Vec<u16> = external.addresses.iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [7001, 7002, 7003]);
        // foo is in slot 12182, hello in 866.
        assert_eq!(external.shards.shard_of("foo"), 1);
        assert_eq!(external.shards.shard_of("hello"), 0);
    }

    #[test]
    fn a_report_never_shows_a_password() {
        let against = Against::Url("redis://u:s3cret@127.0.0.1:7000".into());
        assert!(!against.to_string().contains("s3cret"), "{against}");
    }
}
