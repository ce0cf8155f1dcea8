//! Status, up and down of the one schema (rules m01, m02, m05).

mod error;
mod plan;
mod runner;
mod script;
mod step;

use std::sync::LazyLock;

use sqlx::migrate::Migrator;

pub use error::Error;
pub use plan::{MigrationStatus, Status};
pub use runner::{DEFAULT_WAIT, Holder, Progress, Report, Runner, Sink};
pub use step::Step;

/// The migrations of this build. Run them with a [`Runner`]; for tools that take a migrator it is
/// set to the same table and to no locking of its own.
pub static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx::migrate!("../../migrations");
    migrator.dangerous_set_table_name(weir_pg::schema::TABLE);
    migrator.set_locking(false);
    migrator
});
