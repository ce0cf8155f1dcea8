//! All of Weir in one process, through its public contracts, on real PostgreSQL.

#![expect(unreachable_pub, reason = "a test binary has no outside")]

mod acceptance;
mod all;
mod architecture;
mod edge;
mod errors;
mod killed;
mod model;
mod operations;
mod outside;
mod routing;
mod support;
mod waits;
