//! Charges that were admitted, as a script call that puts back those that a failover lost.
//! Never decides: what was admitted counts, also above a limit that was reached since.

use std::sync::Arc;
use std::time::Instant;

use fred::types::Value;

use super::charge::{instant, number, push_ceilings, text};
use super::keys::Keys;
use super::layout::Layout;
use super::reply::Reply;
use super::strings::Strings;
use super::{Operation, Script, Scripts};
use crate::model::{ChargeId, Cost, KeyPrefix, Micros, Slot, Target, Timestamp};
use crate::store::{CallClock, StoreError};

/// Charges that one call carries at most.
pub const REPLAYS_MAX: usize = 256;

/// A charge as it was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its name.
    pub id: ChargeId,
    /// Its units.
    pub cost: Cost,
    /// The entry's instant in the log: when it was charged, or for a lease when it ends.
    pub at: Timestamp,
    /// How long a lease is held; zero for a charge that is none.
    pub held: Micros,
}

/// Charges of one target on their way back. Sending it twice does the same as sending it once.
#[derive(Debug)]
pub struct ReplayScript {
    target: Arc<Target>,
    charges: Vec<Acknowledged>,
    script: Arc<Script>,
    slot: Slot,
    keys: Strings,
    deadline: Instant,
}

impl ReplayScript {
    /// The script for 1 to [`REPLAYS_MAX`] charges. Only sliding logs know a charge by its id;
    /// the target's other ceilings stay as they are.
    pub fn new(
        scripts: &Scripts,
        prefix: &KeyPrefix,
        target: Arc<Target>,
        charges: Vec<Acknowledged>,
        deadline: Instant,
    ) -> Self {
        let ceilings = &target.ceilings;
        let layout = Layout::new(ceilings, false);
        let names = Keys::of(prefix, &target);
        ReplayScript {
            script: scripts.get(Operation::Replay, &layout),
            slot: names.slot(),
            keys: layout.keys(&names, ceilings),
            target,
            charges,
            deadline,
        }
    }

    /// The slot of its keys.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// When its answer must be there.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// `EVALSHA`'s arguments: the hash, the number of keys, keys, numbers.
    pub fn args(&self) -> Vec<Value> {
        let mut args = vec![self.script.sha1(), number(self.keys.len() as u64)];
        args.extend(self.keys.values());
        args.push(instant(CallClock::Store));
        push_ceilings(&mut args, &self.target.ceilings, CallClock::Store);
        for charge in &self.charges {
            args.push(text(charge.id.as_str()));
            args.push(number(charge.cost));
            let at = charge.at.as_micros();
            args.push(match charge.held {
                Micros::ZERO => number(at),
                held => text(&format!("{at} {}", held.get())),
            });
        }
        args
    }

    /// How many charges had been lost and are there again.
    ///
    /// # Errors
    /// When the reply makes no sense or isn't this call's.
    pub fn decode(&self, value: Value) -> Result<u64, StoreError> {
        let mut reply = Reply::new("replay", value)?;
        if let Some(first) = self.charges.first() {
            reply.expect(first.id.as_str())?;
        }
        reply.count()?;
        let restored = reply.count()?;
        reply.end()?;
        Ok(restored)
    }
}
