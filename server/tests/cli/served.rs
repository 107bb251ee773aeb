//! `tidegate serve` as a child: started on a free port, read by its log, ended when dropped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::command;

/// How long anything may take that a test waits for.
const WAIT_MAX: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

pub struct Served {
    child: Child,
    log: Arc<Log>,
    pub url: String,
}

impl Served {
    /// A server that listens, with its log in JSON.
    pub fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--log", "json"];
        // Others serve on this machine, too.
        if !arguments.contains(&"--admin-listen") {
            all.extend(["--admin-listen", "same"]);
        }
        all.extend(arguments);
        let mut served = Served::spawn(&all, variables);
        let line = served.logged(r#""message":"listening""#);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        served.url = format!("http://{}", line["address"].as_str().unwrap());
        served
    }

    /// Any `serve`, which may not come up.
    pub fn spawn(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = command(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Log::default());
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let reader = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                reader.lines.lock().unwrap().push(line);
                reader.more.notify_all();
            }
        });
        let url = String::new();
        Served { child, log, url }
    }

    /// The first line that holds `text`, waited for.
    pub fn logged(&self, text: &str) -> String {
        let until = Instant::now() + WAIT_MAX;
        let mut lines = self.log.lines.lock().unwrap();
        loop {
            if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never logged {text}: {lines:#?}");
            (lines, _) = self.log.more.wait_timeout(lines, left).unwrap();
        }
    }

    /// All lines so far.
    pub fn log(&self) -> String {
        self.log.lines.lock().unwrap().join("\n")
    }

    /// Sends a signal, such as `-HUP`.
    pub fn signal(&self, signal: &str) {
        super::redis::signal(self.child.id(), signal);
    }

    /// The exit code, waited for.
    pub fn ended(&mut self) -> Option<i32> {
        let until = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "still runs: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
