//! An HTTP/1.1 client that sends what it is told, also what is wrong.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header field that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        let first = values.next();
        assert!(values.next().is_none(), "{name} twice in {}", self.head);
        first
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}\n{:?}", self.head, self.text()))
    }

    /// Asserts that this is a problem of `status` whose detail holds `words`.
    pub fn assert_problem(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let body = self.json();
        assert_eq!(body["status"], status);
        assert!(body["title"].is_string() && body["type"].is_string());
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{words} in {detail}");
    }
}

/// A connection.
pub struct Client {
    pub stream: TcpStream,
    /// What came after the last answer.
    rest: Vec<u8>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        Client {
            stream: TcpStream::connect(address).await.unwrap(),
            rest: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads one answer, or `None` when the connection ended before one.
    pub async fn try_read(&mut self) -> Option<Answer> {
        let mut bytes = std::mem::take(&mut self.rest);
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            // A reset is an end, too: the server may close while we still send.
            if self.stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                assert!(bytes.is_empty(), "half an answer: {bytes:?}");
                return None;
            }
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: bytes[head_end..].to_vec(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |n| n.parse().unwrap());
        while answer.body.len() < length {
            let read = self.stream.read_buf(&mut answer.body).await.unwrap();
            assert_ne!(read, 0, "the body broke off");
        }
        self.rest = answer.body.split_off(length);
        Some(answer)
    }

    pub async fn read(&mut self) -> Answer {
        self.try_read()
            .await
            .expect("the connection ended without an answer")
    }

    /// Whether the server has closed the connection.
    pub async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]).await, Ok(0) | Err(_))
    }

    pub async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.post_with(path, "", body).await
    }

    /// Posts with further header lines, each ended by `\r\n`.
    pub async fn post_with(&mut self, path: &str, lines: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(format!(
            "POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n{lines}\
             Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        self.read().await
    }

    pub async fn get(&mut self, path: &str, lines: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: t\r\n{lines}\r\n"))
            .await;
        self.read().await
    }
}

/// One request on a connection of its own.
pub async fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    Client::connect(address).await.post(path, body).await
}

/// One request on a connection of its own.
pub async fn get(address: SocketAddr, path: &str, lines: &str) -> Answer {
    Client::connect(address).await.get(path, lines).await
}
