//! A token that must not be seen. Never shown by `Debug`, `Display` or serde.

use std::fmt;

/// A secret text, such as an administrator's bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// Why a [`Secret`] can't be used as a bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Too easily guessed.
    #[error("a token of fewer than {} characters is too short", Secret::LEN_MIN)]
    TooShort,
    /// Can't be sent in a header.
    #[error("a token holds printable ASCII characters only, without spaces")]
    NotPrintable,
}

impl Secret {
    /// The fewest characters of a token.
    pub const LEN_MIN: usize = 16;

    /// A bearer token.
    ///
    /// # Errors
    /// When it is shorter than [`Secret::LEN_MIN`], or can't be sent in a header.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        match text.len() {
            _ if !text.bytes().all(|b| b.is_ascii_graphic()) => Err(SecretError::NotPrintable),
            len if len < Self::LEN_MIN => Err(SecretError::TooShort),
            _ => Ok(Secret(text.into())),
        }
    }

    /// The text, for whoever has to send it. Never for a log or a message.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `given` is this token; the time it takes tells nothing but the length.
    pub fn matches(&self, given: &str) -> bool {
        let differing = self
            .0
            .bytes()
            .zip(given.bytes())
            .fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differing) == 0 && self.0.len() == given.len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_whole_and_never_shown() {
        let secret = Secret::new("0123456789abcdef").unwrap();
        assert!(secret.matches("0123456789abcdef"));
        for other in [
            "",
            "0123456789abcde",
            "0123456789abcdefg",
            "0123456789abcdeF",
        ] {
            assert!(!secret.matches(other), "{other}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }

    #[test]
    fn a_token_that_is_guessed_or_can_not_be_sent_is_refused() {
        assert_eq!(Secret::new("short"), Err(SecretError::TooShort));
        assert_eq!(
            Secret::new("0123456789 abcdef"),
            Err(SecretError::NotPrintable)
        );
    }
}
