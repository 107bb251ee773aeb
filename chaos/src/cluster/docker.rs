//! The Docker engine as clusters under test need it: an image, a network, and the removal of what
//! an owner left behind.
//!
//! Every object bears labels that name its owner. Never touches an object without them.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as BollardError;
use testcontainers::bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;

use super::ClusterError;
use super::background::in_background;
use super::owner::{SweepLock, are_gone, host, owners};

/// What every container and network of a cluster under test bears; its value names the cluster.
pub(super) const CLUSTER_LABEL: &str = "tidegate.cluster";
/// The processes that answer for it: see [`owners`].
const OWNER_LABEL: &str = "tidegate.owners";
/// Where that process number means something: this boot and process-number namespace.
const HOST_LABEL: &str = "tidegate.host";

/// Locally built images first, then the public one, which is pulled when it isn't there.
const IMAGES: [&str; 3] = ["tidegate-redis:7.0", "tidegate-valkey:9.1", "redis:7.2"];
const IMAGE_VARIABLE: &str = "TIDEGATE_CLUSTER_IMAGE";
/// Subnets are asked for again when another cluster was quicker.
const SUBNET_TRIES_MAX: usize = 20;

/// A client of the engine that answers. To be called within [`in_background`] only.
pub(super) async fn engine() -> Result<Docker, ClusterError> {
    let unsupported = |why: String| ClusterError::Unsupported {
        what: "a cluster of containers".into(),
        why,
        cure: "Start Docker and let this user reach it, or set TIDEGATE_CLUSTER=processes".into(),
    };
    if !cfg!(target_os = "linux") {
        return Err(unsupported(
            "outside Linux containers have no address that this machine can reach".into(),
        ));
    }
    let engine = docker_client_instance().await;
    let engine = engine.map_err(|error| unsupported(error.to_string()))?;
    match engine.ping().await {
        Ok(_) => Ok(engine),
        Err(error) => Err(unsupported(whole_story(&error))),
    }
}

/// An error and what is behind it: "client error (Connect): Permission denied".
fn whole_story(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let words: Vec<_> = causes.map(ToString::to_string).collect();
    words.join(": ")
}

/// Whether clusters of containers can run here at all, without a pull.
pub(super) async fn usable() -> bool {
    in_background(async {
        let engine = engine().await?;
        match local_image(&engine).await {
            Some(_) => Ok(()),
            None => Err(docker("looking for an image")("none is here")),
        }
    })
    .await
    .is_ok()
}

/// The image of the nodes: `TIDEGATE_CLUSTER_IMAGE`, or the first that is here, or the public one.
pub(super) async fn image(engine: &Docker) -> (String, String) {
    let name = match local_image(engine).await {
        Some(name) => name,
        None => IMAGES.last().copied().unwrap_or_default().to_owned(),
    };
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository.to_owned(), tag.to_owned()),
        _ => (name, "latest".to_owned()),
    }
}

async fn local_image(engine: &Docker) -> Option<String> {
    if let Some(name) = std::env::var(IMAGE_VARIABLE).ok().filter(|v| !v.is_empty()) {
        return Some(name);
    }
    for name in IMAGES {
        if engine.inspect_image(name).await.is_ok() {
            return Some(name.to_owned());
        }
    }
    None
}

/// A network of a cluster's own.
#[derive(Debug, Clone)]
pub(super) struct Subnet {
    pub(super) network: String,
    base: Ipv4Addr,
}

impl Subnet {
    /// A node's address.
    pub(super) fn address(&self, node: usize) -> Ipv4Addr {
        let [a, b, c, _] = self.base.octets();
        Ipv4Addr::new(a, b, c, u8::try_from(node + 10).unwrap_or(u8::MAX))
    }
}

/// Creates a cluster's network. The engine first chooses a range that nobody uses; then the same
/// range is asked for by name, since only such a network gives containers fixed addresses.
pub(super) async fn create_network(
    engine: &Docker,
    name: &str,
    labels: HashMap<String, String>,
) -> Result<Subnet, ClusterError> {
    let operation = format!("creating the network {name}");
    let mut request = NetworkCreateRequest {
        name: name.to_owned(),
        labels: Some(labels),
        ..Default::default()
    };
    let mut last = String::new();
    for _ in 0..SUBNET_TRIES_MAX {
        request.ipam = None;
        let created = engine.create_network(request.clone()).await;
        created.map_err(docker(&operation))?;
        let network = engine.inspect_network(name, None).await;
        let network = network.map_err(docker(&operation))?;
        remove_network(engine, name).await?;
        let configs = network
            .ipam
            .and_then(|ipam| ipam.config)
            .unwrap_or_default();
        let subnets = configs.into_iter().filter_map(|config| config.subnet);
        let base = subnets.into_iter().find_map(|subnet| {
            let (base, _) = subnet.split_once('/')?;
            base.parse::<Ipv4Addr>().ok()
        });
        let base = base.ok_or_else(|| docker(&operation)("the engine chose no IPv4 range"))?;
        request.ipam = Some(Ipam {
            config: Some(vec![IpamConfig {
                subnet: Some(format!("{base}/24")),
                ..Default::default()
            }]),
            ..Default::default()
        });
        match engine.create_network(request.clone()).await {
            Ok(_) => {
                return Ok(Subnet {
                    network: name.to_owned(),
                    base,
                });
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(docker(operation)(last))
}

pub(super) async fn remove_network(engine: &Docker, name: &str) -> Result<(), ClusterError> {
    let removed = engine.remove_network(name).await;
    removed.map_err(docker(format!("removing the network {name}")))
}

pub(super) async fn remove_container(engine: &Docker, id: &str) -> Result<(), BollardError> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true);
    engine.remove_container(id, Some(options.build())).await
}

/// The labels of a cluster's containers and network.
pub(super) fn labels(cluster: &str, watchdog: u32) -> HashMap<String, String> {
    HashMap::from([
        (CLUSTER_LABEL.to_owned(), cluster.to_owned()),
        (OWNER_LABEL.to_owned(), owners(watchdog)),
        (HOST_LABEL.to_owned(), host()),
    ])
}

/// A shell command that removes a cluster's containers and network; twice, because a container
/// may have been on its way when its owner was killed. One container after the other: Docker 20.10
/// loses count of a network's users when they leave side by side, and then never removes it.
pub(super) fn removal_command(cluster: &str) -> String {
    let filter = format!("--filter label={CLUSTER_LABEL}={cluster}");
    format!(
        "for _ in 1 2; do for id in $(docker ps -aq {filter}); do docker rm -fv $id; done; \
         docker network rm {cluster}; sleep 1; done"
    )
}

/// Removes what owners that are no more left behind: where even their watchdog was killed.
pub(super) async fn sweep(engine: &Docker) {
    let Some(_lock) = SweepLock::take().await else {
        return;
    };
    let filters = HashMap::from([("label", vec![format!("{HOST_LABEL}={}", host())])]);
    let options = ListContainersOptionsBuilder::default().all(true);
    let options = options.filters(&filters).build();
    let containers = engine.list_containers(Some(options)).await;
    for container in containers.unwrap_or_default() {
        if let (true, Some(id)) = (orphaned(container.labels), container.id) {
            let _ = remove_container(engine, &id).await;
        }
    }
    let options = ListNetworksOptionsBuilder::default().filters(&filters);
    let networks = engine.list_networks(Some(options.build())).await;
    for network in networks.unwrap_or_default() {
        if let (true, Some(name)) = (orphaned(network.labels), network.name) {
            let _ = remove_network(engine, &name).await;
        }
    }
}

fn orphaned(labels: Option<HashMap<String, String>>) -> bool {
    let labels = labels.unwrap_or_default();
    labels
        .get(OWNER_LABEL)
        .is_some_and(|owners| are_gone(owners))
}

/// A [`ClusterError::Docker`] for `map_err`.
pub(super) fn docker<E: ToString>(operation: impl Into<String>) -> impl FnOnce(E) -> ClusterError {
    let operation = operation.into();
    move |error| ClusterError::Docker {
        operation,
        message: error.to_string(),
    }
}
