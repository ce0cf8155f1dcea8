//! weir-ledger
