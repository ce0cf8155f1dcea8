//! The services: decode, run one command or query, encode.

mod answer;
mod causal;
mod inspect;

pub(crate) use causal::Causal;
pub(crate) use inspect::Inspect;
