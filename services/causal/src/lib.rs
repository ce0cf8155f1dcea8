//! weir-causal
