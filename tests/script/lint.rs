//! The scripts' Lua is Lua, as Redis runs it (5.1): each file by itself, and each text that is
//! composed out of them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use tidegate::model::{Algorithm, ChargeId, KeyPrefix, Target};
use tidegate::store::cluster::script::{ChargeScript, RefundScript, ReplayScript, Scripts};
use tidegate::store::{CallClock, CallKind, ChargeCall, IdOrigin, RefundCall};

use super::rig::{request, target};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with what the tool says, or when none of these names is a tool that is here.
fn passes(names: &[&str], args: &[&str]) {
    for name in names {
        let Ok(output) = Command::new(name).args(args).current_dir(root()).output() else {
            continue;
        };
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{name} {args:?}: {said}");
        return;
    }
    panic!("install {names:?} (Debian's lua5.1 and lua-check)");
}

fn luac(path: &str) {
    passes(&["luac5.1", "luac"], &["-p", path]);
}

/// Every script that a policy of one or two ceilings may need.
fn every_script() -> Scripts {
    let scripts = Scripts::default();
    let names = Algorithm::ALL.map(|algorithm| format!("{} 9/min", algorithm.name()));
    for g in &names {
        needed_by(&scripts, target("s", g, ""));
        for r in &names {
            needed_by(&scripts, target("s", g, r));
        }
    }
    scripts
}

fn needed_by(scripts: &Scripts, target: Arc<Target>) {
    let (prefix, deadline, clock) = (KeyPrefix::default(), Instant::now(), CallClock::Store);
    for kind in [CallKind::Charge, CallKind::Peek] {
        for origin in [IdOrigin::Fresh, IdOrigin::Caller] {
            let call = ChargeCall {
                target: Arc::clone(&target),
                requests: vec![request("a", origin, 1)],
                clock,
                kind,
                deadline,
            };
            ChargeScript::new(scripts, &prefix, call).unwrap();
        }
    }
    let refund = RefundCall {
        target: Arc::clone(&target),
        id: ChargeId::new("a").unwrap(),
        cost: None,
        clock,
        deadline,
    };
    RefundScript::new(scripts, &prefix, refund);
    ReplayScript::new(scripts, &prefix, target, Vec::new(), deadline);
}

#[test]
fn every_file_is_plain_lua() {
    for entry in std::fs::read_dir(root().join("lua")).unwrap() {
        luac(entry.unwrap().path().to_str().unwrap());
    }
    passes(&["luacheck"], &["--no-color", "-q", "lua"]);
}

#[test]
fn every_composed_text_is_plain_lua() {
    let dir = std::env::temp_dir().join(format!("tidegate-lint-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let scripts = every_script().composed();
    // 30 shapes, each with four operations; without a log, charges and peeks with a record too.
    assert_eq!(scripts.len(), 160);
    for (n, script) in scripts.iter().enumerate() {
        let text = script.text().into_string().unwrap();
        // Redis takes the first line off.
        let (shebang, text) = text.split_once('\n').unwrap();
        assert!(shebang.starts_with("#!lua"), "{}", script.name());
        std::fs::write(dir.join(format!("{n}.lua")), text).unwrap();
    }
    for entry in std::fs::read_dir(&dir).unwrap() {
        luac(entry.unwrap().path().to_str().unwrap());
    }
    // What a shape doesn't use, and conditions that it decides, are no faults here; globals are.
    let lenient = [
        "--no-unused",
        "--no-redefined",
        "--no-max-line-length",
        "--ignore",
        "511",
        "542",
    ];
    let args = ["--no-color", "-q", "--std", "redis", dir.to_str().unwrap()];
    passes(&["luacheck"], &[&args[..], &lenient[..]].concat());
    std::fs::remove_dir_all(&dir).unwrap();
}
