//! A real Redis of a test's own, with a password; `TIDEGATE_REDIS_SERVER` names another binary.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const PASSWORD: &str = "hush-hush-pw";

pub struct Redis {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Redis {
    pub fn start() -> Self {
        let binary = std::env::var("TIDEGATE_REDIS_SERVER").unwrap_or("redis-server".into());
        for _ in 0..5 {
            // Between the look and the server's bind another process may take the port.
            let port = free_port();
            let directory = tempfile::tempdir().unwrap();
            let child = Command::new(&binary)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--requirepass", PASSWORD, "--dir"])
                .arg(directory.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("{binary}: {error}"));
            let mut redis = Redis {
                child,
                port,
                _directory: directory,
            };
            if redis.comes_up() {
                return redis;
            }
        }
        panic!("{binary} didn't come up");
    }

    fn comes_up(&mut self) -> bool {
        for _ in 0..500 {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub fn url(&self) -> String {
        format!("redis://:{PASSWORD}@127.0.0.1:{}", self.port)
    }

    pub fn url_with_password(&self, password: &str) -> String {
        format!("redis://:{password}@127.0.0.1:{}", self.port)
    }

    /// Stops it without a word, as a long garbage collection or a full disk would.
    pub fn pause(&self) {
        signal(self.child.id(), "-STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        signal(self.child.id(), "-CONT");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a signal to a child of ours.
pub fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}
