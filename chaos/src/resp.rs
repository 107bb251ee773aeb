//! A connection to one node: sends a command, reads its reply.
//!
//! It never follows a redirect, never reconnects and never retries: an observer of faults must
//! see a node as it is, which a real client's recovery would hide.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::encode::encode;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Most bytes of one reply.
const REPLY_LEN_MAX: usize = 64 << 20;
/// Most arrays in one reply: each may stand inside the one before, and the decoder recurses.
const REPLY_ARRAYS_MAX: usize = 1_000;

/// What a node answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A null string or array.
    Nil,
    /// An integer.
    Int(i64),
    /// A simple or bulk string; bytes that are not UTF-8 are replaced.
    Text(String),
    /// An error reply, with its code word first: `MOVED 12706 127.0.0.1:7002`.
    Error(String),
    /// An array.
    Array(Vec<Reply>),
}

impl Reply {
    /// The string of a [`Reply::Text`].
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of a [`Reply::Int`], or of a text that is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The elements of a [`Reply::Array`].
    pub fn array(&self) -> Option<&[Reply]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }
}

impl From<OwnedFrame> for Reply {
    fn from(frame: OwnedFrame) -> Self {
        match frame {
            OwnedFrame::SimpleString(bytes) | OwnedFrame::BulkString(bytes) => {
                Self::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            OwnedFrame::Error(message) => Self::Error(message),
            OwnedFrame::Integer(number) => Self::Int(number),
            OwnedFrame::Array(frames) => Self::Array(frames.into_iter().map(Self::from).collect()),
            OwnedFrame::Null => Self::Nil,
        }
    }
}

/// One open connection to a node.
#[derive(Debug)]
pub struct NodeConnection {
    stream: TcpStream,
    received: Vec<u8>,
    reply_timeout: Duration,
}

impl NodeConnection {
    /// Connects within `connect_timeout`; each reply is then awaited for `reply_timeout` at most.
    ///
    /// # Errors
    /// The operating system's, or [`io::ErrorKind::TimedOut`].
    pub async fn open(
        address: SocketAddr,
        connect_timeout: Duration,
        reply_timeout: Duration,
    ) -> io::Result<Self> {
        let stream = within(connect_timeout, TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::new(),
            reply_timeout,
        })
    }

    /// Sends one command and reads its reply; an error reply is a value.
    ///
    /// # Errors
    /// The connection was lost, nothing came in time, or what came is not RESP2. The connection is
    /// of no more use then: a late reply would be taken for the next command's.
    pub async fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        let mut replies = self.pipeline(&[args]).await?;
        replies.pop().ok_or_else(|| malformed("no reply"))
    }

    /// Sends commands together and reads their replies, in order.
    ///
    /// # Errors
    /// As [`NodeConnection::command`].
    pub async fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) -> io::Result<Vec<Reply>> {
        let mut request = Vec::new();
        for args in commands {
            let args = args.iter().map(|arg| arg.as_ref().to_vec());
            let frame = OwnedFrame::Array(args.map(OwnedFrame::BulkString).collect());
            let from = request.len();
            request.resize(from + frame.encode_len(false), 0);
            let free = request.get_mut(from..).unwrap_or_default();
            encode(free, &frame, false).map_err(|error| malformed(error.details()))?;
        }
        let timeout = self.reply_timeout;
        within(timeout, async {
            self.stream.write_all(&request).await?;
            let mut replies = Vec::with_capacity(commands.len());
            for _ in commands {
                replies.push(self.reply().await?);
            }
            Ok(replies)
        })
        .await
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let lines = self.received.split(|byte| *byte == b'\n');
            let arrays = lines.filter(|line| line.starts_with(b"*"));
            if self.received.len() > REPLY_LEN_MAX || arrays.count() > REPLY_ARRAYS_MAX {
                return Err(malformed("the reply is too large"));
            }
            let decoded = decode(&self.received).map_err(|error| malformed(error.details()))?;
            if let Some((frame, len)) = decoded {
                self.received.drain(..len);
                return Ok(frame.into());
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {what}"))
}

async fn within<T>(
    limit: Duration,
    operation: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match tokio::time::timeout(limit, operation).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} ms", limit.as_millis()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A connection to a node that answers so, piece by piece, and then stays silent.
    async fn answered(pieces: &'static [&'static [u8]]) -> NodeConnection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut node, _) = listener.accept().await.unwrap();
            node.set_nodelay(true).unwrap();
            for piece in pieces {
                node.write_all(piece).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            std::future::pending::<()>().await;
        });
        let limit = Duration::from_millis(300);
        NodeConnection::open(address, limit, limit).await.unwrap()
    }

    #[tokio::test]
    async fn replies_are_read_in_order_however_they_are_cut() {
        let mut node = answered(&[
            b"+O",
            b"K\r\n*3\r\n:-7\r\n$-1\r\n$2\r\n\xff",
            b"a\r\n-ERR no\r\n",
        ])
        .await;
        let replies = node.pipeline(&[&["A"], &["B"], &["C"]]).await.unwrap();
        let array = vec![Reply::Int(-7), Reply::Nil, Reply::Text("\u{fffd}a".into())];
        let expected = [
            Reply::Text("OK".into()),
            Reply::Array(array),
            Reply::Error("ERR no".into()),
        ];
        assert_eq!(replies, expected);
    }

    #[tokio::test]
    async fn what_is_endless_too_deep_or_no_resp_is_an_error() {
        static DEEP: [[u8; 4]; REPLY_ARRAYS_MAX + 1] = [*b"*1\r\n"; REPLY_ARRAYS_MAX + 1];
        static PIECES: [&[u8]; 3] = [DEEP.as_flattened(), b"HTTP/1.1 400\r\n", b"$70\r\nabc"];
        let kinds = [
            io::ErrorKind::InvalidData,
            io::ErrorKind::InvalidData,
            io::ErrorKind::TimedOut,
        ];
        for (piece, kind) in PIECES.chunks(1).zip(kinds) {
            let error = answered(piece).await.command(&["A"]).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
