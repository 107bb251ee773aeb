//! Where a pending check's answer is put, and where its caller cancels it. Never loses an answer in
//! silence: whoever puts it or cancels learns who has it.
//!
//! ```text
//! Waiting  => (Sent | Cancelled)       claimed for a call; or cancelled, and it is never sent
//! Sent     => (Answered | Cancelled)   answered; or cancelled, and the answer comes too late
//! Answered => Taken                    read by its caller, or by its caller's cancelling
//! ```

use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use super::sync::Mutex;

/// A place for one answer.
pub(crate) struct Ticket<A>(Mutex<State<A>>);

enum State<A> {
    Waiting(Option<Waker>),
    Sent(Option<Waker>),
    Answered(A),
    Taken,
    Cancelled { keeps: bool },
}

/// What a caller that cancels finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancelled<A> {
    /// It was not sent and never will be.
    Unsent,
    /// It was sent; the answer will find it cancelled.
    InFlight,
    /// The answer had come, unread.
    Answered(A),
}

impl<A> Ticket<A> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Ticket(Mutex::new(State::Waiting(None))))
    }

    /// Claims it for a call: false when it was cancelled.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Waiting(waker) => {
                *state = State::Sent(waker.take());
                true
            }
            _ => false,
        }
    }

    /// Puts the answer there, also for one that was never claimed.
    ///
    /// # Errors
    /// When it was cancelled: the answer comes back, with whether the caller keeps what it
    /// charged.
    pub(crate) fn deliver(&self, answer: A) -> Result<(), (A, bool)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = match &mut *state {
            State::Waiting(waker) | State::Sent(waker) => waker.take(),
            State::Cancelled { keeps } => return Err((answer, *keeps)),
            State::Answered(_) | State::Taken => return Err((answer, false)),
        };
        *state = State::Answered(answer);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The answer, when it is there.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<A> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Waiting(waker) | State::Sent(waker) => {
                if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            State::Answered(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Answered(answer) => Poll::Ready(answer),
                _ => Poll::Pending,
            },
            State::Taken | State::Cancelled { .. } => Poll::Pending,
        }
    }

    /// The caller goes without an answer; `keeps` says that it acts as if it had been admitted, so
    /// that a charge that comes through late is rightly its own.
    pub(crate) fn cancel(&self, keeps: bool) -> Cancelled<A> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Cancelled { keeps }) {
            State::Waiting(_) => Cancelled::Unsent,
            State::Sent(_) => Cancelled::InFlight,
            State::Answered(answer) => {
                *state = State::Taken;
                Cancelled::Answered(answer)
            }
            before @ (State::Taken | State::Cancelled { .. }) => {
                *state = before;
                Cancelled::Unsent
            }
        }
    }
}
