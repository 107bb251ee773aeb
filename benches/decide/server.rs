//! A server of the benchmark's own, asked over a plain socket: many commands on their way at
//! once, so that what is measured is the server's work. Ended when it is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Commands sent before their replies are read.
const AHEAD: usize = 64;

pub struct Server {
    child: Child,
    replies: BufReader<TcpStream>,
    commands: TcpStream,
}

impl Server {
    pub fn start() -> Self {
        let binary = std::env::var("TIDEGATE_REDIS_SERVER").unwrap_or("redis-server".into());
        for _ in 0..5 {
            if let Some(server) = Self::try_start(&binary) {
                return server;
            }
        }
        panic!("{binary} didn't come up");
    }

    fn try_start(binary: &str) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut child = Command::new(binary)
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{binary}: {error}"));
        let stream = (0..250).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            TcpStream::connect(address).ok()
        });
        let Some(stream) = stream else {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        };
        stream.set_nodelay(true).unwrap();
        let mut server = Server {
            child,
            replies: BufReader::new(stream.try_clone().unwrap()),
            commands: stream,
        };
        // Between the look and the bind another process may have taken the port.
        let ours = format!("process_id:{}\r", server.child.id());
        server
            .run(&["INFO", "server"])
            .contains(&ours)
            .then_some(server)
    }

    /// One command, its reply as text.
    pub fn run(&mut self, words: &[&str]) -> String {
        self.commands.write_all(&command(words)).unwrap();
        self.reply()
    }

    /// All commands; panics on an error reply.
    pub fn run_all(&mut self, commands: &[Vec<u8>]) {
        for some in commands.chunks(AHEAD) {
            self.commands.write_all(&some.concat()).unwrap();
            for _ in some {
                self.reply();
            }
        }
    }

    /// The commands' server time in microseconds each, by the server's own account.
    pub fn server_time_of(&mut self, commands: &[Vec<u8>]) -> f64 {
        self.run(&["CONFIG", "RESETSTAT"]);
        self.run_all(commands);
        let info = self.run(&["INFO", "commandstats"]);
        let line = info
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"))
            .expect("no EVALSHA was run");
        let field = |name: &str| -> f64 {
            let value = line.split([':', ',']).find_map(|f| f.strip_prefix(name));
            value.unwrap().parse().unwrap()
        };
        field("usec=") / field("calls=")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn reply(&mut self) -> String {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        match (kind, rest.parse::<i64>()) {
            ("-", _) => panic!("the server says {line}"),
            ("$", Ok(len)) if len >= 0 => {
                let mut bytes = vec![0; len as usize + 2];
                self.replies.read_exact(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes).trim_end().to_owned()
            }
            ("*", Ok(len)) => {
                let parts: Vec<String> = (0..len).map(|_| self.reply()).collect();
                parts.join(" ")
            }
            _ => rest.to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command as it goes over the wire.
pub fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
