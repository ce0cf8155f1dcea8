//! Sample events that handlers offer (rule r46).

use chrono::{DateTime, Utc};
use futures::{StreamExt as _, TryStreamExt as _};
use weir_kernel::FailureCode;
use weir_kernel::envelope::{Envelope, key_violations};
use weir_kernel::limits::{MAX_BATCH_BYTES, MAX_IDENTIFIER, required_text};

use super::Registry;
use super::ask::{missing, on_thread};
use super::remote::Failing;
use crate::Error;
use crate::generation::Generation;
use crate::tenant::{Compiled, CompiledHandler, EffectiveRoute, EffectiveScope};

/// Most samples of one route.
pub const MAX_SAMPLES: usize = 100;
/// Handlers asked at once.
const AT_ONCE: usize = 8;

/// A named event that shows what a handler is for. It can be traced and published as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its name, at most 255 bytes.
    pub name: String,
    /// The event.
    pub event: Envelope,
    /// Its keys.
    pub keys: Vec<String>,
}

/// Where a handler is asked for samples: the scope's configuration, and the route in it.
#[derive(Debug, Clone)]
pub struct Place {
    compiled: Compiled,
    scope: String,
    at: usize,
}

impl Place {
    /// Returns the scope, with all it inherits.
    ///
    /// # Panics
    /// Never: a place is made of a scope of its own configuration, which is immutable.
    #[must_use]
    pub fn scope(&self) -> &EffectiveScope {
        self.compiled
            .scope(&self.scope)
            .expect("a place is made of a scope of its configuration")
    }

    /// Returns the route that has the handler.
    #[must_use]
    pub fn route(&self) -> &EffectiveRoute {
        &self.scope().routes[self.at]
    }
}

/// Asks the handlers of a scope for samples and returns them in route order, with their slots. Expressions have none.
/// `now` is the router's clock, `max_payload` in bytes.
///
/// # Errors
/// SCOPE_NOT_FOUND. SAMPLES_FAILED, with the route's name, when one handler is missing, fails, takes longer than its
/// route's timeout, or offers what acceptance would refuse: a list without it would look complete. Safe to repeat.
pub(crate) async fn list(
    registry: &Registry,
    generation: &Generation,
    scope: &str,
    now: DateTime<Utc>,
    max_payload: usize,
) -> Result<Vec<(String, Sample)>, Error> {
    let routes = generation
        .compiled
        .scope(scope)
        .ok_or_else(|| weir_ledger::Error::ScopeNotFound(scope.to_owned()))?
        .routes
        .len();
    let places = (0..routes).map(|at| Place {
        compiled: generation.compiled.clone(),
        scope: scope.to_owned(),
        at,
    });
    let asked = places.map(|place| async move {
        let slot = place.route().slot.clone();
        let offered = match ask(registry, place, now).await {
            Ok(samples) => checked(samples, max_payload),
            Err(failing) => Err(failing),
        };
        offered
            .map(|samples| (slot.clone(), samples))
            .map_err(|(code, error)| Error::Samples { slot, code, error })
    });
    let offers: Vec<(String, Vec<Sample>)> = futures::stream::iter(asked)
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let mut bytes = 0;
    let mut all = Vec::new();
    for (slot, samples) in offers {
        bytes += samples.iter().map(size).sum::<usize>();
        if bytes > MAX_BATCH_BYTES {
            let error =
                format!("the samples up to here are {bytes} bytes, the limit is {MAX_BATCH_BYTES}");
            let code = FailureCode::HandlerInvalid;
            return Err(Error::Samples { slot, code, error });
        }
        all.extend(samples.into_iter().map(|sample| (slot.clone(), sample)));
    }
    Ok(all)
}

async fn ask(
    registry: &Registry,
    place: Place,
    now: DateTime<Utc>,
) -> Result<Vec<Sample>, Failing> {
    let route = place.route();
    match &route.handler {
        CompiledHandler::Cel(_) => Ok(Vec::new()),
        CompiledHandler::Rust(name) => {
            let handler = registry.get(name).ok_or_else(|| missing(name))?;
            let (timeout, place) = (route.timeout, place.clone());
            on_thread(timeout, move || handler.samples(&place, now)).await
        }
        CompiledHandler::Remote { remote, name } => {
            registry.remotes().samples(remote, name, &place, now).await
        }
    }
}

/// Refuses what could not be published.
fn checked(samples: Vec<Sample>, max_payload: usize) -> Result<Vec<Sample>, Failing> {
    let invalid = |error| Err((FailureCode::HandlerInvalid, error));
    if samples.len() > MAX_SAMPLES {
        let len = samples.len();
        return invalid(format!("{len} samples, the limit is {MAX_SAMPLES}"));
    }
    for (at, sample) in samples.iter().enumerate() {
        let mut violations = Vec::new();
        violations.extend(required_text("name", &sample.name, MAX_IDENTIFIER).err());
        violations.extend(sample.event.violations(max_payload));
        violations.extend(sample.event.reserved());
        violations.extend(key_violations("keys", &sample.keys));
        if let Some(first) = violations.first() {
            return invalid(format!(
                "samples[{at}].{} {}",
                first.field, first.description
            ));
        }
    }
    Ok(samples)
}

fn size(sample: &Sample) -> usize {
    let keys: usize = sample.keys.iter().map(String::len).sum();
    sample.event.payload_len() + sample.event.encode_attributes().len() + keys
}
