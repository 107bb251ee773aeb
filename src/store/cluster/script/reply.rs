//! Reads a script's reply, element by element. Never panics on one that makes no sense.

use fred::types::Value;

use crate::store::{StoreError, StoreErrorKind};

/// The elements of a reply, in order.
pub(super) struct Reply {
    operation: &'static str,
    elements: std::vec::IntoIter<Value>,
}

impl Reply {
    pub fn new(operation: &'static str, value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(elements) => Ok(Reply {
                operation,
                elements: elements.into_iter(),
            }),
            other => Err(nonsense(operation, &format!("{:?}", other.kind()))),
        }
    }

    /// An answer that makes no sense: the call may have run.
    pub fn error(&self, what: &str) -> StoreError {
        nonsense(self.operation, what)
    }

    pub fn next(&mut self) -> Result<Value, StoreError> {
        let next = self.elements.next();
        next.ok_or_else(|| self.error("it is too short"))
    }

    /// How many elements are left.
    pub fn left(&self) -> usize {
        self.elements.len()
    }

    pub fn integer(&mut self) -> Result<i64, StoreError> {
        let value = self.next()?;
        integer(&value).ok_or_else(|| self.error("an element is no integer"))
    }

    /// An integer that can't be negative.
    pub fn count(&mut self) -> Result<u64, StoreError> {
        u64::try_from(self.integer()?).map_err(|_| self.error("a count is negative"))
    }

    /// The next element must be this text: the reply is this call's.
    pub fn expect(&mut self, text: &str) -> Result<(), StoreError> {
        match self.next()?.as_bytes() {
            Some(bytes) if bytes == text.as_bytes() => Ok(()),
            _ => Err(self.error("it is another call's")),
        }
    }

    pub fn end(&mut self) -> Result<(), StoreError> {
        match self.elements.next() {
            None => Ok(()),
            Some(_) => Err(self.error("it is too long")),
        }
    }
}

pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(n) => Some(*n),
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse().ok(),
    }
}

/// Whole numbers that a script packed as little-endian doubles.
pub(super) fn packed(bytes: &[u8]) -> impl Iterator<Item = Option<u64>> + '_ {
    bytes.chunks(8).map(|eight| {
        let number = f64::from_le_bytes(eight.try_into().ok()?);
        // Below 2^53 a double is exact.
        (0.0..9e15).contains(&number).then_some(number as u64)
    })
}

fn nonsense(operation: &'static str, what: &str) -> StoreError {
    let detail = format!("the script's reply makes no sense: {what}");
    StoreError::unknown(operation, StoreErrorKind::Protocol, detail)
}
