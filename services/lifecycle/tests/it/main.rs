//! The life of Work against real PostgreSQL, through the generated clients over the service's own routes.

mod attempt;
mod claim;
mod end;
mod house;
mod inject;
mod operate;
mod read;
mod world;
