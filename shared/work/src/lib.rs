//! weir-work
