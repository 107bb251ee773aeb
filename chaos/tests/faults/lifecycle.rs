//! Clusters: whole when they say so, and gone with their owner.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_chaos::cluster::{ClusterError, ClusterKind, ClusterSpec, ClusterUnderTest};

/// Whether a node answers at the address. To be accepted isn't enough: without its network a
/// container's address may lead anywhere.
fn answers(address: SocketAddr) -> bool {
    let ping = || {
        let limit = Duration::from_millis(500);
        let mut stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).map(|()| reply == *b"+PONG")
    };
    ping().unwrap_or(false)
}

fn addresses(cluster: &ClusterUnderTest) -> Vec<SocketAddr> {
    (0..cluster.node_count())
        .map(|node| cluster.address(node).unwrap())
        .collect()
}

#[tokio::test]
async fn a_cluster_is_whole_when_it_has_started_and_gone_when_dropped() {
    let begun = Instant::now();
    let cluster = ClusterUnderTest::start(ClusterSpec::default())
        .await
        .unwrap();
    println!("whole after {} ms", begun.elapsed().as_millis());
    assert_eq!(cluster.node_count(), 6);
    for node in 0..6 {
        let view = cluster.view(node).await.unwrap();
        let slots: usize = view.nodes.iter().map(|other| other.slot_count()).sum();
        assert_eq!(slots, 16_384);
        assert_eq!(view.nodes.iter().filter(|other| other.primary).count(), 3);
        let myself = view.myself().unwrap();
        assert_eq!(myself.primary, node < 3);
        if node >= 3 {
            let primary = view.node(node - 3).unwrap();
            assert_eq!(myself.primary_id.as_ref(), Some(&primary.id));
            let args = ["INFO", "replication"];
            let link = cluster
                .info(node, &args, "master_link_status")
                .await
                .unwrap();
            assert_eq!(link, "up");
        }
    }
    // "foo" is in slot 12182 by the cluster specification, so with the last third.
    assert_eq!(cluster.slot_of("{foo}bar").await.unwrap(), 12_182);
    let primary = cluster.primary_of("{foo}bar").await.unwrap();
    assert_eq!(primary, 2);
    cluster
        .run(primary, &["SET", "{foo}bar", "1"])
        .await
        .unwrap();
    let elsewhere = cluster.run(0, &["SET", "{foo}bar", "1"]).await.unwrap_err();
    let moved = format!("MOVED 12182 {}", cluster.address(2).unwrap());
    assert!(elsewhere.to_string().contains(&moved), "{elsewhere}");

    let addresses = addresses(&cluster);
    drop(cluster);
    assert!(!addresses.into_iter().any(answers));
}

#[tokio::test]
async fn a_single_node_takes_a_password_and_settings() {
    let options = ClusterSpec::single()
        .password("s3cret")
        .setting("maxmemory", "64mb");
    let node = ClusterUnderTest::start(options).await.unwrap();
    assert!(node.redis_url().starts_with("redis://:s3cret@"));
    let info = node
        .info(0, &["INFO", "memory"], "maxmemory")
        .await
        .unwrap();
    assert_eq!(info, (64 << 20).to_string());
    let enabled = node
        .info(0, &["INFO", "cluster"], "cluster_enabled")
        .await
        .unwrap();
    assert_eq!(enabled, "0");
    let address = node.address(0).unwrap();
    let second = Duration::from_secs(1);
    let open = tidegate_chaos::resp::NodeConnection::open(address, second, second);
    let reply = open.await.unwrap().command(&["PING"]).await.unwrap();
    assert!(format!("{reply:?}").contains("NOAUTH"), "{reply:?}");
}

#[tokio::test]
async fn a_missing_server_is_an_error_that_names_the_cure() {
    let options = ClusterSpec::single()
        .kind(ClusterKind::Processes)
        .program("/nonexistent/redis-server");
    let error = ClusterUnderTest::start(options).await.unwrap_err();
    assert!(matches!(error, ClusterError::Program { .. }), "{error}");
    assert!(
        error.to_string().contains("apt-get install redis-server"),
        "{error}"
    );
}

#[tokio::test]
async fn a_setting_that_the_server_refuses_is_an_error_with_its_log() {
    let options = ClusterSpec::single().setting("maxmemory-policy", "no-such-policy");
    let error = ClusterUnderTest::start(options).await.unwrap_err();
    assert!(matches!(error, ClusterError::NodeEnded { .. }), "{error}");
}

/// Run by the tests below in a process of its own, which they kill.
#[tokio::test]
async fn owner_that_waits_to_be_killed() {
    if std::env::var_os("TIDEGATE_TEST_OWNER").is_none() {
        return;
    }
    let options = ClusterSpec::default();
    let cluster = ClusterUnderTest::start(options).await.unwrap();
    println!("started {} {:?}", cluster.name(), addresses(&cluster));
    std::future::pending::<()>().await;
}

/// The process that runs [`owner_that_waits_to_be_killed`], and its cluster's traces.
struct Owner {
    process: std::process::Child,
    name: String,
    addresses: Vec<SocketAddr>,
}

impl Owner {
    fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "lifecycle::owner_that_waits_to_be_killed",
                "--nocapture",
            ])
            .env("TIDEGATE_TEST_OWNER", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = std::io::BufReader::new(process.stdout.take().unwrap());
        let started = std::io::BufRead::lines(stdout)
            .map(Result::unwrap)
            .find_map(|line| line.split_once("started ").map(|(_, rest)| rest.to_owned()))
            .unwrap();
        let (name, list) = started.split_once(' ').unwrap();
        let list = list.trim_matches(['[', ']']).split(", ");
        let owner = Self {
            process,
            name: name.to_owned(),
            addresses: list.map(|address| address.parse().unwrap()).collect(),
        };
        assert_eq!(owner.addresses.len(), 6);
        assert!(owner.addresses.iter().all(|&address| answers(address)));
        assert_ne!(owner.traces(), "");
        owner
    }

    /// The processes that it started: its cluster's watchdog.
    fn children(&self) -> Vec<String> {
        let pid = self.process.id().to_string();
        let ps = Command::new("ps")
            .args(["-o", "pid=,comm=", "--ppid", &pid])
            .output();
        let ps = String::from_utf8(ps.unwrap().stdout).unwrap();
        let shells = ps.lines().filter(|line| line.trim_end().ends_with(" sh"));
        shells
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    }

    /// What is left of its cluster, as the machine tells it.
    fn traces(&self) -> String {
        if self.name.starts_with('/') {
            let ps = Command::new("ps")
                .args(["-eo", "pid,args"])
                .output()
                .unwrap();
            let ps = String::from_utf8(ps.stdout).unwrap();
            let ip = self.addresses[0].to_string();
            let left = ps.lines().filter(|line| line.contains(&ip));
            let dir = std::fs::exists(&self.name)
                .unwrap()
                .then_some(self.name.as_str());
            return left.chain(dir).collect();
        }
        let label = format!("label=tidegate.cluster={}", self.name);
        let ask = |args: &[&str]| {
            let docker = Command::new("docker")
                .args(args)
                .args(["--filter", &label])
                .output();
            String::from_utf8(docker.unwrap().stdout).unwrap()
        };
        ask(&["ps", "-aq"]) + &ask(&["network", "ls", "-q"])
    }
}

fn signal(signal: &str, pids: &[String]) {
    let killed = Command::new("kill")
        .arg(signal)
        .args(pids)
        .status()
        .unwrap();
    assert!(killed.success());
}

/// Whether the process has not ended yet; one that only waits to be noted by its parent has.
fn is_alive(pid: &str) -> bool {
    let ps = Command::new("ps").args(["-o", "stat=", "-p", pid]).output();
    let state = String::from_utf8(ps.unwrap().stdout).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
}

#[test]
fn nothing_is_left_of_a_killed_owner() {
    for how in ["-KILL", "-INT", "-TERM"] {
        let mut owner = Owner::start();
        signal(how, &[owner.process.id().to_string()]);
        owner.process.wait().unwrap();
        let begun = Instant::now();
        while owner.traces() != "" {
            let left = owner.traces();
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{how} left {left}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(!owner.addresses.into_iter().any(answers));
    }
}

#[tokio::test]
async fn what_is_left_when_the_watchdog_is_killed_too_goes_with_the_next_start() {
    let mut owner = Owner::start();
    let watchdog = owner.children();
    assert_eq!(watchdog.len(), 1);
    let both = [&watchdog[..], &[owner.process.id().to_string()]].concat();
    signal("-KILL", &both);
    owner.process.wait().unwrap();
    while is_alive(&watchdog[0]) {
        std::thread::sleep(Duration::from_millis(5));
    }

    let next = ClusterUnderTest::start(ClusterSpec::single())
        .await
        .unwrap();
    assert_eq!(owner.traces(), "");
    assert!(!owner.addresses.into_iter().any(answers));
    drop(next);
}

#[tokio::test]
async fn a_cluster_ends_with_the_test_that_panics() {
    let (send, receive) = std::sync::mpsc::channel();
    let failing = tokio::spawn(async move {
        let cluster = ClusterUnderTest::start(ClusterSpec::single())
            .await
            .unwrap();
        send.send(addresses(&cluster)).unwrap();
        assert_eq!(cluster.node_count(), 0, "the panic that this test is about");
    });
    assert!(failing.await.unwrap_err().is_panic());
    assert!(!receive.recv().unwrap().into_iter().any(answers));
}
