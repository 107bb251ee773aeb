//! The short forms in which the common case is answered: a fresh unit against logs of units.
//! Never used for anything else, so a form is told by its length and kind.

use fred::types::Value;

use super::reply::{Reply, integer, packed};
use super::state::State;
use crate::model::{Ceiling, Micros, Timestamp};
use crate::store::StoreError;

/// What a short reply says.
pub(super) struct Short {
    pub states: Vec<State>,
    /// As in the long form: 0 or 1.
    pub verdict: i64,
}

impl Short {
    /// The rest of a reply, if it is a short one.
    pub fn read(
        reply: &mut Reply,
        ceilings: &[Ceiling],
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        if reply.left() == 1 {
            let only = reply.next()?;
            let short = match (integer(&only), ceilings) {
                (Some(used), [_]) => admitted(vec![u64::try_from(used).unwrap_or_default()]),
                _ => denied(&only, ceilings, now)
                    .ok_or_else(|| reply.error("what was noted makes no sense"))?,
            };
            return Ok(Some(short));
        }
        if reply.left() != ceilings.len() {
            return Ok(None);
        }
        let used: Result<Vec<u64>, _> = ceilings.iter().map(|_| reply.count()).collect();
        Ok(Some(admitted(used?)))
    }
}

/// Admitted: the units used before in each log; nothing is newer than what was charged now.
fn admitted(used: Vec<u64>) -> Short {
    let states = used
        .into_iter()
        .map(|used| State::log(used, None, Micros::ZERO));
    Short {
        states: states.collect(),
        verdict: 1,
    }
}

/// Denied by what the last charge noted, as little-endian doubles: its instant, the newest in
/// every log; then for each log its entries and the oldest one's instant. All are whole numbers.
fn denied(note: &Value, ceilings: &[Ceiling], now: Timestamp) -> Option<Short> {
    let mut numbers = packed(note.as_bytes()?);
    let newest = Timestamp::from_micros(numbers.next()??);
    let mut states = Vec::with_capacity(ceilings.len());
    for ceiling in ceilings {
        let used = numbers.next()??;
        let oldest = Timestamp::from_micros(numbers.next()??);
        let full = used >= ceiling.quota.limit();
        let freed_at = oldest + ceiling.quota.window();
        let wait = if full {
            freed_at.since(now)
        } else {
            Micros::ZERO
        };
        states.push(State::log(used, Some(newest), wait));
    }
    Some(Short { states, verdict: 0 })
}
