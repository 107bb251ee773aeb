//! Scripts as the store knows them: a text and its SHA-1. Never composes one.

use fred::types::Value;

/// One script.
#[derive(Clone, Debug)]
pub(super) struct Script {
    name: &'static str,
    body: Value,
    sha: Value,
}

impl Script {
    pub fn new(name: &'static str, body: &str) -> Self {
        Script {
            name,
            body: Value::String(body.to_owned().into()),
            sha: Value::String(sha1_hex(body.as_bytes()).into()),
        }
    }

    /// What it is called in errors and logs.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its text, as `SCRIPT LOAD` takes it.
    pub fn body(&self) -> Value {
        self.body.clone()
    }

    /// Its hash, as `EVALSHA` takes it.
    pub fn sha(&self) -> Value {
        self.sha.clone()
    }
}

/// Lower-case hex, as the server names scripts.
fn sha1_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    digest
        .as_ref()
        .iter()
        .fold(String::with_capacity(40), |mut hex, byte| {
            // Writing to a string can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// Every script that a store uses: a node gets them all before its first call.
#[derive(Clone, Debug)]
pub(super) struct ScriptSet(Vec<Script>);

impl ScriptSet {
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        ScriptSet(scripts.into_iter().collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Script> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_its_sha1() {
        let script = Script::new("one", "return 1");
        let sha = script.sha().into_string();
        assert_eq!(
            sha.as_deref(),
            Some("e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
        );
    }
}
