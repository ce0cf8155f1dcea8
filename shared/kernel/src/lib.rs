//! weir-kernel
