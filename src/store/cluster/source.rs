//! Every script that a store uses: a node gets them all before its first call. Never runs one.

use std::sync::Arc;

use super::script::{Script, Scripts};

/// The scripts of charges, composed when first asked for, and the fleet's.
#[derive(Debug)]
pub(super) struct ScriptSet {
    pub charging: Scripts,
    pub fleet: Arc<Script>,
}

impl ScriptSet {
    pub fn new() -> Self {
        let fleet = include_str!("../../../lua/fleet.lua");
        ScriptSet {
            charging: Scripts::default(),
            fleet: Arc::new(Script::new("fleet".into(), fleet.into())),
        }
    }

    /// All that are in use so far.
    pub fn in_use(&self) -> Vec<Arc<Script>> {
        let mut scripts = self.charging.composed();
        scripts.push(Arc::clone(&self.fleet));
        scripts
    }
}
