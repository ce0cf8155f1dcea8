//! All of Weir in one process, through its public contracts, on real PostgreSQL.

mod acceptance;
mod all;
mod architecture;
mod edge;
mod errors;
mod killed;
mod operations;
mod outside;
mod routing;
mod support;
