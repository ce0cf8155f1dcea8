//! A routing service with a handler of its own (rule r52): the binary to build and deploy instead of `weir-routing`.
//!
//! A route asks it by `handler: { rust: large }`. Build it into every replica: an event is left to a live replica
//! that has the handler, and fails `handler_missing` where none has it.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use weir_kernel::envelope::Envelope;
use weir_routing::handler::{Failure, Handler, Input, Place, Registry, Sample, Verdict};
use weir_routing::{Config, Hints, component};
use weir_runtime::Process;

/// Takes orders from an amount on.
struct Large {
    from: u64,
}

impl Handler for Large {
    fn decide(&self, input: &Input) -> Result<Verdict, Failure> {
        let bytes = input.event.payload.as_ref().map(|p| p.bytes.as_slice());
        let order: serde_json::Value = serde_json::from_slice(bytes.unwrap_or_default())
            .map_err(|_| Failure::Invalid("the data is not JSON".to_owned()))?;
        let amount = order["amount"]
            .as_u64()
            .ok_or_else(|| Failure::Invalid("`amount` is no amount".to_owned()))?;
        if amount < self.from {
            let reason = format!("{amount} is less than {}", self.from);
            return Ok(Verdict::Skip { reason });
        }
        Ok(Verdict::Match {
            reason: format!("{amount} is large"),
            attach: Vec::new(),
        })
    }

    fn samples(&self, place: &Place, now: DateTime<Utc>) -> Vec<Sample> {
        let data = serde_json::json!({ "amount": self.from, "at": now.to_rfc3339() });
        let id = format!("{}/{}", place.scope().name, now.timestamp());
        vec![Sample {
            name: "just large enough".to_owned(),
            event: Envelope::json(id, "sample", "order.placed", data.to_string()),
            keys: Vec::new(),
        }]
    }
}

fn main() -> ExitCode {
    weir_runtime::main("routing", async |config: Config, _: Process| {
        let large: Arc<dyn Handler> = Arc::new(Large { from: 10_000 });
        let registry = Registry::new(HashMap::from([("large".to_owned(), large)]));
        let db = config.database.open("weir-routing")?;
        Ok(vec![component(db, &config, registry, Hints::default())])
    })
}
