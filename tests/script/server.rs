//! A real server of this test binary's own: started on a free port, ended when it is dropped.
//! `TIDEGATE_REDIS_SERVER` names the binary (`redis-server`): the same tests hold for Valkey.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, Server as Address, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Value};

pub struct Server {
    child: Child,
    client: Client,
    _dir: tempfile::TempDir,
}

impl Server {
    pub async fn start() -> Self {
        Server::start_with(&[]).await
    }

    pub async fn start_with(options: &[&str]) -> Self {
        let binary = std::env::var("TIDEGATE_REDIS_SERVER").unwrap_or("redis-server".into());
        for _ in 0..5 {
            // Between the look and the server's bind another process may take the port.
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let dir = tempfile::tempdir().unwrap();
            let child = Command::new(&binary)
                .args([
                    "--port",
                    &port.to_string(),
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                ])
                .args(["--bind", "127.0.0.1", "--loglevel", "warning", "--dir"])
                .arg(dir.path())
                .args(options)
                .stdout(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("{binary}: {error}"));
            let mut server = Server {
                child,
                client: client(port),
                _dir: dir,
            };
            if server.reach(port).await {
                return server;
            }
        }
        panic!("{binary} didn't come up");
    }

    async fn reach(&mut self, port: u16) -> bool {
        for _ in 0..250 {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
            {
                self.client = client(port);
                return self.client.init().await.is_ok() && self.is_ours().await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    /// Whether it is the child that answers there, and nobody who took the port before it.
    async fn is_ours(&self) -> bool {
        let info = self.run("INFO server").await.into_string();
        let ours = format!("process_id:{}\r\n", self.child.id());
        info.is_some_and(|info| info.contains(&ours))
    }

    /// Any command; an error reply is an error.
    pub async fn send(&self, name: &'static str, args: Vec<Value>) -> Result<Value, String> {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let reply = self.client.custom(command, args).await;
        reply.map_err(|error: fred::error::Error| error.details().to_owned())
    }

    /// A command in words, for what a test arranges or looks at.
    pub async fn run(&self, line: &str) -> Value {
        let mut words = line.split(' ');
        let name: &'static str = words.next().unwrap().to_owned().leak();
        let args = words.map(|word| Value::String(word.into())).collect();
        self.send(name, args)
            .await
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub async fn integer(&self, line: &str) -> i64 {
        self.run(line)
            .await
            .as_i64()
            .unwrap_or_else(|| panic!("{line}: no integer"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(port: u16) -> Client {
    let config = Config {
        server: ServerConfig::Centralized {
            server: Address::new("127.0.0.1", port),
        },
        ..Config::default()
    };
    Client::new(config, None, None, None)
}
