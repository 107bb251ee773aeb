//! A refund as a script call, and its reply. Never gives back more than a charge holds.

use std::sync::Arc;

use fred::types::Value;

use super::charge::{instant, number, push_ceilings, push_record, text};
use super::keys::Keys;
use super::layout::Layout;
use super::reply::Reply;
use super::strings::Strings;
use super::{Operation, Script, Scripts};
use crate::model::{KeyPrefix, Slot, UNITS_MAX};
use crate::store::{RefundCall, Refunded, StoreError};

/// A [`RefundCall`] on its way to a server. Not to be sent again after silence: a part that was
/// given back would be given back twice.
#[derive(Debug)]
pub struct RefundScript {
    call: RefundCall,
    script: Arc<Script>,
    slot: Slot,
    keys: Strings,
    is_recorded: bool,
}

impl RefundScript {
    /// The script for a refund.
    pub fn new(scripts: &Scripts, prefix: &KeyPrefix, call: RefundCall) -> Self {
        let ceilings = &call.target.ceilings;
        let layout = Layout::new(ceilings, true);
        let names = Keys::of(prefix, &call.target);
        RefundScript {
            script: scripts.get(Operation::Refund, &layout),
            slot: names.slot(),
            keys: layout.keys(&names, ceilings),
            is_recorded: layout.is_recorded(),
            call,
        }
    }

    /// What is sent.
    pub fn call(&self) -> &RefundCall {
        &self.call
    }

    /// The script to run.
    pub fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// The slot of its keys.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Whether running it twice does the same as running it once: a whole refund forgets the id.
    /// (The second says then that nothing was found.)
    pub fn may_repeat(&self) -> bool {
        self.call.cost.is_none()
    }

    /// `EVALSHA`'s arguments: the hash, the number of keys, keys, numbers.
    pub fn args(&self) -> Vec<Value> {
        let call = &self.call;
        let ceilings = &call.target.ceilings;
        let mut args = vec![self.script.sha1(), number(self.keys.len() as u64)];
        args.extend(self.keys.values());
        args.push(instant(call.clock));
        push_ceilings(&mut args, ceilings, call.clock);
        if self.is_recorded {
            push_record(&mut args, ceilings);
        }
        args.push(text(call.id.as_str()));
        args.push(match call.cost {
            Some(units) => number(units.min(UNITS_MAX)),
            None => text(""),
        });
        args
    }

    /// What a reply says.
    ///
    /// # Errors
    /// When the reply makes no sense or isn't this call's.
    pub fn decode(&self, value: Value) -> Result<Refunded, StoreError> {
        let mut reply = Reply::new("refund", value)?;
        reply.expect(self.call.id.as_str())?;
        reply.count()?;
        let units = reply.count()?;
        reply.end()?;
        Ok(match units {
            0 => Refunded::NotFound,
            units => Refunded::Units(units),
        })
    }
}
