//! What an operator writes, from raw text to valid values.
//!
//! Never holds a value that is not valid, and never applies a part of a file.

mod cidr;
mod secret;
mod server;

pub use cidr::{Cidr, CidrError, masked, unmapped};
pub use secret::{Secret, SecretError};
pub use server::{
    BATCH_MAX_MAX, BODY_BYTES_MAX_MAX, BODY_BYTES_MIN, ChoiceError, ErrorBody, HeaderField,
    HeaderFieldError, IPV6_PREFIX_MAX, IPV6_PREFIX_MIN, RateLimitHeaders, ServerSettings,
    TRUSTED_PROXIES_MAX, XRateLimitReset,
};
