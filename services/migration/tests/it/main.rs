//! The runner, the service and the binary on real PostgreSQL.

#![expect(
    clippy::disallowed_methods,
    reason = "tests spawn what they want to stop at a barrier"
)]

mod binary;
mod failure;
mod folder;
mod job;
mod one_runner;
mod read_role;
mod service;
mod up_and_down;
