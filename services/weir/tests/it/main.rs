//! All of Weir in one process, through its public contracts, on real PostgreSQL.

mod routing;
mod support;
