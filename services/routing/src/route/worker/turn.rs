//! A group's turn to ask handlers.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt as _;

use crate::route::claim::{Alone, Turns};

/// How a group takes its turn (rule r21).
pub(super) enum Turn {
    /// Only expressions decide it: at any time.
    Any,
    /// Beside others.
    Shared(Turns),
    /// With nothing else in evaluation, its members marked.
    Alone(Turns, Box<Alone>),
}

impl Turn {
    /// Returns what marks its members, if it is alone.
    pub(super) fn alone(&self) -> Option<Alone> {
        match self {
            Self::Alone(_, alone) => Some(Alone::clone(alone)),
            Self::Any | Self::Shared(_) => None,
        }
    }

    /// Evaluates when it is its turn. The turn of a suspect ends when its mark is off, also after a panic.
    pub(super) async fn take<T>(self, evaluate: impl Future<Output = T>) -> T {
        match self {
            Self::Any => evaluate.await,
            Self::Shared(turns) => {
                let _turn = turns.read_owned().await;
                evaluate.await
            }
            Self::Alone(turns, alone) => {
                let _turn = turns.write_owned().await;
                let result = AssertUnwindSafe(evaluate).catch_unwind().await;
                alone.over().await;
                result.unwrap_or_else(|panic| resume_unwind(panic))
            }
        }
    }
}
