//! weir-pg
