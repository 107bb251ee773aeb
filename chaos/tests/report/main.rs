//! The report of a history whose figures are known: a shard dies for 1.4 s and comes back.

use tidegate::model::{Algorithm, Allowance, CeilingRule, Policies, Policy, PolicyName};
use tidegate_chaos::oracle::{AnsweredBy, Expectations, Record, ShardMap, Stalls, Status, judge};
use tidegate_chaos::report::{Event, Latency, Report, RunReport, STEP, ScenarioReport, Timeline};

const START: u64 = 1_760_000_000_000_000;
const MS: u64 = 1_000;
const DIED: u64 = START + 3_000 * MS;
const BACK: u64 = START + 4_400 * MS;
const END: u64 = START + 9_000 * MS;

fn expectations() -> Expectations {
    let rule = CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited("1000/4s".parse().unwrap()),
        delay: false,
    };
    let policy = Policy::new(PolicyName::new("chaos").unwrap(), Some(rule), None).unwrap();
    Expectations {
        policies: Policies::new([policy]).unwrap(),
        lateness_max: 10 * MS,
        shards: ShardMap::equal(3),
        denials_excused_until: 0,
        recovery_from: DIED,
        ended_at: END,
        stalls: Stalls::default(),
    }
}

/// Six subjects, two a shard, each asked every 6 ms; shard 1 is away between `DIED` and `BACK`.
fn history(expectations: &Expectations) -> Vec<Record> {
    let mut subjects: Vec<Vec<String>> = vec![Vec::new(); 3];
    for name in (0..200).map(|n| format!("key-{n}")) {
        let of = &mut subjects[usize::from(expectations.shard_of(&name))];
        if of.len() < 2 {
            of.push(name);
        }
    }
    let subjects = subjects.concat();
    let mut records = Vec::new();
    for (n, sent) in (START..END).step_by(1_000).enumerate() {
        let subject = &subjects[n % subjects.len()];
        let away = expectations.shard_of(subject) == 1 && (DIED..BACK).contains(&sent);
        let latency = 300 + (n as u64 * 7_919) % 900;
        records.push(Record {
            instance: (n % 2) as u16,
            policy: "chaos".into(),
            subject: subject.clone(),
            region: None,
            cost: 1,
            id: format!("id-{n}"),
            sent,
            answered: sent + if away { 50 * MS } else { latency },
            late: 0,
            status: if away || n % 5 == 0 {
                Status::Denied
            } else {
                Status::Admitted
            },
            degraded: away,
            by: if away {
                AnsweredBy::Outage
            } else {
                AnsweredBy::Store
            },
            retry_after: None,
        });
    }
    records
}

fn report() -> Report {
    let expectations = expectations();
    let records = history(&expectations);
    let latencies = records.iter().map(|r| r.answered - r.sent).collect();
    let run = RunReport {
        repetition: 1,
        seconds: 9.0,
        judgement: judge(&records, &expectations),
        wrongly_admitted_bound: 40,
        latency: Latency::of(latencies),
        events: vec![
            Event {
                at: DIED,
                label: "kill node 1, <primary>".into(),
            },
            Event {
                at: BACK,
                label: "promotion seen".into(),
            },
        ],
        broken: vec!["7 checks wrongly denied".into()],
        missed: vec!["shard 1 took 1400 ms; the goal is 100 ms".into()],
        takeover: Some(1_350 * MS),
        after_takeover: Some(50 * MS),
        restored: 3,
        stalls: vec![(START + 7_000 * MS, START + 7_300 * MS)],
        timeline: Timeline::of(&records, &expectations, START, END),
    };
    let sound = RunReport {
        repetition: 2,
        broken: Vec::new(),
        ..run.clone()
    };
    let scenario = |name: &str, repair, runs| ScenarioReport {
        name: name.into(),
        fault: "One primary is killed (SIGKILL).".into(),
        promise: "Its shard is served again within the node timeout and a second.".into(),
        cluster: "processes".into(),
        server: "Redis 7.0.15".into(),
        load: "Two instances, 1,000 checks a second.".into(),
        repair,
        runs,
        not_run: vec!["run 3: no <cluster>".into()],
    };
    Report {
        version: "0.1.0".into(),
        began_at: START,
        deadline: 50 * MS,
        scenarios: vec![
            scenario("kill", false, vec![run, sound.clone()]),
            scenario("kill", true, vec![sound]),
        ],
    }
}

#[test]
fn the_timeline_holds_every_check_in_the_step_of_its_instants() {
    let expectations = expectations();
    let records = history(&expectations);
    let timeline = Timeline::of(&records, &expectations, START, END);
    assert_eq!(timeline.steps.len() as u64, (END - START) / STEP);
    let asked: u64 = timeline.steps.iter().map(|step| step.checks).sum();
    assert_eq!(asked, records.len() as u64);
    assert!(timeline.steps.iter().all(|step| step.checks == 100));
    let away = &timeline.steps[35];
    assert_eq!(away.served[1], 0);
    assert!(away.served[0] > 0 && away.served[2] > 0);
    assert!((32..=35).contains(&away.degraded), "{away:?}");
    assert_eq!(away.latency.unwrap().max, 50 * MS);
}

#[test]
fn the_summary_has_the_promised_members() {
    let summaries = serde_json::to_value(report().summaries()).unwrap();
    let kill = &summaries[0];
    for member in [
        "name",
        "cluster",
        "repetitions",
        "checks",
        "admitted",
        "denied",
        "degraded",
        "errors",
        "wrongly_admitted",
        "wrongly_admitted_bound",
        "wrongly_denied",
        "stuck",
        "past_deadline",
        "recovery_ms",
        "repair",
    ] {
        assert!(!kill[member].is_null(), "{member}: {kill}");
    }
    assert_eq!(kill["checks"], 18_000);
    assert_eq!(kill["repetitions"], 2);
    let recovery = kill["recovery_ms"]["max"].as_f64().unwrap();
    // From the kill to the first answer after it.
    assert!((1_400.0..1_410.0).contains(&recovery), "{recovery}");
    assert!(!report().is_sound());
}

#[test]
fn the_page_stands_alone_and_says_what_broke() {
    let dir = tempfile::tempdir().unwrap();
    let path = report().write_to(&dir.path().join("new")).unwrap();
    let page = std::fs::read_to_string(&path).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url(", "<script"] {
        assert!(
            !page.contains(outside),
            "the page loads something: {outside}"
        );
    }
    assert!(page.contains("A promise was broken."));
    assert!(page.contains("Broken: 7 checks wrongly denied"));
    assert!(page.contains("kill node 1, &lt;primary&gt; (3.0 s)"));
    assert!(page.contains("Not run: run 3: no &lt;cluster&gt;"));
    assert!(page.contains("18,000"), "counts are grouped");
    for element in [
        "section", "svg", "table", "details", "tr", "td", "polygon", "title",
    ] {
        let opened = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        let closed = page.matches(&format!("</{element}>")).count();
        let alone = page.matches("/>").count();
        assert!(
            opened == closed || (closed == 0 && opened <= alone),
            "{element}"
        );
    }
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path.with_file_name("chaos.json")).unwrap()).unwrap();
    assert_eq!(
        json["scenarios"][0]["runs"][0]["timeline"]["steps"]
            .as_array()
            .unwrap()
            .len(),
        90
    );
    let table = std::fs::read_to_string(path.with_file_name("chaos.md")).unwrap();
    let rows: Vec<&str> = table.lines().take_while(|l| l.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + report().scenarios.len());
    let columns = rows[0].matches('|').count();
    assert!(rows.iter().all(|row| row.matches('|').count() == columns));
    assert!(rows[2].starts_with("| kill, unrepaired | 2 | "), "{table}");
    if let Some(keep) = std::env::var_os("TIDEGATE_KEEP_REPORT") {
        report().write_to(std::path::Path::new(&keep)).unwrap();
    }
}

#[test]
fn no_name_can_become_markup() {
    let mut report = report();
    report.scenarios[0].name = r#"<a b="c">&"#.into();
    let dir = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(report.write_to(dir.path()).unwrap()).unwrap();
    assert!(page.contains("&lt;a b=&quot;c&quot;&gt;&amp;"));
    assert!(!page.contains("<a b="));
}
