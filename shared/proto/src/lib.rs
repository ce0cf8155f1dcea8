//! Generated code of the contracts in `proto/`, and their descriptors.
//!
//! Nothing here is written by hand but the module tree, which mirrors the packages because generated
//! code names its neighbours by relative path. Generated types stop at a service's `rpc/convert.rs`;
//! no domain code sees them.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::or_fun_call,
    clippy::large_futures,
    reason = "generated from the commented contracts in proto/"
)]

use std::sync::LazyLock;

mod io {
    pub mod cloudevents {
        pub mod v1 {
            tonic::include_proto!("io.cloudevents.v1");
        }
    }
}

mod weir {
    pub mod types {
        pub mod v1 {
            tonic::include_proto!("weir.types.v1");
        }
    }
    pub mod routing {
        pub mod v1 {
            tonic::include_proto!("weir.routing.v1");
        }
    }
    pub mod lifecycle {
        pub mod v1 {
            tonic::include_proto!("weir.lifecycle.v1");
        }
    }
    pub mod causal {
        pub mod v1 {
            tonic::include_proto!("weir.causal.v1");
        }
    }
    pub mod migration {
        pub mod v1 {
            tonic::include_proto!("weir.migration.v1");
        }
    }
    pub mod extension {
        pub mod v1 {
            tonic::include_proto!("weir.extension.v1");
        }
    }
    pub mod gateway {
        pub mod v1 {
            tonic::include_proto!("weir.gateway.v1");
        }
    }
}

pub use io::cloudevents;
pub use weir::{causal, extension, gateway, lifecycle, migration, routing, types};

/// Every contract as a serialized `FileDescriptorSet`, for reflection and for the gateway.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// The same as a pool, for lookups and JSON.
pub static DESCRIPTORS: LazyLock<prost_reflect::DescriptorPool> = LazyLock::new(|| {
    prost_reflect::DescriptorPool::decode(FILE_DESCRIPTOR_SET)
        .expect("the build compiled this descriptor set")
});
