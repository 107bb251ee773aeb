//! `redis://` and `rediss://` URLs: where the nodes are, and who we are to them.
//!
//! Never shows a password, in no error and in no `Debug`: an error names the part that is wrong,
//! not its text.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::{ParseError, Url};

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
#[non_exhaustive]
pub struct StoreUrl {
    seeds: Vec<NodeAddress>,
    /// Whether connections are encrypted (`rediss://`).
    pub tls: bool,
    /// Who we are.
    pub credentials: Credentials,
    /// The database of a single server; a cluster has 0 only.
    pub database: Option<u8>,
}

/// What is wrong with a URL. Never holds the URL: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
            let other = if part.contains("://") {
                parse_one(part)?
            } else {
                let address = parse_one(&format!("redis://{part}"))?;
                if address.credentials != Credentials::default() || address.database.is_some() {
                    return Err(StoreUrlError::Mixed);
                }
                StoreUrl {
                    seeds: address.seeds,
                    ..url.clone()
                }
            };
            if (other.tls, &other.credentials, other.database)
                != (url.tls, &url.credentials, url.database)
            {
                return Err(StoreUrlError::Mixed);
            }
            for seed in other.seeds {
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

    /// Nodes to begin with; of a cluster any will do. Not empty, no address twice.
    pub fn seeds(&self) -> &[NodeAddress] {
        &self.seeds
    }
}

fn parse_one(text: &str) -> Result<StoreUrl, StoreUrlError> {
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::InvalidPort => StoreUrlError::Port,
        ParseError::RelativeUrlWithoutBase => StoreUrlError::Scheme,
        _ => StoreUrlError::Host,
    })?;
    let tls = match url.scheme() {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(StoreUrlError::Scheme),
    };
    if url.query().is_some() || url.fragment().is_some() {
        return Err(StoreUrlError::Query);
    }
    let database = match url.path().strip_prefix('/').unwrap_or_default() {
        "" => None,
        digits => Some(digits.parse().map_err(|_| StoreUrlError::Database)?),
    };
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or(StoreUrlError::Host)?;
    let port = url.port().unwrap_or(PORT_DEFAULT);
    if port == 0 {
        return Err(StoreUrlError::Port);
    }
    Ok(StoreUrl {
        seeds: vec![NodeAddress::new(host, port)],
        tls,
        // A word without a colon is a user, not a password as `redis-cli` takes it.
        credentials: Credentials {
            user: decode(url.username())?,
            password: decode(url.password().unwrap_or_default())?,
        },
        database,
    })
}

/// A user or password without its escapes; nothing when it is empty.
fn decode(text: &str) -> Result<Option<String>, StoreUrlError> {
    let is_hex = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_hex) {
        return Err(StoreUrlError::Escape);
    }
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| StoreUrlError::Escape)?;
    Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
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
        assert_eq!(
            seeds("redis://A_b.example:7,[::1]:2"),
            ["A_b.example:7", "[::1]:2"]
        );
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
            ("redis://:secret@a,:secret@b:2", Mixed),
            ("redis://a,b/1", Mixed),
            ("redis://:sec#ret@a", Host),
            ("redis:a", Host),
            ("redis://[::1", Host),
        ] {
            let found = StoreUrl::parse(text).unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("secret"));
        }
    }
}
