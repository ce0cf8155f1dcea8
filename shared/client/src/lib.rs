//! The typed client of Weir, and the executor SDK.
//!
//! [`Client`] gives the generated clients over one channel to a gateway, with the caller's identity
//! attached to every call. [`executor::Worker`] is everything an executor needs around its handler:
//! registration, claiming with bounded concurrency, renewal, fencing, safe repeats and drain.
//!
//! ```no_run
//! use weir_client::executor::{Context, Outcome, Settings, Worker};
//! use weir_client::{Client, Identity};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("http://localhost:7070", Identity::development("demo", "me"))?;
//! let worker = Worker::new(client, Settings::new("command", "triage"));
//! let stop = tokio_util::sync::CancellationToken::new();
//! worker
//!     .run(
//!         |work: weir_client::proto::lifecycle::v1::ClaimedWork, _context: Context| async move {
//!             Outcome::complete(format!("saw {} inputs", work.inputs.len()))
//!         },
//!         stop,
//!     )
//!     .await?;
//! # Ok(())
//! # }
//! ```

mod backoff;
mod client;
pub mod executor;
mod identity;
#[cfg(feature = "testing")]
pub mod testing;

pub use backoff::Backoff;
pub use client::{Client, ConnectError, Service};
pub use identity::{Identity, InvalidIdentity};
pub use weir_proto as proto;
pub use weir_rpc::Problem;
