//! The nodes of a cluster as a client reaches them, by index: one connection a command, without
//! following redirects.

use std::net::SocketAddr;
use std::time::Duration;

use super::{ClusterError, ClusterView};
use crate::resp::{NodeConnection, Reply};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses and credentials of nodes.
#[derive(Debug, Clone)]
pub(crate) struct NodeClient {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl NodeClient {
    pub(crate) fn address(&self, node: usize) -> Result<SocketAddr, ClusterError> {
        let address = self.addresses.get(node).copied();
        ClusterError::no_such_node(address, node, self.addresses.len())
    }

    pub(crate) async fn connect(&self, node: usize) -> Result<NodeConnection, ClusterError> {
        self.connect_within(node, CONNECT_TIMEOUT, REPLY_TIMEOUT)
            .await
    }

    /// Opens a connection, authenticated where there is a password.
    pub(super) async fn connect_within(
        &self,
        node: usize,
        connect_timeout: Duration,
        reply_timeout: Duration,
    ) -> Result<NodeConnection, ClusterError> {
        let address = self.address(node)?;
        let connection = NodeConnection::open(address, connect_timeout, reply_timeout).await;
        let mut connection = connection.map_err(no_answer(node, &["connect"]))?;
        if let Some(password) = &self.password {
            let auth = ["AUTH"].into_iter().chain(self.user.as_deref());
            let auth: Vec<_> = auth.chain([password.as_str()]).collect();
            answer(node, &["AUTH"], connection.command(&auth).await)?;
        }
        Ok(connection)
    }

    pub(crate) async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, ClusterError> {
        let mut connection = self.connect(node).await?;
        answer(node, args, connection.command(args).await)
    }

    pub(crate) async fn view(&self, node: usize) -> Result<ClusterView, ClusterError> {
        let args = ["CLUSTER", "NODES"];
        let reply = self.run(node, &args).await?;
        let text = reply.text().unwrap_or_default();
        ClusterView::parse(text, &self.addresses).ok_or_else(|| ClusterError::Unexpected {
            node,
            command: args.join(" "),
            reply: format!("{reply:?}"),
        })
    }
}

/// A reply that is no error.
fn answer(
    node: usize,
    args: &[&str],
    reply: std::io::Result<Reply>,
) -> Result<Reply, ClusterError> {
    match reply.map_err(no_answer(node, args))? {
        Reply::Error(message) => Err(ClusterError::Refused {
            node,
            command: args.join(" "),
            message,
        }),
        reply => Ok(reply),
    }
}

fn no_answer<'a>(
    node: usize,
    args: &'a [&'a str],
) -> impl FnOnce(std::io::Error) -> ClusterError + 'a {
    move |source| ClusterError::NoAnswer {
        node,
        command: args.join(" "),
        source,
    }
}
