//! Nodes that are containers on a network of the cluster's own, started by testcontainers.
//!
//! Each has an address of its own that this machine reaches without port mappings, so that
//! redirects lead where they say. Never outlives its owner: see [`Watchdog`] and
//! [`docker::sweep`].

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as BollardError;
use testcontainers::bollard::models::{
    EndpointIpamConfig, EndpointSettings, NetworkConnectRequest, NetworkDisconnectRequest,
};
use testcontainers::bollard::query_parameters::KillContainerOptionsBuilder;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::task::JoinSet;

use super::background::{in_background, runtime};
use super::docker::{self, Subnet, docker};
use super::loopback::free_proxy_addresses;
use super::node_conf::{NodeConfig, node_conf};
use super::spec::NodeAction;
use super::wait::wait_listening;
use super::watchdog::Watchdog;
use super::{ClusterError, ClusterSpec};

const PORT: u16 = 6379;
/// Where the engine puts containers by itself.
const DEFAULT_NETWORK: &str = "bridge";
const CONF: &str = "/etc/tidegate-node.conf";
/// The public images name their server each in its own way, ours has what it was built from.
const RUN: &str =
    "exec $(command -v valkey-server || command -v redis-server) /etc/tidegate-node.conf";
/// How long a node that is asked to end may take, in seconds, before it is killed.
const STOP_SECONDS_MAX: i32 = 30;

type Container = ContainerAsync<GenericImage>;
type Node = Arc<Container>;

/// The nodes' containers and their network.
#[derive(Debug)]
pub(crate) struct Containers {
    image: String,
    subnet: Subnet,
    addresses: Vec<SocketAddr>,
    proxy_addresses: Vec<SocketAddr>,
    nodes: Vec<Node>,
    watchdog: Watchdog,
}

impl Containers {
    /// Starts all nodes; they answer, but know nothing of each other yet.
    pub(crate) async fn start(spec: ClusterSpec) -> Result<Self, ClusterError> {
        require_command_line()?;
        let name = format!("tidegate-{:016x}", rand::random::<u64>());
        let watchdog = Watchdog::start(None)?;
        watchdog.undo(&docker::removal_command(&name))?;
        let count = spec.shape.node_count();
        let proxy_addresses = if spec.proxied {
            free_proxy_addresses(count, PORT)?
        } else {
            Vec::new()
        };
        let cluster = in_background(async move {
            let engine = docker::engine().await?;
            docker::sweep(&engine).await;
            let image = docker::image(&engine).await;
            let labels = docker::labels(&name, watchdog.pid());
            let subnet = docker::create_network(&engine, &name, labels.clone()).await?;
            let mut starting = JoinSet::new();
            for node in 0..count {
                let config = NodeConfig {
                    bind: Ipv4Addr::UNSPECIFIED.into(),
                    announce: subnet.address(node).into(),
                    port: PORT,
                    endpoint: proxy_addresses.get(node).map(SocketAddr::ip),
                    log_file: None,
                };
                let request = GenericImage::new(image.0.clone(), image.1.clone())
                    .with_entrypoint("sh")
                    .with_cmd(["-c", RUN])
                    .with_container_name(format!("{name}-{node}"))
                    .with_labels(labels.clone())
                    .with_copy_to(CONF, node_conf(&spec, &config).into_bytes())
                    .with_host_config_modifier(|host| host.publish_all_ports = Some(false));
                starting.spawn(start_node(request, node));
            }
            Ok(Self {
                image: format!("{}:{}", image.0, image.1),
                addresses: (0..count)
                    .map(|node| (subnet.address(node), PORT).into())
                    .collect(),
                nodes: join_network(&engine, &subnet, starting, count).await?,
                proxy_addresses,
                subnet,
                watchdog,
            })
        })
        .await?;
        for node in 0..cluster.addresses.len() {
            cluster.wait_listening(node).await?;
        }
        Ok(cluster)
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn proxy_addresses(&self) -> &[SocketAddr] {
        &self.proxy_addresses
    }

    pub(crate) fn network(&self) -> &str {
        &self.subnet.network
    }

    /// What runs in the containers.
    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    pub(super) async fn apply(&self, node: usize, action: NodeAction) -> Result<(), ClusterError> {
        let container = self.node(node)?;
        in_background(async move {
            let failed = docker(format!("{action:?} of node {node}"));
            match action {
                NodeAction::Kill => return kill(&container, node).await,
                NodeAction::Stop => container.stop_with_timeout(Some(STOP_SECONDS_MAX)).await,
                NodeAction::Start => container.start().await,
                NodeAction::Pause => container.pause().await,
                NodeAction::Resume => container.unpause().await,
            }
            .map_err(failed)
        })
        .await?;
        match action {
            NodeAction::Start => self.wait_listening(node).await,
            _ => Ok(()),
        }
    }

    /// Takes the node off the network: nobody reaches it, and it reaches nobody.
    pub(crate) async fn disconnect_node(&self, node: usize) -> Result<(), ClusterError> {
        let (container, subnet) = (self.node(node)?, self.subnet.clone());
        in_background(async move {
            let network = &subnet.network;
            disconnect(&docker::engine().await?, network, node, container.id()).await
        })
        .await
    }

    /// Ends [`Containers::disconnect_node`]; the node has its address again.
    pub(crate) async fn reconnect_node(&self, node: usize) -> Result<(), ClusterError> {
        let (container, subnet) = (self.node(node)?, self.subnet.clone());
        in_background(async move {
            connect(&docker::engine().await?, &subnet, node, container.id()).await
        })
        .await
    }

    /// The number, on this machine, of a running node's process.
    pub(crate) async fn pid(&self, node: usize) -> Result<Option<u32>, ClusterError> {
        let container = self.node(node)?;
        in_background(async move {
            let engine = docker::engine().await?;
            let inspected = engine.inspect_container(container.id(), None).await;
            let inspected = inspected.map_err(docker(format!("inspecting node {node}")))?;
            let pid = inspected.state.and_then(|state| state.pid).unwrap_or(0);
            Ok(u32::try_from(pid).ok().filter(|&pid| pid > 0))
        })
        .await
    }

    /// All that the node has logged.
    pub(crate) async fn log(&self, node: usize) -> Result<String, ClusterError> {
        let container = self.node(node)?;
        in_background(async move {
            let log = container.stdout_to_vec().await;
            let log = log.map_err(docker(format!("reading the log of node {node}")))?;
            Ok(String::from_utf8_lossy(&log).into_owned())
        })
        .await
    }

    fn node(&self, node: usize) -> Result<Node, ClusterError> {
        ClusterError::no_such_node(self.nodes.get(node), node, self.nodes.len()).cloned()
    }

    async fn wait_listening(&self, node: usize) -> Result<(), ClusterError> {
        let container = self.node(node)?;
        let address = SocketAddr::from((self.subnet.address(node), PORT));
        let ended = || async {
            let container = Arc::clone(&container);
            let running = in_background(async move { is_running(&container, node).await });
            Ok((!running.await?).then(|| "its container has exited".to_owned()))
        };
        wait_listening(node, address, ended, || async {
            self.log(node).await.unwrap_or_default()
        })
        .await
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        let network = self.subnet.network.clone();
        let (ended, wait) = std::sync::mpsc::channel();
        let Ok(runtime) = runtime() else {
            return;
        };
        runtime.spawn(async move {
            let removed = remove(nodes, &network).await;
            // Whoever waited has gone when the process ends.
            let _ = ended.send(removed);
        });
        // A failed removal is the watchdog's, which tries it by other means.
        if wait.recv().is_ok_and(|removed| removed.is_ok()) {
            let _ = self.watchdog.dismiss();
        }
    }
}

async fn kill(container: &Container, node: usize) -> Result<(), ClusterError> {
    let options = KillContainerOptionsBuilder::default().signal("SIGKILL");
    let engine = docker::engine().await?;
    let killed = engine.kill_container(container.id(), Some(options.build()));
    match killed.await {
        // It isn't running: that is what was asked for.
        Err(BollardError::DockerResponseServerError {
            status_code: 409, ..
        })
        | Ok(()) => {}
        Err(error) => return Err(docker(format!("killing node {node}"))(error)),
    }
    // The engine answers before the process has ended and has left the network.
    while is_running(container, node).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn is_running(container: &Container, node: usize) -> Result<bool, ClusterError> {
    let running = container.is_running().await;
    running.map_err(docker(format!("looking at node {node}")))
}

/// Removes everything; the containers one after the other, as they came: see [`join_network`].
async fn remove(nodes: Vec<Node>, network: &str) -> Result<(), ClusterError> {
    for node in nodes {
        match Arc::try_unwrap(node) {
            Ok(container) => (container.rm().await).map_err(docker("removing a container"))?,
            Err(_) => return Err(docker("removing a container")("a call still uses it")),
        }
    }
    docker::remove_network(&docker::engine().await?, network).await
}

async fn start_node(
    request: ContainerRequest<GenericImage>,
    node: usize,
) -> Result<(usize, Container), ClusterError> {
    let container = request.start().await.map_err(|error| {
        let cure = if error.to_string().contains("pull") {
            "; build an image with cluster/image/build, or name one in TIDEGATE_CLUSTER_IMAGE"
        } else {
            ""
        };
        docker(format!("starting node {node}"))(format!("{error}{cure}"))
    })?;
    Ok((node, container))
}

/// Moves the containers, as they start, from the engine's own network to the cluster's, each to
/// its address: testcontainers can't ask for one, and the engine's choice may differ after a
/// restart. One after the other: Docker 20.10 loses count of a network's users when they come or
/// go side by side, and then never removes it.
async fn join_network(
    engine: &Docker,
    subnet: &Subnet,
    mut starting: JoinSet<Result<(usize, Container), ClusterError>>,
    count: usize,
) -> Result<Vec<Node>, ClusterError> {
    let mut nodes: Vec<Option<Node>> = (0..count).map(|_| None).collect();
    while let Some(started) = starting.join_next().await {
        let started = started.map_err(docker("starting a node"))?;
        let (node, container) = started?;
        connect(engine, subnet, node, container.id()).await?;
        disconnect(engine, DEFAULT_NETWORK, node, container.id()).await?;
        if let Some(place) = nodes.get_mut(node) {
            *place = Some(Arc::new(container));
        }
    }
    Ok(nodes.into_iter().flatten().collect())
}

async fn disconnect(
    engine: &Docker,
    network: &str,
    node: usize,
    container: &str,
) -> Result<(), ClusterError> {
    let request = NetworkDisconnectRequest {
        container: container.to_owned(),
        force: None,
    };
    let done = engine.disconnect_network(network, request).await;
    done.map_err(docker(format!("disconnecting node {node}")))
}

async fn connect(
    engine: &Docker,
    subnet: &Subnet,
    node: usize,
    container: &str,
) -> Result<(), ClusterError> {
    let request = NetworkConnectRequest {
        container: container.to_owned(),
        endpoint_config: Some(EndpointSettings {
            ipam_config: Some(EndpointIpamConfig {
                ipv4_address: Some(subnet.address(node).to_string()),
                ..Default::default()
            }),
            ..Default::default()
        }),
    };
    let done = engine.connect_network(&subnet.network, request).await;
    done.map_err(docker(format!("connecting node {node}")))
}

/// The watchdog removes containers by `docker`; without it a killed owner would leave them.
fn require_command_line() -> Result<(), ClusterError> {
    let mut docker = Command::new("docker");
    docker.arg("--version").stdin(Stdio::null());
    docker.stdout(Stdio::null()).stderr(Stdio::null());
    let started = docker.status().map(drop);
    started.map_err(|source| ClusterError::Program {
        program: "docker".into(),
        cure: "Install Docker (Debian: `apt-get install docker.io`), or set \
               TIDEGATE_CLUSTER=processes"
            .into(),
        source,
    })
}
