//! What tests of Weir share: real PostgreSQL, one fresh database a test, and ways to force an order
//! of events instead of hoping for it. A dev-dependency only.
//!
//! - [`TestDb`]: a database with the schema and a clock that a test can move.
//! - [`Hold`]: a transaction that keeps its locks until told, to stop others at a known place;
//!   [`TestDb::wait_until_blocked`] says when they stand there.
//! - [`upstream`]: a way for generated clients to routes in this process, as a given caller.
//!
//! Everything panics where a test could only fail: with what happened and where to look.

mod caller;
mod database;
mod hold;

pub use caller::upstream;
pub use database::{TestDb, migrations_folder};
pub use hold::Hold;
