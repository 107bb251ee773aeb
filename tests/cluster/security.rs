//! Passwords, users and encryption; and that no secret is ever shown.

use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tidegate::model::Algorithm;
use tidegate::store::cluster::{
    AddressMap, ClientCertificate, ClusterOptions, ClusterStore, NodeAddress, TlsOptions,
};
use tidegate::store::{Readiness, Store, StoreErrorKind};
use tidegate_chaos::cluster::{ClusterSpec as TestOptions, ClusterUnderTest};

use crate::support::{
    charge, eventually, global, ready, single, start, store_with, subjects_by_shard, target, used,
};

const PASSWORD: &str = "correct-horse";

fn connect(url: &str) -> ClusterStore {
    ClusterStore::connect(ClusterOptions::from_url(url).unwrap()).unwrap()
}

/// Waits until the store says why it isn't ready, and checks that this names no secret.
async fn refused(store: &ClusterStore, word: &str) {
    eventually("a refusal", async || match store.readiness() {
        Readiness::Ready => panic!("ready"),
        Readiness::NotReady(why) => why.contains(word),
    })
    .await;
    let target = target(&global(Algorithm::TokenBucket, 100), "key-1");
    let error = store.charge(charge(&target, 1, 2_000)).await.unwrap_err();
    assert_eq!(
        (error.kind, error.may_have_run),
        (StoreErrorKind::Refused, false),
        "{error:?}"
    );
    assert!(!error.is_transient());
    let shown = format!("{error:?} {:?} {store:?}", store.readiness());
    for secret in [PASSWORD, "wrong-horse"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_asked_for_and_given() {
    let cluster = start(TestOptions::default().password(PASSWORD)).await;
    ready(&connect(&cluster.redis_url())).await;
    let bare = cluster.redis_url().replace(&format!(":{PASSWORD}@"), "");
    refused(&connect(&bare), "NOAUTH").await;
    let wrong = cluster.redis_url().replace(PASSWORD, "wrong-horse");
    refused(&connect(&wrong), "WRONGPASS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_few_rights_is_enough() {
    let cluster = single().await;
    let address = cluster.address(0).unwrap();
    let rights = [
        "ACL",
        "SETUSER",
        "tide",
        "on",
        ">correct-horse",
        "~tg:*",
        "+@scripting",
        "+@connection",
        "+@sortedset",
        "+@string",
        "+@hash",
        "+@keyspace",
        "+time",
        "-@dangerous",
    ];
    cluster.run(0, &rights).await.unwrap();
    // It may not even read INFO, which is how a single server is told from a cluster.
    let store = connect(&format!("redis://tide:{PASSWORD}@{address}"));
    refused(
        &connect(&format!("redis://tide:wrong-horse@{address}")),
        "WRONGPASS",
    )
    .await;
    ready(&store).await;
    let mine = target(&global(Algorithm::SlidingLog, 100), "key-1");
    store.charge(charge(&mine, 2, 1_000)).await.unwrap();
    assert_eq!(used(&store, &mine).await, 2);
    // A right is taken away while it is connected.
    cluster
        .run(0, &["ACL", "SETUSER", "tide", "-evalsha"])
        .await
        .unwrap();
    let error = store.charge(charge(&mine, 1, 1_000)).await.unwrap_err();
    assert_eq!(
        (error.kind, error.may_have_run),
        (StoreErrorKind::Refused, false),
        "{error:?}"
    );
}

/// An authority, and what it has signed for these hosts.
struct Papers {
    dir: tempfile::TempDir,
}

impl Papers {
    fn of(hosts: &[String]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.distinguished_name
            .push(DnType::CommonName, "test authority");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new(Vec::new()).unwrap();
        let san = |host: &String| match host.parse() {
            Ok(ip) => SanType::IpAddress(ip),
            Err(_) => SanType::DnsName(host.as_str().try_into().unwrap()),
        };
        leaf.subject_alt_names = hosts.iter().map(san).collect();
        let leaf = leaf.signed_by(&key, &ca).unwrap();
        let write = |name: &str, pem: String| std::fs::write(dir.path().join(name), pem).unwrap();
        write("ca.pem", ca.pem());
        write("leaf.pem", leaf.pem());
        write("leaf.key", key.serialize_pem());
        Papers { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn trusted(&self) -> TlsOptions {
        let mut tls = TlsOptions::default();
        tls.ca_file = Some(self.path("ca.pem"));
        tls
    }

    /// Has a node listen encrypted too, on the port that it returns.
    async fn encrypt(&self, cluster: &ClusterUnderTest, node: usize, ask_clients: bool) -> u16 {
        let address = cluster.address(node).unwrap();
        let port = free_port(address.ip());
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let ask_clients = if ask_clients { "yes" } else { "no" };
        let set = [
            "CONFIG",
            "SET",
            "tls-cert-file",
            &text(&self.path("leaf.pem")),
            "tls-key-file",
            &text(&self.path("leaf.key")),
            "tls-ca-cert-file",
            &text(&self.path("ca.pem")),
            "tls-auth-clients",
            ask_clients,
            "tls-port",
            &port.to_string(),
        ];
        cluster
            .run(node, &set)
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        port
    }
}

fn free_port(ip: std::net::IpAddr) -> u16 {
    std::net::TcpListener::bind((ip, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A server that can encrypt, which not every build can: Debian's, also when the other tests run
/// on another. What is tested here is our side.
fn encrypting(options: TestOptions) -> TestOptions {
    options.program("redis-server")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_reached_encrypted_and_its_certificates_are_verified() {
    let cluster = start(encrypting(TestOptions::default())).await;
    let hosts: Vec<_> = (0..6)
        .map(|n| cluster.address(n).unwrap().ip().to_string())
        .collect();
    let papers = Papers::of(&hosts);
    let mut map = Vec::new();
    for (node, host) in hosts.iter().enumerate() {
        let port = papers.encrypt(&cluster, node, false).await;
        let plain = cluster.address(node).unwrap().port();
        map.push((NodeAddress::new(host, plain), NodeAddress::new(host, port)));
    }
    let seed = &map[0].1;
    let store_with = |tls| {
        store_with(&format!("rediss://{seed}"), |options| {
            options.address_map = AddressMap::new(map.clone());
            options.tls = tls;
        })
    };
    let store = store_with(papers.trusted());
    ready(&store).await;
    for (_, targets) in subjects_by_shard(&store, &global(Algorithm::SlidingLog, 100), 1) {
        store.charge(charge(&targets[0], 1, 1_000)).await.unwrap();
        assert_eq!(used(&store, &targets[0]).await, 1);
    }
    // The system's roots didn't sign this.
    refused(&store_with(TlsOptions::default()), "UnknownIssuer").await;
    let mut elsewhere = papers.trusted();
    elsewhere.server_name = Some("elsewhere.example".into());
    refused(&store_with(elsewhere), "NotValidForName").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_who_we_are_is_shown_our_certificate() {
    let cluster = start(encrypting(TestOptions::single())).await;
    let papers = Papers::of(&["db.example".into()]);
    let port = papers.encrypt(&cluster, 0, true).await;
    let ip = cluster.address(0).unwrap().ip();
    let with = |client_certificate| {
        store_with(&format!("rediss://{ip}:{port}"), |options| {
            options.tls = papers.trusted();
            options.tls.client_certificate = client_certificate;
            options.tls.server_name = Some("db.example".into());
        })
    };
    let ours = ClientCertificate {
        chain_file: papers.path("leaf.pem"),
        key_file: papers.path("leaf.key"),
    };
    ready(&with(Some(ours))).await;
    assert!(
        with(None)
            .wait_ready(Duration::from_millis(700))
            .await
            .is_err()
    );
}
