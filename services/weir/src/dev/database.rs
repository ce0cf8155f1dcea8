//! The database of `weir dev`: the one that `DATABASE_URL` names, or a private one.

use std::path::Path;

use weir_migration::{DEFAULT_WAIT, MIGRATOR, Progress, Runner};
use weir_pg::cluster::{Binaries, Cluster, Options};

use crate::cli::environment;
use crate::cli::error::Failure;
use crate::cli::migrate::failure;
use crate::cli::output;

/// Name of the database in a private cluster.
const NAME: &str = "weir";

pub(super) struct Database {
    url: String,
    direct_url: String,
    cluster: Option<Cluster>,
}

impl Database {
    /// Finds the database, or starts one.
    pub(super) async fn open(data_dir: &Path) -> Result<Self, Failure> {
        if let Some(url) = environment::text("DATABASE_URL") {
            let direct_url =
                environment::text("DATABASE_DIRECT_URL").unwrap_or_else(|| url.clone());
            return Ok(Self {
                url,
                direct_url,
                cluster: None,
            });
        }
        let directory = std::path::absolute(data_dir)
            .map_err(|error| {
                Failure::failed(format!("cannot find `{}`: {error}", data_dir.display()))
            })?
            .join("postgres");
        let binaries = Binaries::find(
            environment::path("WEIR_PG_BIN").as_deref(),
            environment::path("HOME").as_deref(),
        )
        .map_err(failed)?;
        output::complain(&format!(
            "starting a private PostgreSQL {} in {}",
            binaries.version(),
            directory.display()
        ));
        let cluster = Cluster::start(Options::new(directory, binaries))
            .await
            .map_err(failed)?;
        if let Some(place) = cluster.relocated() {
            output::complain(&format!(
                "its data is in {}, because the user that runs it cannot reach the data directory",
                place.display()
            ));
        }
        if cluster.adopted() {
            output::complain("it was still running");
        }
        if let Err(error) = cluster.create_database_if_missing(NAME).await {
            let failure = failed(error);
            // The first failure is the one to tell of.
            let _ = cluster.stop().await;
            return Err(failure);
        }
        let url = cluster.url(NAME);
        Ok(Self {
            direct_url: url.clone(),
            url,
            cluster: Some(cluster),
        })
    }

    /// The address for services.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Applies what is missing. The all-in-one alone migrates by itself.
    pub(super) async fn migrate(&self) -> Result<(), Failure> {
        let runner = Runner::new(&self.direct_url, &MIGRATOR, "weir dev").map_err(failure)?;
        let mut say = |progress: Progress| {
            if progress.total > 0 {
                output::complain(&format!(
                    "[{}/{}] {}",
                    progress.done, progress.total, progress.message
                ));
            }
        };
        runner
            .up(None, DEFAULT_WAIT, &mut say)
            .await
            .map(drop)
            .map_err(failure)
    }

    /// Stops what was started.
    pub(super) async fn close(self) -> Result<(), Failure> {
        match self.cluster {
            Some(cluster) => cluster.stop().await.map_err(failed),
            None => Ok(()),
        }
    }
}

fn failed(error: weir_pg::cluster::Error) -> Failure {
    Failure::failed(error.to_string())
}
