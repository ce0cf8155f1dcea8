//! The one door to PostgreSQL: connections, transactions, SQLSTATE, advisory locks.
//!
//! A transaction is a value. A use case is a [`Command`]; [`Db::run`] owns BEGIN, COMMIT, the retry
//! of lost races, metrics and the span, and the command owns what happens between them. Nobody else
//! begins a transaction, reads a SQLSTATE or takes an advisory lock.
//!
//! Nothing here leaves state in a session (no `SET`, no session lock, no LISTEN), so that a
//! transaction pooler may stand between Weir and the server; see [`Options::transaction_pooler`].
//!
//! The migration service applies migrations; this crate only knows where their record stands and
//! whether a build's are all there ([`schema`]).

pub mod cluster;
mod db;
mod error;
pub mod locks;
mod probe;
mod reader;
mod run;
pub mod schema;
mod tx;

pub use db::{Conn, Db, Options};
pub use error::Error;
pub use probe::applied_migrations;
pub use reader::Reader;
pub use run::{Command, Isolation, MAX_ATTEMPTS, TxError};
pub use tx::Tx;
