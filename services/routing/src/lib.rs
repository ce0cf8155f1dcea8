//! weir-routing

pub mod cel;
pub mod tenant;
