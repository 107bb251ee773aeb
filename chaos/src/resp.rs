//! A connection to one node that speaks just enough RESP2 to send a command and read its reply.
//!
//! It never follows a redirect, never reconnects and never retries: an observer of faults must
//! see a node as it is, which a real client's recovery would hide.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Most bytes that a bulk string of a reply may have.
const BULK_LEN_MAX: usize = 64 << 20;
/// Most elements that an array of a reply may have.
const ARRAY_LEN_MAX: usize = 1 << 20;
/// Deepest nesting of arrays in a reply.
const DEPTH_MAX: usize = 16;

/// What a node answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A null string or array.
    Nil,
    /// An integer.
    Int(i64),
    /// A simple or bulk string; bytes that are no UTF-8 are replaced.
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

/// One open connection to a node.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    reply_timeout: Duration,
}

impl Connection {
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
            stream: BufReader::new(stream),
            reply_timeout,
        })
    }

    /// Sends one command and reads its reply; an error reply is a value.
    ///
    /// # Errors
    /// The connection was lost, nothing came in time, or what came is no RESP2. The connection is
    /// of no more use then: a late reply would be taken for the next command's.
    pub async fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        let request = encode(args);
        let timeout = self.reply_timeout;
        within(timeout, async {
            self.stream.get_mut().write_all(&request).await?;
            self.reply().await
        })
        .await
    }

    /// Sends commands together and reads their replies, in order.
    ///
    /// # Errors
    /// As [`Connection::command`].
    pub async fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) -> io::Result<Vec<Reply>> {
        let request: Vec<u8> = commands.iter().flat_map(|args| encode(args)).collect();
        let timeout = self.reply_timeout;
        within(timeout, async {
            self.stream.get_mut().write_all(&request).await?;
            let mut replies = Vec::with_capacity(commands.len());
            for _ in commands {
                replies.push(self.reply().await?);
            }
            Ok(replies)
        })
        .await
    }

    /// Reads one reply. Nested arrays are built on a stack, so a reply can't exhaust ours.
    async fn reply(&mut self) -> io::Result<Reply> {
        let mut open: Vec<(usize, Vec<Reply>)> = Vec::new();
        loop {
            let mut value = match self.element().await? {
                Element::Whole(reply) => reply,
                Element::ArrayOf(0) => Reply::Array(Vec::new()),
                Element::ArrayOf(_) if open.len() == DEPTH_MAX => {
                    return Err(malformed("arrays are nested too deeply"));
                }
                Element::ArrayOf(len) => {
                    open.push((len, Vec::new()));
                    continue;
                }
            };
            loop {
                let Some((len, mut elements)) = open.pop() else {
                    return Ok(value);
                };
                elements.push(value);
                if elements.len() < len {
                    open.push((len, elements));
                    break;
                }
                value = Reply::Array(elements);
            }
        }
    }

    async fn element(&mut self) -> io::Result<Element> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        let (Some(kind), Some(rest)) = (text.chars().next(), text.get(1..)) else {
            return Err(malformed("an empty line"));
        };
        Ok(match kind {
            '+' => Element::Whole(Reply::Text(rest.to_owned())),
            '-' => Element::Whole(Reply::Error(rest.to_owned())),
            ':' => Element::Whole(Reply::Int(number(rest)?)),
            '$' => match usize::try_from(number(rest)?) {
                Err(_) => Element::Whole(Reply::Nil),
                Ok(len) if len > BULK_LEN_MAX => return Err(malformed("a string is too long")),
                Ok(len) => {
                    let mut bytes = vec![0; len + 2];
                    self.stream.read_exact(&mut bytes).await?;
                    bytes.truncate(len);
                    Element::Whole(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
                }
            },
            '*' => match usize::try_from(number(rest)?) {
                Err(_) => Element::Whole(Reply::Nil),
                Ok(len) if len > ARRAY_LEN_MAX => return Err(malformed("an array is too long")),
                Ok(len) => Element::ArrayOf(len),
            },
            _ => return Err(malformed("an unknown type of reply")),
        })
    }
}

/// One line of a reply: a whole value, or the head of an array.
enum Element {
    Whole(Reply),
    ArrayOf(usize),
}

fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args.iter().map(AsRef::as_ref) {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    request
}

fn number(text: &str) -> io::Result<i64> {
    text.parse()
        .map_err(|_| malformed("a length or integer that is none"))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP2: {what}"))
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
