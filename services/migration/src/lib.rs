//! Status, up and down of the one schema (rules m01, m02, m05).
//!
//! The same [`Runner`] serves three ways: [`component`] for operators behind the gateway, [`job`] for a
//! job that has no gateway yet, and the all-in-one, which alone migrates by itself (rule m04).

mod config;
mod error;
pub mod job;
mod plan;
mod rpc;
mod runner;
mod script;
mod step;

use std::sync::LazyLock;

use sqlx::migrate::Migrator;
use tonic::server::NamedService as _;
use tonic::service::Routes;
use weir_proto::migration::v1::inspect_service_server::InspectServiceServer;
use weir_proto::migration::v1::migration_service_server::MigrationServiceServer;
use weir_runtime::{Component, DatabaseConfig};

pub use config::Config;
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

/// The service's routes, without the layers around them.
#[must_use]
pub fn routes(runner: Runner) -> Routes {
    let service = rpc::Service { runner };
    Routes::new(MigrationServiceServer::new(service.clone()))
        .add_service(InspectServiceServer::new(service))
}

/// The service. It is ready when the database is reachable, whatever schema that has (rule m04): it is
/// there to change it. Must be called within a tokio runtime.
///
/// # Errors
/// The address of the database is none.
pub fn component(config: &Config) -> anyhow::Result<Component> {
    let name = format!("service, process {}", std::process::id());
    let runner = Runner::new(config.url().expose(), &MIGRATOR, &name)?;
    let names = [
        MigrationServiceServer::<rpc::Service>::NAME,
        InspectServiceServer::<rpc::Service>::NAME,
    ];
    let direct = DatabaseConfig {
        url: config.url().clone(),
        max_connections: 1,
        ..config.database.clone()
    };
    let db = direct.open("weir-migration")?;
    Ok(Component::new("migration")
        .serving(routes(runner), names)
        .ready_when("database", move || {
            let db = db.clone();
            async move {
                match db.probe().await {
                    Ok(()) | Err(weir_pg::Error::ReadOnly) => Ok(()),
                    Err(error) => Err(weir_rpc::chain(&error)),
                }
            }
        }))
}
