//! Causal limits against real PostgreSQL, through the generated client over the service's own routes.

mod derive;
mod emit;
mod lease;
mod limits;
mod quota;
mod read;
mod world;
