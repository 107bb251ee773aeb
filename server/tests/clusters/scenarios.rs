//! Every scenario, shortened: on containers where Docker runs, else on processes. Timings are the
//! machine's and are not asserted here; promises are.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_chaos::load::InstanceProgram;
use tidegate_chaos::report::RunReport;
use tidegate_chaos::scenario::{Against, Runner, ScenarioError, scenario};
use tokio::sync::Mutex;

/// One at a time: two clusters and six instances would measure each other.
static STAGE: Mutex<()> = Mutex::const_new(());

fn runner() -> Runner {
    Runner {
        against: Against::Own(None),
        program: InstanceProgram {
            path: PathBuf::from(env!("CARGO_BIN_EXE_tidegate")),
            args: vec!["chaos-instance".into()],
        },
        seconds: 5,
        repetitions: 1,
        // A test machine stalls for longer than a server's; what is late is measured all the same.
        deadline: Duration::from_millis(100),
        lateness_max: Duration::from_millis(250),
        node_timeout: Duration::from_secs(1),
        local_stage: true,
        key_prefix: "tgchaos".into(),
        keep_histories: None,
    }
}

async fn run(name: &str, repair: bool) -> Result<RunReport, ScenarioError> {
    let _alone = STAGE.lock().await;
    let scenario = scenario(name).unwrap();
    let report = runner()
        .scenario(scenario, repair, |_, _| (), |_, _| ())
        .await?;
    let run = report.runs.into_iter().next().unwrap();
    println!(
        "{name}: {:?}\n{:?}\n{:?}",
        run.events, run.missed, run.judgement
    );
    Ok(run)
}

/// How often a scenario is run until nothing is late in it.
const ATTEMPTS_MAX: usize = 3;

/// What a machine that stands still brings about by itself. A wrong answer it can't.
fn is_lateness(broken: &str) -> bool {
    broken.ends_with("never came back") || broken.ends_with("calls past their deadline")
}

/// Runs a scenario whose promises must hold: no answer may be wrong in any attempt, and in one of
/// them nothing may be late.
async fn keeps_its_promises(name: &str, repair: bool) -> RunReport {
    let mut attempt = 1;
    let run = loop {
        let run = run(name, repair)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_late = !run.broken.is_empty() && run.broken.iter().all(|what| is_lateness(what));
        if !is_late || attempt == ATTEMPTS_MAX {
            break run;
        }
        println!("{name}, attempt {attempt}: {:?}", run.broken);
        attempt += 1;
    };
    assert!(run.broken.is_empty(), "{name}: {:?}", run.broken);
    let judged = &run.judgement;
    assert_eq!(judged.checks, judged.admitted + judged.denied);
    // Hot subjects were denied and cool ones admitted, or nothing was put to the test.
    assert!(judged.denied > 100 && judged.admitted > 1_000, "{judged:?}");
    assert_eq!(judged.shards.len(), 3);
    assert!(!run.events.is_empty());
    run
}

/// The shard that was hurt was without service, and the fault was seen in the answers.
fn was_felt(run: &RunReport, at_least_ms: u64) {
    let hurt = run.judgement.shards[1];
    assert!(hurt.longest_gap >= at_least_ms * 1_000, "{hurt:?}");
    assert!(run.judgement.degraded > 0);
}

macro_rules! scenarios {
    ($($test:ident: $name:literal, $repair:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            keeps_its_promises($name, $repair).await;
        }
    )*};
}

scenarios! {
    nothing_is_done: "steady", true;
    connections_are_reset: "resets", true;
    a_link_is_slow: "latency", true;
    a_link_loses_packets: "loss", true;
    a_replica_takes_over_as_planned: "failover", true;
    a_slot_moves_key_by_key: "migrate-slot", true;
    scripts_are_flushed: "script-flush", true;
    a_primary_forgets_all_data: "flush-all", true;
    a_clock_steps_back: "clock-step", true;
    all_nodes_restart_one_by_one: "rolling-restart", true;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_killed() {
    was_felt(&keeps_its_promises("kill", false).await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_killed_and_what_it_lost_is_put_back() {
    was_felt(&keeps_its_promises("kill", true).await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_stopped_in_order() {
    was_felt(&keeps_its_promises("stop", true).await, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_paused() {
    was_felt(&keeps_its_promises("pause", true).await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_cut_off() {
    was_felt(&keeps_its_promises("cut-off", true).await, 1_000);
}

/// Clients may feel nothing of it: they are served by the old primary until the new one is there.
/// What the old one acknowledged meanwhile is lost, and only a repair puts it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_cut_off_from_its_peers_only() {
    let run = keeps_its_promises("split-brain", false).await;
    assert!(run.takeover.is_some() && run.wrongly_admitted_bound > 0);
    assert_eq!(run.restored, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_cut_off_from_its_peers_only_and_what_it_lost_is_put_back() {
    let run = keeps_its_promises("split-brain", true).await;
    assert!(run.takeover.is_some() && run.restored > 0);
    // What other instances charge before the last one has replayed can be too much.
    let over = run.judgement.wrongly_admitted;
    assert!(over * 20 <= run.wrongly_admitted_bound, "{over}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_has_no_memory_left() {
    was_felt(&keeps_its_promises("max-memory", true).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_primaries_of_three_die() {
    was_felt(&keeps_its_promises("two-primaries-down", true).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_die_and_come_back() {
    was_felt(&keeps_its_promises("all-down", true).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_at_once_where_the_server_can_and_the_cure_is_named_where_it_cannot() {
    match run("migrate-atomic", true).await {
        Ok(run) => assert!(run.broken.is_empty(), "{:?}", run.broken),
        Err(error) => {
            assert!(error.is_unsupported(), "{error}");
            assert!(error.to_string().contains("Valkey 9"), "{error}");
        }
    }
}
