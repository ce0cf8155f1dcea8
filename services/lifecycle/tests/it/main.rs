//! The life of Work against real PostgreSQL, through the generated clients over the service's own routes.

mod attempt;
mod claim;
mod end;
mod ended;
mod house;
mod inject;
mod operate;
mod park;
mod read;
mod send;
mod waiting;
mod wake;
mod world;
