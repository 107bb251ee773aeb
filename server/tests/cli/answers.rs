//! One question, one answer: check, peek, refund and reset, against memory, Redis and a server.

use serde_json::Value;

use super::redis::{PASSWORD, Redis, free_port};
use super::served::Served;
use super::{Run, command, file, tidegate};

fn members(json: &Value) -> Vec<&str> {
    json.as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn an_admission_is_0_and_a_denial_1() {
    let admitted = tidegate(&["check", "--policy", "payments", "--subject", "s"]).expect(0);
    assert!(
        admitted
            .out
            .starts_with("admitted: 1 unit for s under payments\n")
    );
    assert!(admitted.err.contains("counted in this process only"));
    let never = [
        "check",
        "--policy",
        "payments",
        "--subject",
        "s",
        "--cost",
        "61",
    ];
    let never = tidegate(&never).expect(1);
    assert!(
        never.out.starts_with("denied for good: 61 units"),
        "{never:#?}"
    );
    let peek = [
        "peek",
        "--policy",
        "video_top",
        "--subject",
        "s",
        "--region",
        "antarctica",
    ];
    tidegate(&peek).expect(1);
}

#[test]
fn json_is_the_documented_decision_and_all_of_standard_output() {
    let flags = [
        "check",
        "--policy",
        "video_top",
        "--subject",
        "s",
        "--region",
        "us",
        "--json",
    ];
    let json = tidegate(&flags).expect(0).json();
    let expected = [
        "admitted", "policy", "subject", "region", "cost", "id", "never", "degraded", "source",
        "binding", "ceilings",
    ];
    let (mut found, mut expected) = (members(&json), expected.to_vec());
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(json["ceilings"][0]["limit"], 1000);
    let decision: tidegate::Decision = serde_json::from_value(json).unwrap();
    assert!(decision.is_admitted());
}

/// The same story on whatever remembers.
fn tell(whom: &[&str], variables: &[(&str, &str)]) {
    let run = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["--policy", "payments", "--subject", "card-7"]);
        all.extend(whom);
        let output = command(&all).envs(variables.iter().copied()).output();
        Run::from(output.unwrap())
    };
    let left = |run: &Run| run.json()["ceilings"][0]["remaining"].as_u64().unwrap();
    let first = run(&["check", "--cost", "50", "--id", "order-1", "--json"]).expect(0);
    assert_eq!(left(&first), 10);
    let again = run(&["check", "--cost", "50", "--id", "order-1", "--json"]).expect(0);
    assert_eq!(left(&again), 10, "a repeated id charges once");
    let denied = run(&["check", "--cost", "11"]).expect(1);
    assert!(denied.out.contains("; again in "), "{denied:#?}");
    assert!(denied.out.contains("denies"), "{denied:#?}");
    assert_eq!(
        left(&run(&["peek", "--json"]).expect(0)),
        10,
        "a peek charges nothing"
    );
    let back = run(&["refund", "--id", "order-1", "--cost", "20", "--json"]).expect(0);
    assert_eq!(back.json()["refunded"], 20);
    assert_eq!(left(&run(&["peek", "--json"]).expect(0)), 30);
    let gone = run(&["refund", "--id", "order-2"]).expect(1);
    assert!(gone.out.contains("no charge order-2"), "{gone:#?}");
    run(&["reset"]).expect(0);
    assert_eq!(left(&run(&["peek", "--json"]).expect(0)), 60);
}

#[test]
fn redis_remembers_from_one_command_to_the_next() {
    let redis = Redis::start();
    tell(&["--deadline", "10s"], &[("TIDEGATE_REDIS", &redis.url())]);
}

#[test]
fn a_server_remembers_and_asks_administrators_for_their_token() {
    const TOKEN: &str = "0123456789abcdef-token";
    let served = Served::start(&[], &[("TIDEGATE_ADMIN_TOKEN", TOKEN)]);
    let token = file(&format!("{TOKEN}\n"));
    let token = token.path().to_str().unwrap();
    tell(
        &["--server", &served.url],
        &[
            ("TIDEGATE_ADMIN_TOKEN_FILE", token),
            ("TIDEGATE_REDIS", "redis://unused:1"),
        ],
    );
    let reset = [
        "reset",
        "--server",
        &served.url,
        "--policy",
        "payments",
        "--subject",
        "s",
    ];
    let refused = tidegate(&reset).expect(2);
    assert!(refused.err.contains("TIDEGATE_ADMIN_TOKEN"), "{refused:#?}");
    assert!(!served.log().contains(TOKEN));
}

#[test]
fn a_wrong_question_to_a_server_is_told_in_its_words() {
    let served = Served::start(&[], &[]);
    let ask = |policy: &str| {
        tidegate(&[
            "check",
            "--server",
            &served.url,
            "--policy",
            policy,
            "--subject",
            "s",
        ])
    };
    assert!(ask("paymnets").expect(2).err.contains("payments"));
    assert!(ask("video_top").expect(2).err.contains("region"));
    let elsewhere = format!("{}/nowhere", served.url);
    let run = tidegate(&[
        "check",
        "--server",
        &elsewhere,
        "--policy",
        "payments",
        "--subject",
        "s",
    ]);
    run.expect(2);
}

#[test]
fn nobody_there_is_2_and_says_who() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let server = format!("http://{nobody}");
    let run = tidegate(&[
        "check",
        "--server",
        &server,
        "--policy",
        "payments",
        "--subject",
        "s",
    ]);
    assert!(run.expect(2).err.contains(&nobody));
    let redis = format!("redis://user:{PASSWORD}@{nobody}");
    let run = tidegate(&[
        "check",
        "--redis",
        &redis,
        "--policy",
        "payments",
        "--subject",
        "s",
    ]);
    let run = run.expect(2);
    assert!(
        run.err.contains("was not ready within") && run.err.contains(&nobody),
        "{run:#?}"
    );
    assert!(!run.err.contains(PASSWORD), "{run:#?}");
}

#[test]
fn a_password_is_never_printed() {
    let redis = Redis::start();
    let secret = "wr0ng-s3cret";
    for url in [
        redis.url_with_password(secret),
        format!("redis://user:{secret}@"),
        format!("redis://user:{secret}@127.0.0.1:x"),
        format!("http://user:{secret}@127.0.0.1:1"),
        format!("redis://user:{secret}@127.0.0.1:1?x=1"),
        format!("rediss://:{secret}@127.0.0.1:1"),
    ] {
        let run = command(&["check", "--policy", "payments", "--subject", "s"])
            .env("TIDEGATE_REDIS", &url)
            .env("RUST_LOG", "trace")
            .output();
        let run = Run::from(run.unwrap()).expect(2);
        assert!(!format!("{run:?}").contains(secret), "{run:#?}");
        for help in ["serve", "check"] {
            let run = command(&[help, "--help"])
                .env("TIDEGATE_REDIS", &url)
                .output();
            assert!(!Run::from(run.unwrap()).out.contains(secret));
        }
    }
    let served = Served::start(
        &["--log-level", "trace"],
        &[("TIDEGATE_REDIS", &redis.url())],
    );
    served.logged("the store is ready");
    let run = tidegate(&[
        "check",
        "--server",
        &served.url,
        "--policy",
        "payments",
        "--subject",
        "s",
    ]);
    run.expect(0);
    assert!(!served.log().contains(PASSWORD), "{}", served.log());
}

#[test]
fn what_the_store_could_not_confirm_is_2_and_says_that_it_was_degraded() {
    let redis = Redis::start();
    let config = file(
        "version: 1
policies:
  closed: {algorithm: sliding_log, global: 5/min, on_outage: deny}
  open: {algorithm: sliding_log, global: 5/min, on_outage: admit}
",
    );
    let config = config.path().to_str().unwrap();
    let served = Served::start(&["--config", config], &[("TIDEGATE_REDIS", &redis.url())]);
    served.logged("the store is ready");
    redis.pause();
    let ask = |policy: &str, form: &[&str]| {
        let mut all = vec!["check", "--server", &served.url, "--policy", policy];
        all.extend(["--subject", "s"]);
        all.extend(form);
        tidegate(&all)
    };
    let denied = ask("closed", &["--json"]).expect(2).json();
    assert_eq!(
        (&denied["admitted"], &denied["degraded"]),
        (&false.into(), &true.into())
    );
    assert_eq!(denied["source"], "outage");
    assert!(
        ask("closed", &[])
            .expect(2)
            .out
            .starts_with("could not decide 1 unit for s")
    );
    let admitted = ask("open", &["--json"]).expect(0).json();
    assert_eq!(admitted["degraded"], true);
}
