//! weir-lifecycle
