//! What a node says of itself: `INFO` and `CLUSTER INFO`, read.

use fred::types::Value;

use crate::store::cluster::address::NodeAddress;

/// The oldest server whose scripts can declare what they do (`#!lua flags=...`).
const VERSION_MIN: u32 = 7;

/// What is known of a node; absent is what it didn't say, or may not tell us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeInfo {
    /// `redis_version`; Valkey says 7.2.4 there.
    pub version: Option<String>,
    /// `cluster_enabled`.
    pub cluster: Option<bool>,
    /// `role:master`.
    pub primary: Option<bool>,
    /// It still reads its data.
    pub loading: bool,
    /// `maxmemory_policy`.
    pub eviction: Option<String>,
}

impl NodeInfo {
    /// Reads the reply of `INFO`.
    pub fn parse(text: &str) -> Self {
        let flag = |name| field(text, name).map(|value| value == "1");
        NodeInfo {
            version: field(text, "redis_version").map(str::to_owned),
            cluster: flag("cluster_enabled"),
            primary: field(text, "role").map(|role| role == "master"),
            loading: flag("loading").or(flag("async_loading")).unwrap_or(false),
            eviction: field(text, "maxmemory_policy").map(str::to_owned),
        }
    }

    /// Reads the reply of `HELLO`, names and values in turn: less, but every user may ask.
    pub fn from_hello(reply: Value) -> Self {
        let mut info = NodeInfo::default();
        let pairs: Vec<(String, String)> = match reply {
            Value::Map(map) => {
                let pairs = map.inner().into_iter();
                pairs
                    .filter_map(|(k, v)| Some((k.into_string()?, v.into_string()?)))
                    .collect()
            }
            Value::Array(flat) => {
                let mut texts = flat
                    .into_iter()
                    .map(|v| v.into_string().unwrap_or_default());
                std::iter::from_fn(|| Some((texts.next()?, texts.next()?))).collect()
            }
            _ => Vec::new(),
        };
        for (name, value) in pairs {
            match name.as_str() {
                "mode" => info.cluster = Some(value == "cluster"),
                "role" => info.primary = Some(value == "master"),
                "version" => info.version = Some(value),
                _ => {}
            }
        }
        info
    }

    /// Whether it is older than [`VERSION_MIN`].
    pub fn is_too_old(&self) -> bool {
        let major = self.version.as_deref().and_then(|v| v.split('.').next());
        major
            .and_then(|digits| digits.parse::<u32>().ok())
            .is_some_and(|major| major < VERSION_MIN)
    }

    /// Warns of what would make the limiter wrong or slow there.
    pub fn warn(&self, node: &NodeAddress) {
        if self.is_too_old() {
            let version = self.version.as_deref().unwrap_or_default();
            tracing::warn!(
                %node, version, needed = VERSION_MIN,
                "this server is too old for the scripts: they won't load"
            );
        }
        if let Some(policy) = self.eviction.as_deref().filter(|p| *p != "noeviction") {
            tracing::warn!(
                %node, policy,
                "maxmemory-policy is not noeviction: when memory is full, counters are forgotten \
                 in silence and limits are exceeded"
            );
        }
    }
}

/// Whether `CLUSTER INFO` says that the node holds the cluster for whole.
pub(super) fn is_cluster_ok(text: &str) -> bool {
    field(text, "cluster_state") == Some("ok")
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_what_it_says() {
        let info = NodeInfo::parse(
            "# Server\r\nredis_version:7.0.15\r\nloading:0\r\nrole:master\r\ncluster_enabled:1\r\n\
             maxmemory_policy:allkeys-lru\r\n",
        );
        assert_eq!(info.version.as_deref(), Some("7.0.15"));
        assert_eq!(
            (info.cluster, info.primary, info.loading),
            (Some(true), Some(true), false)
        );
        assert_eq!(info.eviction.as_deref(), Some("allkeys-lru"));
        assert!(!info.is_too_old());
        assert!(NodeInfo::parse("redis_version:6.2.14\r\n").is_too_old());
        assert!(!NodeInfo::parse("").is_too_old());
        assert_eq!(NodeInfo::parse("role:slave").primary, Some(false));
    }

    #[test]
    fn hello_tells_the_least() {
        let flat = ["mode", "standalone", "role", "replica", "version", "7.0.15"];
        let info = NodeInfo::from_hello(Value::Array(flat.map(Value::from).into()));
        assert_eq!((info.cluster, info.primary), (Some(false), Some(false)));
        assert_eq!(info.version.as_deref(), Some("7.0.15"));
        assert_eq!(NodeInfo::from_hello(Value::Null), NodeInfo::default());
    }

    #[test]
    fn a_cluster_is_whole_when_it_says_so() {
        assert!(is_cluster_ok("cluster_state:ok\r\ncluster_size:3\r\n"));
        assert!(!is_cluster_ok("cluster_state:fail\r\n"));
        assert!(!is_cluster_ok(""));
    }
}
