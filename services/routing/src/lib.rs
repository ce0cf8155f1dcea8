//! weir-routing
