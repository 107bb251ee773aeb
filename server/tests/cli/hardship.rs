//! `tidegate serve` where its surroundings fail it: a log that nobody takes, no file handles left.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::redis::free_port;
use super::{command, tidegate};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// A server whose log isn't read. Dropping it ends it.
struct Unread {
    child: Child,
    address: SocketAddr,
}

impl Unread {
    fn start(command: impl FnOnce(&str) -> Command) -> Self {
        let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let child = command(&address.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Unread { child, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < WAIT_MAX, "it never listened");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn serve(log: impl Into<Stdio>) -> Self {
        Unread::start(|address| {
            let mut serve = command(&["serve", "--listen", address, "--admin-listen", "same"]);
            serve.args(["--log-level", "debug"]).stderr(log);
            serve
        })
    }

    /// Asks so often, by one client after the other.
    fn load(&self, checks: &str) {
        let url = format!("http://{}", self.address);
        let load = [
            "load", "--policy", "internal", "--server", &url, "--checks", checks, "--json",
        ];
        let measured = tidegate(&load).expect(0).json();
        assert_eq!(measured["errors"], 0, "{measured}");
    }

    fn lines_lost(&self) -> u64 {
        let metrics = ask(self.address, "/metrics").expect("an answer");
        let line = metrics
            .lines()
            .find_map(|l| l.strip_prefix("tidegate_log_lines_lost_total "));
        line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    }

    fn ends(mut self) {
        super::redis::signal(self.child.id(), "-TERM");
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert_eq!(status.code(), Some(0));
                return;
            }
            assert!(began.elapsed() < WAIT_MAX, "it heeds no signal");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer, whole, unless the connection ends without one.
fn ask(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    (read.is_ok() || !answer.is_empty()).then_some(answer)
}

#[test]
fn a_log_on_a_full_disk_loses_lines_and_nothing_else() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let server = Unread::serve(full);
    server.load("500");
    assert!(server.lines_lost() >= 500);
    server.ends();
}

#[test]
fn a_log_whose_reader_is_gone_loses_lines_and_nothing_else() {
    let (reader, writer) = std::io::pipe().unwrap();
    let server = Unread::serve(writer);
    drop(reader);
    server.load("500");
    assert!(server.lines_lost() >= 500);
    server.ends();
}

#[test]
fn a_log_whose_reader_stalls_loses_lines_and_nothing_else() {
    let (reader, writer) = std::io::pipe().unwrap();
    let server = Unread::serve(writer);
    // The pipe holds some hundreds of lines, and the server keeps some thousands.
    server.load("20000");
    assert!(server.lines_lost() > 0);
    server.ends();
    drop(reader);
}

#[test]
fn out_of_file_handles_the_next_client_is_told_so_and_the_log_stays_short() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = log.reopen().unwrap();
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let server = Unread::start(|address| {
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!(
                "ulimit -n 64; exec {binary} serve --listen {address} --admin-listen same"
            ))
            .stderr(lines);
        shell
    });
    let held: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    let began = Instant::now();
    let answer = ask(server.address, "/v1/check").expect("told so");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    std::thread::sleep(Duration::from_secs(2));
    let told = std::fs::read_to_string(log.path()).unwrap();
    let said = told.matches("can't accept a connection").count();
    assert!((1..=4).contains(&said), "in {:?}:\n{told}", began.elapsed());
    drop(held);
    let began = Instant::now();
    while !ask(server.address, "/healthz").is_some_and(|a| a.starts_with("HTTP/1.1 200")) {
        assert!(began.elapsed() < WAIT_MAX, "it never recovered");
        std::thread::sleep(Duration::from_millis(20));
    }
}
