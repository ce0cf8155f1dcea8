//! weir-rpc
