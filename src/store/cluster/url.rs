//! `redis://` and `rediss://` URLs: where the nodes are, and who we are to them.
//!
//! Never shows a password, in no error and in no `Debug`: an error names the part that is wrong,
//! not its text.

use std::fmt;

use super::address::NodeAddress;

/// The port when a URL names none.
const PORT_DEFAULT: u16 = 6379;
/// Most nodes that a list may name.
const SEEDS_MAX: usize = 256;

/// Who we are to the store. Never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user; the server's `default` when absent.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.user, &self.password) {
            (None, None) => "Credentials(none)",
            _ => "Credentials(***)",
        })
    }
}

/// What a URL, or a list of them, says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    /// Nodes to begin with; of a cluster any will do. Not empty, no address twice.
    pub seeds: Vec<NodeAddress>,
    /// Whether connections are encrypted (`rediss://`).
    pub tls: bool,
    /// Who we are.
    pub credentials: Credentials,
    /// The database of a single server; a cluster has 0 only.
    pub database: Option<u8>,
}

/// What is wrong with a URL. Never holds the URL: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// Nothing is there.
    #[error("a store's URL is empty: redis://host:port")]
    Empty,
    /// Another protocol.
    #[error("a store's URL begins with redis:// or rediss://")]
    Scheme,
    /// No host, or a malformed one.
    #[error("a store's URL needs a host: redis://host:port, an IPv6 address in brackets")]
    Host,
    /// No port number.
    #[error("a port of a store's URL is a number from 1 to 65535")]
    Port,
    /// A malformed escape.
    #[error("user or password of a store's URL: `%` stands before two hex digits")]
    Escape,
    /// A malformed database.
    #[error("the path of a store's URL is a database's number: /0 to /255")]
    Database,
    /// Options that nothing reads.
    #[error("a store's URL takes no ?query and no #fragment")]
    Query,
    /// Nodes that can't belong together.
    #[error("the URLs of one store agree on scheme, user, password and database")]
    Mixed,
    /// Too many.
    #[error("a store's URL names at most {SEEDS_MAX} nodes")]
    TooMany,
}

impl StoreUrl {
    /// Reads `redis[s]://[[user]:password@]host[:port][/database]`, or several, separated by
    /// commas; after the first, `host:port` alone will do. `valkey[s]://` is the same. In user
    /// and password, `%` escapes: a comma, a slash or an `@` in them must be escaped.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, StoreUrlError> {
        let mut parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        let mut url = parse_one(parts.next().ok_or(StoreUrlError::Empty)?)?;
        for part in parts {
            let seeds = if part.contains("://") {
                let other = parse_one(part)?;
                if (other.tls, &other.credentials, other.database)
                    != (url.tls, &url.credentials, url.database)
                {
                    return Err(StoreUrlError::Mixed);
                }
                other.seeds
            } else {
                vec![host_and_port(part)?]
            };
            for seed in seeds {
                if !url.seeds.contains(&seed) {
                    url.seeds.push(seed);
                }
            }
        }
        if url.seeds.len() > SEEDS_MAX {
            return Err(StoreUrlError::TooMany);
        }
        Ok(url)
    }
}

fn parse_one(text: &str) -> Result<StoreUrl, StoreUrlError> {
    let (scheme, rest) = text.split_once("://").ok_or(StoreUrlError::Scheme)?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(StoreUrlError::Scheme),
    };
    if rest.contains(['?', '#']) {
        return Err(StoreUrlError::Query);
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let database = match path {
        "" => None,
        digits => Some(digits.parse().map_err(|_| StoreUrlError::Database)?),
    };
    let (credentials, place) = match authority.rsplit_once('@') {
        Some((who, place)) => (credentials(who)?, place),
        None => (Credentials::default(), authority),
    };
    Ok(StoreUrl {
        seeds: vec![host_and_port(place)?],
        tls,
        credentials,
        database,
    })
}

/// `user:password`, `:password`, or a password alone as `redis-cli` takes it is no form of ours:
/// a word without a colon is a user without a password.
fn credentials(text: &str) -> Result<Credentials, StoreUrlError> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let given = |text: &str| -> Result<Option<String>, StoreUrlError> {
        Ok(Some(unescape(text)?).filter(|text| !text.is_empty()))
    };
    Ok(Credentials {
        user: given(user)?,
        password: password.map(given).transpose()?.flatten(),
    })
}

fn host_and_port(text: &str) -> Result<NodeAddress, StoreUrlError> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    if host.is_empty() || (host.contains([':', '[', ']']) && !bracketed) {
        return Err(StoreUrlError::Host);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if !host.trim_matches(['[', ']']).chars().all(plain) {
        return Err(StoreUrlError::Host);
    }
    let port = match port {
        None => PORT_DEFAULT,
        Some(digits) => digits.parse().map_err(|_| StoreUrlError::Port)?,
    };
    if port == 0 {
        return Err(StoreUrlError::Port);
    }
    Ok(NodeAddress::new(host, port))
}

fn unescape(text: &str) -> Result<String, StoreUrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = bytes.next().map(char::from);
            digit
                .and_then(|c| c.to_digit(16))
                .and_then(|d| u8::try_from(d).ok())
        };
        let (high, low) = (digit(), digit());
        let (Some(high), Some(low)) = (high, low) else {
            return Err(StoreUrlError::Escape);
        };
        out.push(high << 4 | low);
    }
    String::from_utf8(out).map_err(|_| StoreUrlError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> StoreUrl {
        StoreUrl::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn seeds(text: &str) -> Vec<String> {
        parsed(text).seeds.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hosts_and_ports_in_every_form() {
        assert_eq!(seeds("redis://localhost"), ["localhost:6379"]);
        assert_eq!(seeds("redis://[::1]:7000/0"), ["[::1]:7000"]);
        assert_eq!(seeds("rediss://[2001:db8::7]"), ["[2001:db8::7]:6379"]);
        assert_eq!(
            seeds("redis://a:1,redis://b:2, c:3,redis://a:1"),
            ["a:1", "b:2", "c:3"]
        );
        assert!(parsed("valkeys://a").tls && !parsed("valkey://a").tls);
        assert_eq!(parsed("redis://a/3").database, Some(3));
    }

    #[test]
    fn user_and_password_are_unescaped_and_never_shown() {
        let url = parsed("rediss://tide:p%40ss%2Cw%2Ford@a:1");
        assert_eq!(url.credentials.user.as_deref(), Some("tide"));
        assert_eq!(url.credentials.password.as_deref(), Some("p@ss,w/ord"));
        let shown = format!("{url:?}");
        assert!(
            !shown.contains("tide") && !shown.contains("p@ss"),
            "{shown}"
        );
        let url = parsed("redis://:se%63ret@a");
        assert_eq!(url.credentials.user, None);
        assert_eq!(url.credentials.password.as_deref(), Some("secret"));
        assert_eq!(parsed("redis://a@b").credentials.user.as_deref(), Some("a"));
    }

    #[test]
    fn every_fault_is_named_without_the_url() {
        use StoreUrlError::{Database, Empty, Escape, Host, Mixed, Port, Query, Scheme};
        for (text, error) in [
            ("", Empty),
            (" , ", Empty),
            ("localhost:6379", Scheme),
            ("http://:secret@a", Scheme),
            ("redis://", Host),
            ("redis://:secret@", Host),
            ("redis://::1:7000", Host),
            ("redis://a b", Host),
            ("redis://a:0", Port),
            ("redis://a:secret", Port),
            ("redis://:%zz@a", Escape),
            ("redis://:%4@a", Escape),
            ("redis://a/secret", Database),
            ("redis://a/256", Database),
            ("redis://a?secret=1", Query),
            ("redis://:secret@a,redis://b", Mixed),
            ("redis://a,rediss://b", Mixed),
        ] {
            let found = StoreUrl::parse(text).unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("secret"));
        }
    }
}
