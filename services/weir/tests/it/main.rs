//! All of Weir in one process, through its public contracts, on real PostgreSQL.

mod acceptance;
mod outside;
mod routing;
mod support;
