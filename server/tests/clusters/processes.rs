//! Several limiters as processes of their own, on one key.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use tidegate_chaos::cluster::{ClusterKind, ClusterSpec, ClusterUnderTest};

const PROCESSES: usize = 4;
const TASKS: u64 = 250;
const LIMIT: u64 = 1_000;
const ROUNDS: usize = 20;

/// A policy of its own for each round: the subjects are named by the tool.
fn policies() -> tempfile::NamedTempFile {
    let mut text = "version: 1\npolicies:\n".to_owned();
    for round in 0..ROUNDS {
        text += &format!(
            "  round_{round}:\n    algorithm: sliding_log\n    global: {LIMIT}/d\n    on_outage: deny\n"
        );
    }
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn start(config: &tempfile::NamedTempFile, redis: &str, round: usize, bare: bool) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["load", "--json", "--subjects", "1", "--deadline", "20s"])
        .args(["--policy", &format!("round_{round}")])
        .args(["--tasks", &TASKS.to_string(), "--checks", "1500"])
        .args(["--redis", redis, "--config"])
        .arg(config.path());
    if bare {
        // Each check a call of its own: what the store alone does.
        command.args(["--no-denial-cache", "--no-node-ceiling", "--no-lanes"]);
    }
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    piped.stderr(Stdio::piped()).spawn().unwrap()
}

fn counted(child: Child) -> (u64, u64) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{report}"));
    assert_eq!(number("checks"), 1_500);
    assert_eq!((number("errors"), number("degraded")), (0, 0), "{report}");
    (number("admitted"), number("denied"))
}

/// 250 tasks in each of four processes at once: exactly the limit, twenty times over, half of
/// them with the local stage and half without.
#[tokio::test(flavor = "multi_thread")]
async fn four_processes_share_one_limit_exactly_twenty_times_over() {
    let config = policies();
    let options = ClusterSpec::default().kind(ClusterKind::Processes);
    let nodes = ClusterUnderTest::start(options).await.unwrap();
    let redis = nodes.redis_url();
    for round in 0..ROUNDS {
        let bare = round % 2 == 1;
        let start = |_| start(&config, &redis, round, bare);
        let children: Vec<Child> = (0..PROCESSES).map(start).collect();
        let counts: Vec<_> = children.into_iter().map(counted).collect();
        let admitted: u64 = counts.iter().map(|(admitted, _)| admitted).sum();
        assert_eq!(admitted, LIMIT, "round {round}: {counts:?}");
    }
}
