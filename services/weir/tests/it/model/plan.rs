//! What a generated history consists of: a configuration and what happens under it. Everything is named by small
//! numbers that are taken modulo what there is, so that a history that lost parts in shrinking still means something.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// How many scopes there are, 1 to 3: `root`, `s` below it, and `t`.
    pub(crate) scopes: usize,
    /// Says that `t` is below `s` and not below `root`.
    pub(crate) deep: bool,
    /// The first generation.
    pub(crate) config: Config,
    /// What executor `e` is registered with before anything else; not at all when `None`.
    pub(crate) registered: Option<Caps>,
    /// What happens, in order.
    pub(crate) actions: Vec<Action>,
}

/// A configuration: one part for each scope, of which a case uses the first ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Config {
    /// `root`, `s`, `t`.
    pub(crate) scopes: [Scope; 3],
}

/// One scope's own part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Scope {
    /// By number: `b0`, `b1`, `b2`.
    pub(crate) bindings: BTreeMap<u8, Binding>,
    /// In order; of two with one slot the first counts.
    pub(crate) routes: Vec<Route>,
    /// The rule `derived`, if it has one.
    pub(crate) source: Option<Source>,
}

/// A binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    /// Its executor; none makes it queue-only, and it claims nothing.
    pub(crate) executor: Option<Executor>,
    /// What it claims.
    pub(crate) claims: Caps,
    /// After how many failures its Work is held.
    pub(crate) max_attempts: u8,
}

/// An executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Executor {
    /// `e`.
    E,
    /// `f`.
    F,
}

impl Executor {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::E => "e",
            Self::F => "f",
        }
    }
}

/// Optional capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Caps {
    /// Takes injected input.
    pub(crate) inject: bool,
    /// Can be interrupted.
    pub(crate) interrupt: bool,
}

impl Caps {
    /// Says that these have all of `other`.
    pub(crate) const fn prove(self, other: Self) -> bool {
        (self.inject || !other.inject) && (self.interrupt || !other.interrupt)
    }

    /// What both have.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            inject: self.inject && other.inject,
            interrupt: self.interrupt && other.interrupt,
        }
    }
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Route {
    /// By number: `r0` and so on.
    pub(crate) slot: u8,
    /// Switches the slot off.
    pub(crate) disabled: bool,
    /// Who says whether it matches.
    pub(crate) asks: Asks,
    /// Its binding; it need not be there.
    pub(crate) binding: u8,
    /// Its policy.
    pub(crate) policy: Policy,
    /// Its fallback.
    pub(crate) fallback: Option<Fallback>,
    /// Key that it attaches.
    pub(crate) attach: Option<Attach>,
}

/// Who says whether a route matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asks {
    /// An expression.
    When(Cond),
    /// The Rust handler `choosy`, which goes by the event's type.
    Choosy,
    /// A handler that nobody has.
    Absent,
}

/// A policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Policy {
    /// `queue`.
    Queue,
    /// `inject`.
    Inject,
    /// `interrupt`.
    Interrupt,
    /// `drop`.
    Drop,
}

impl Policy {
    /// The word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Inject => "inject",
            Self::Interrupt => "interrupt",
            Self::Drop => "drop",
        }
    }
}

/// A fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fallback {
    /// `queue`.
    Queue,
    /// `drop`.
    Drop,
}

/// A key that a route attaches, or that a source rule derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Attach {
    /// `"k/" + event.data.k`.
    OfData,
    /// The key of this number.
    Fixed(u8),
}

/// A source rule `derived`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Type that it fits; all when `None`.
    pub(crate) kind: Option<Kind>,
    /// The key.
    pub(crate) key: Attach,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cond {
    /// `true`.
    Always,
    /// `false`.
    Never,
    /// `event.type == ".."`.
    IsType(Kind),
    /// `event.data.n > 1`.
    Big,
    /// `event.data.n`: no bool.
    Number,
    /// `event.data.k + 1 > 1`: a text cannot be added to a number.
    Sum,
    /// `event.data.missing == 1`.
    Missing,
    /// `has(work.id)`.
    HasWork,
    /// `work.state == ".."`.
    InState(Seen),
    /// `!(..)`.
    Not(Box<Cond>),
    /// `(..) && (..)`.
    And(Box<Cond>, Box<Cond>),
    /// `(..) || (..)`.
    Or(Box<Cond>, Box<Cond>),
}

/// States that conditions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Seen {
    /// `ready`.
    Ready,
    /// `running`.
    Running,
    /// `held`.
    Held,
}

impl Seen {
    /// The word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Held => "held",
        }
    }
}

/// Type of an event, which tells the handler `choosy` what to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Skips.
    A,
    /// Skips.
    B,
    /// Matches.
    Taken,
    /// Fails, and may be asked again.
    Flaky,
    /// Calls it malformed.
    Bad,
    /// Panics.
    Boom,
}

impl Kind {
    /// The event's type.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Taken => "taken",
            Self::Flaky => "flaky",
            Self::Bad => "bad",
            Self::Boom => "boom",
        }
    }
}

/// An event to publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Draft {
    /// Its type.
    pub(crate) kind: Kind,
    /// `event.data.n`.
    pub(crate) n: Option<i64>,
    /// `event.data.k`.
    pub(crate) k: Option<Datum>,
    /// Its keys, by number.
    pub(crate) keys: Vec<u8>,
    /// Work that it names, among those of its scope.
    pub(crate) target: Option<u8>,
}

/// A value of `event.data.k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Datum {
    /// The text of this number.
    Text(u8),
    /// A number.
    Number(i64),
}

/// The key of a number.
pub(crate) fn key(number: u8) -> String {
    format!("k/{number}")
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    /// An event is traced and published.
    Publish {
        /// Its scope.
        scope: u8,
        /// The event.
        event: Draft,
    },
    /// Events are published together.
    Batch {
        /// Their scope.
        scope: u8,
        /// The events, in order.
        events: Vec<Draft>,
    },
    /// An executor claims a Work.
    Claim {
        /// Of this scope.
        scope: u8,
        /// And this binding.
        binding: u8,
    },
    /// An attempt completes.
    Complete {
        /// Among those running.
        pick: u8,
    },
    /// An attempt fails.
    Fail {
        /// Among those running.
        pick: u8,
        /// For good.
        permanent: bool,
    },
    /// An attempt gives its Work back.
    Release {
        /// Among those running.
        pick: u8,
    },
    /// An attempt acknowledges all that was injected.
    Acknowledge {
        /// Among those running.
        pick: u8,
    },
    /// An operator cancels a Work.
    Cancel {
        /// Among all.
        pick: u8,
    },
    /// An operator lets a Work go on.
    LetGo {
        /// Among all; held ones first.
        pick: u8,
    },
    /// An operator skips an event.
    Skip {
        /// Among all; undecided ones first.
        pick: u8,
    },
    /// An operator reroutes an event.
    Reroute {
        /// Among all; undecided ones first.
        pick: u8,
    },
    /// A decided event is routed again.
    RouteAgain {
        /// Among those decided.
        pick: u8,
    },
    /// A new generation is published.
    Configure(Box<Config>),
    /// An executor registers anew.
    Register {
        /// Which.
        executor: Executor,
        /// What it can do.
        caps: Caps,
    },
    /// So much time passes that everything that backs off is due, four minutes each time.
    PassTime {
        /// How often.
        times: u8,
    },
}
