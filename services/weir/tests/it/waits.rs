//! Waits, from parking to the woken attempt, through the gateway (rules l10, l11, r14, r17, r42–r44).

mod addressed;
mod arrange;
mod foreign;
mod limits;
mod own;
mod races;
mod traces;
