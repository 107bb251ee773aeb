//! What the server's edges may be told: names of headers, whom to trust, forms, bounds.
//! Never holds a value that an edge would have to check again.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::bounds::Bounds;
use super::network::Network;
use super::secret::Secret;

/// The lowest and highest prefix by which IPv6 subjects may be grouped.
pub const IPV6_PREFIX_MIN: u8 = 48;
/// See [`IPV6_PREFIX_MIN`].
pub const IPV6_PREFIX_MAX: u8 = 128;
/// The highest number of checks that a batch may be allowed to hold.
pub const BATCH_MAX_MAX: usize = 10_000;
/// The smallest bound of a request's body, in bytes.
pub const BODY_BYTES_MIN: usize = 1_024;
/// The largest bound of a request's body, in bytes.
pub const BODY_BYTES_MAX_MAX: usize = 64 * 1_024 * 1_024;
/// The most networks of trusted proxies.
pub const TRUSTED_PROXIES_MAX: usize = 256;

/// Settings of the server's edges, each valid by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The header of `/v1/auth` that names the policy.
    pub policy_header: HeaderField,
    /// The header of `/v1/auth` that names the subject; without it, the client's address is the
    /// subject.
    pub subject_header: HeaderField,
    /// The header of `/v1/auth` that names the region.
    pub region_header: HeaderField,
    /// Peers whose `X-Forwarded-For` is believed; none by default.
    pub trusted_proxies: Vec<Network>,
    /// IPv6 clients are one subject by their first so many bits (48..=128).
    pub ipv6_prefix: u8,
    /// The form of a denial's body.
    pub error_body: ErrorBody,
    /// Which draft's `RateLimit` fields are sent.
    pub ratelimit_headers: RateLimitHeaders,
    /// What `X-RateLimit-Reset` counts.
    pub x_ratelimit_reset: XRateLimitReset,
    /// The bearer token of refunds and resets; without one they are off. Never from the file.
    pub admin_token: Option<Secret>,
    /// The most checks in a batch (1..=`BATCH_MAX_MAX`).
    pub batch_max: usize,
    /// The longest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// How much of the server its clients may take up at once.
    pub bounds: Bounds,
}

impl Default for Settings {
    fn default() -> Self {
        let header = |name: &str| HeaderField(name.into());
        Settings {
            policy_header: header("x-tidegate-policy"),
            subject_header: header("x-tidegate-subject"),
            region_header: header("x-tidegate-region"),
            trusted_proxies: Vec::new(),
            ipv6_prefix: 64,
            error_body: ErrorBody::default(),
            ratelimit_headers: RateLimitHeaders::default(),
            x_ratelimit_reset: XRateLimitReset::default(),
            admin_token: None,
            batch_max: 1_000,
            body_bytes_max: 1_024 * 1_024,
            bounds: Bounds::default(),
        }
    }
}

impl Settings {
    /// Whether `peer` may say for whom it forwards.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(peer))
    }
}

/// The name of a header field, in lower case.
/// Invariant: 1 to 64 of the characters of an HTTP token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderField(Box<str>);

/// Text that can't name a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` can't name a header: 1 to 64 letters, digits and !#$%&'*+-.^_`|~")]
pub struct HeaderFieldError(String);

impl HeaderField {
    /// The name, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HeaderField {
    type Err = HeaderFieldError;

    fn from_str(text: &str) -> Result<Self, HeaderFieldError> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if text.is_empty() || text.len() > 64 || !text.bytes().all(token) {
            return Err(HeaderFieldError(text.to_owned()));
        }
        Ok(HeaderField(text.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for HeaderField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word that is none of a setting's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is none of {choices}")]
pub struct ChoiceError {
    given: String,
    choices: String,
}

/// Defines a setting of a few words, read and shown by the same names.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// All words, the default first.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word in files and flags.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = ChoiceError;
            fn from_str(text: &str) -> Result<Self, ChoiceError> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(ChoiceError {
                        given: text.to_owned(),
                        choices: Self::WORDS.join(", "),
                    }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choice! {
    /// The form of a denial's body.
    ErrorBody {
        /// `application/problem+json` with the decision's members (RFC 9457).
        #[default]
        Problem = "problem",
        /// `{"error":"rate_limited","retry_after":…,"region":…}`.
        Short = "short",
    }
}

choice! {
    /// Which text of draft-ietf-httpapi-ratelimit-headers the `RateLimit` fields follow.
    RateLimitHeaders {
        /// The 11th: `r` and `t`.
        #[default]
        Draft11 = "draft-11",
        /// The working text after it: `a`, `w` and `c`.
        Draft12 = "draft-12",
        /// No `RateLimit` and `RateLimit-Policy` fields.
        Off = "off",
    }
}

choice! {
    /// What `X-RateLimit-Reset` counts.
    XRateLimitReset {
        /// Seconds since the Unix epoch, as GitHub's.
        #[default]
        Epoch = "epoch",
        /// Seconds from now, as Envoy's.
        Delta = "delta",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_token_in_lower_case() {
        let header: HeaderField = "X-API-Key".parse().unwrap();
        assert_eq!(header.as_str(), "x-api-key");
        for bad in ["", "x y", "x:y", "x\n", "ü", &"x".repeat(65)] {
            assert!(bad.parse::<HeaderField>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_choice_reads_its_own_words_and_lists_them_otherwise() {
        for word in RateLimitHeaders::WORDS {
            assert_eq!(word.parse::<RateLimitHeaders>().unwrap().name(), *word);
        }
        let error = "xml".parse::<ErrorBody>().unwrap_err().to_string();
        assert_eq!(error, "`xml` is none of problem, short");
    }

    #[test]
    fn nobody_is_trusted_by_default() {
        let mut settings = Settings::default();
        let peer = "10.1.2.3".parse().unwrap();
        assert!(!settings.trusts(peer));
        settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        assert!(settings.trusts(peer));
    }
}
