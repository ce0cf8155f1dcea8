//! weir-proto
