//! weir-migration
