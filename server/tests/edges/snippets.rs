//! The PHP and Python clients of docs/clients, run against a running server.

use std::path::Path;
use std::process::Output;

use tidegate_server::config::Config;
use tokio::process::Command;

use crate::server::{POLICIES, Server};

async fn run(program: &str, package: &str, file: &str, server: &Server, args: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/clients")
        .join(file);
    Command::new(program)
        .arg(file)
        .args(args)
        .env("TIDEGATE_URL", format!("http://{}", server.address))
        .output()
        .await
        .unwrap_or_else(|e| panic!("this test needs {program} (Debian's package `{package}`): {e}"))
}

async fn asks_as_documented(program: &str, package: &str, file: &str) {
    let server = Server::start(POLICIES).await;
    let ask = async |args: &[&str]| {
        let output = run(program, package, file, &server, args).await;
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), told)
    };
    for _ in 0..5 {
        let answer = ask(&["key-1", "us"]).await;
        assert_eq!(answer, (Some(0), "admitted\n".to_owned()));
    }
    let denied = (Some(1), "denied, come again in 60 s\n".to_owned());
    assert_eq!(ask(&["key-1", "us"]).await, denied);
    let answer = ask(&["key-1", "eu"]).await;
    assert_eq!(answer.0, Some(0), "{}", answer.1);
    // A question that is wrong is an error, and not taken for a denial.
    let (code, told) = ask(&["key-1"]).await;
    assert!(code != Some(0) && !told.contains("denied"), "{told}");
    let other = "version: 1\npolicies: {other: {algorithm: sliding_log, global: 1/s}}";
    server
        .limiter
        .replace_policies(Config::parse(other).unwrap().policies)
        .unwrap();
    let (code, told) = ask(&["key-1", "us"]).await;
    assert!(code != Some(0) && !told.contains("denied"), "{told}");
}

#[tokio::test]
async fn php_asks_as_documented() {
    asks_as_documented("php", "php-cli", "check.php").await;
}

#[tokio::test]
async fn python_asks_as_documented() {
    asks_as_documented("python3", "python3", "check.py").await;
}
