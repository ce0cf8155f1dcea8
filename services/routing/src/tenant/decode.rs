//! From the tree to the model: names of fields, types, ranges, words and counts. What a field
//! means together with others is the business of `check`.

use std::{collections::BTreeMap, time::Duration};

use super::{
    fields::{Fields, Reading},
    model::{
        Binding, Brake, Capability, Concurrency, ConcurrencyKey, DEFAULT_TIMEOUT, Document,
        Fallback, Handler, KeyRule, Limits, Match, NamedHandler, OnParentCancel, Policy, Route,
        Scope, SelfPolicy, Source, Webhook, WebhookKind,
    },
    problem::Problem,
    tree::{self, Located},
};

/// Most scopes of a document.
pub const MAX_SCOPES: usize = 1_000;
/// Most routes a scope writes.
pub const MAX_ROUTES: usize = 2_000;
/// Most bindings a scope writes.
pub const MAX_BINDINGS: usize = 1_000;
/// Most sources a scope writes.
pub const MAX_SOURCES: usize = 1_000;
/// Most items of the short lists: key rules of a source, `attach` of a route, `emits` and
/// `concurrency.per` of a binding.
pub const MAX_ITEMS: usize = 32;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

impl Document {
    /// Reads a document of YAML or JSON and checks its form: at most 1 MiB, known fields only, no
    /// repeated keys, types, ranges and counts. [`Document::validate`] checks its meaning.
    ///
    /// # Errors
    /// All problems of the form, each with path, line and column; of a text that is not YAML, the
    /// first.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let root = tree::read(text).map_err(|problem| vec![problem])?;
        let mut reading = Reading::default();
        let scopes = document(&mut reading, &root);
        if reading.report.has_errors() {
            return Err(reading.report.finish());
        }
        Ok(Self {
            scopes,
            places: reading.places,
        })
    }
}

fn document(r: &mut Reading, root: &Located) -> Vec<Scope> {
    let Some(mut fields) = r.fields(root, "") else {
        return Vec::new();
    };
    let node = fields.require(r, "scopes");
    let scopes = list(r, node, "scopes", MAX_SCOPES, scope);
    fields.finish(r);
    scopes
}

/// Decodes the items of a list that may have at most `max`.
fn list<T>(
    r: &mut Reading,
    node: Option<&Located>,
    path: &str,
    max: usize,
    decode: impl Fn(&mut Reading, Fields<'_>) -> Option<T>,
) -> Vec<T> {
    let items = r.items(node, path);
    if !count(r, node, path, items.len(), max) {
        return Vec::new();
    }
    let mut done = Vec::with_capacity(items.len());
    for (path, item) in items {
        if let Some(fields) = r.fields(item, &path) {
            done.extend(decode(r, fields));
        }
    }
    done
}

fn texts(r: &mut Reading, node: Option<&Located>, path: &str) -> Vec<String> {
    let texts = r.texts(node, path);
    if count(r, node, path, texts.len(), MAX_ITEMS) {
        texts
    } else {
        Vec::new()
    }
}

fn count(r: &mut Reading, node: Option<&Located>, path: &str, len: usize, max: usize) -> bool {
    if len <= max {
        return true;
    }
    r.error(
        path,
        node.map_or((0, 0), tree::place),
        "too_many",
        format!("has {len} entries, the limit is {max}"),
    );
    false
}

fn scope(r: &mut Reading, mut f: Fields<'_>) -> Option<Scope> {
    let name = f.required_text(r, "name");
    let parent = f.text(r, "parent");
    let limits = nested(r, &mut f, "limits", |r, f| Limits {
        depth: f.integer(r, "depth", 0..=1_024),
        derived_per_minute: f.integer(r, "derived_per_minute", 0..=1_000_000),
    });
    let brake = nested(r, &mut f, "brake", |r, f| {
        let after = f.required_integer(r, "after_refusals_per_minute", 1..=1_000_000);
        after.map(|after_refusals_per_minute| Brake {
            after_refusals_per_minute,
        })
    });
    let bindings_at = f.take(r, "bindings");
    let path = f.sub("bindings");
    let named = r.named(bindings_at, &path);
    let mut bindings = BTreeMap::new();
    if count(r, bindings_at, &path, named.len(), MAX_BINDINGS) {
        for (path, name, node) in named {
            if let Some(fields) = r.fields(node, &path) {
                bindings.insert(name.to_owned(), binding(r, fields));
            }
        }
    }
    let path = f.sub("sources");
    let node = f.take(r, "sources");
    let sources = list(r, node, &path, MAX_SOURCES, source);
    let path = f.sub("routes");
    let node = f.take(r, "routes");
    let routes = list(r, node, &path, MAX_ROUTES, route);
    f.finish(r);
    Some(Scope {
        name,
        parent,
        limits: limits.unwrap_or_default(),
        brake: brake.flatten(),
        bindings,
        sources,
        routes,
    })
}

/// Decodes a map in a field, if it is there.
fn nested<T>(
    r: &mut Reading,
    f: &mut Fields<'_>,
    name: &'static str,
    decode: impl FnOnce(&mut Reading, &mut Fields<'_>) -> T,
) -> Option<T> {
    let node = f.take(r, name)?;
    let mut inner = r.fields(node, &f.sub(name))?;
    let done = decode(r, &mut inner);
    inner.finish(r);
    Some(done)
}

fn binding(r: &mut Reading, mut f: Fields<'_>) -> Binding {
    let default = Binding::default();
    let executor = f.text(r, "executor");
    let path = f.sub("capabilities");
    let node = f.take(r, "capabilities");
    let words = [
        ("inject", Capability::Inject),
        ("interrupt", Capability::Interrupt),
    ];
    let capabilities = r
        .items(node, &path)
        .into_iter()
        .filter_map(|(path, item)| r.word(item, &path, &words))
        .collect();
    let lease = f
        .duration(r, "lease", SECOND..=HOUR)
        .unwrap_or(default.lease);
    let max_attempts = f
        .integer(r, "max_attempts", 1..=100)
        .unwrap_or(default.max_attempts);
    let priority = f
        .integer(r, "priority", -1_000..=1_000)
        .unwrap_or(default.priority);
    let concurrency = nested(r, &mut f, "concurrency", concurrency).unwrap_or_default();
    let path = f.sub("emits");
    let node = f.take(r, "emits");
    let emits = texts(r, node, &path);
    let path = f.sub("on_parent_cancel");
    let words = [
        ("leave", OnParentCancel::Leave),
        ("cancel", OnParentCancel::Cancel),
    ];
    let on_parent_cancel = f
        .take(r, "on_parent_cancel")
        .and_then(|node| r.word(node, &path, &words))
        .unwrap_or_default();
    f.finish(r);
    Binding {
        executor,
        capabilities,
        lease,
        max_attempts,
        priority,
        concurrency,
        emits,
        on_parent_cancel,
    }
}

fn concurrency(r: &mut Reading, f: &mut Fields<'_>) -> Concurrency {
    const RANGE: std::ops::RangeInclusive<i64> = 1..=100_000;
    let max = f.integer(r, "max", RANGE);
    let path = f.sub("per");
    let node = f.take(r, "per");
    let per = list(r, node, &path, MAX_ITEMS, |r, mut f| {
        let key = f.required_text(r, "key");
        let max = f.required_integer(r, "max", RANGE);
        f.finish(r);
        max.map(|max| ConcurrencyKey { key, max })
    });
    Concurrency { max, per }
}

fn source(r: &mut Reading, mut f: Fields<'_>) -> Option<Source> {
    let name = f.required_text(r, "name");
    let webhook = nested(r, &mut f, "webhook", |r, f| {
        let path = f.sub("kind");
        let kind = f
            .require(r, "kind")
            .and_then(|node| r.word(node, &path, &[("github", WebhookKind::Github)]));
        let secret = f.required_text(r, "secret");
        kind.map(|kind| Webhook { kind, secret })
    });
    let webhook = webhook.flatten();
    let matches = nested(r, &mut f, "match", |r, f| Match {
        source: f.text(r, "source"),
        event_type: f.text(r, "type"),
    });
    // An endpoint's own events are what its rules are for, in whatever scope it is used.
    let own = webhook.as_ref().map(|_| Match {
        source: Some(format!("webhook/*/{name}")),
        event_type: None,
    });
    let matches = matches.or(own);
    if matches
        .as_ref()
        .is_none_or(|m| m.source.is_none() && m.event_type.is_none())
    {
        let message = "needs a glob on `source` or `type`".to_owned();
        r.error(&f.sub("match"), f.at, "required", message);
    }
    let path = f.sub("keys");
    let node = f.take(r, "keys");
    let keys = list(r, node, &path, MAX_ITEMS, |r, mut f| {
        let when = f.text(r, "when");
        let key = f.required_text(r, "key");
        f.finish(r);
        Some(KeyRule { when, key })
    });
    f.finish(r);
    Some(Source {
        name,
        matches: matches.unwrap_or_default(),
        webhook,
        keys,
    })
}

fn route(r: &mut Reading, mut f: Fields<'_>) -> Option<Route> {
    let slot = f.required_text(r, "slot");
    let when = f.text(r, "when").map(Handler::Cel);
    let named = nested(r, &mut f, "handler", handler)
        .flatten()
        .map(Handler::Named);
    if when.is_some() && named.is_some() {
        r.error(
            &f.sub("handler"),
            f.at,
            "conflict",
            "a route has `when` or `handler`, not both".to_owned(),
        );
    }
    let binding = f.text(r, "binding");
    let path = f.sub("policy");
    let words = [
        ("queue", Policy::Queue),
        ("inject", Policy::Inject),
        ("interrupt", Policy::Interrupt),
        ("drop", Policy::Drop),
    ];
    let policy = f
        .take(r, "policy")
        .and_then(|node| r.word(node, &path, &words))
        .unwrap_or(Policy::Queue);
    let path = f.sub("fallback");
    let words = [("queue", Fallback::Queue), ("drop", Fallback::Drop)];
    let fallback = f
        .take(r, "fallback")
        .and_then(|node| r.word(node, &path, &words));
    let path = f.sub("attach");
    let node = f.take(r, "attach");
    let attach = texts(r, node, &path);
    let path = f.sub("self");
    let words = [("allow", SelfPolicy::Allow), ("avoid", SelfPolicy::Avoid)];
    let self_policy = f
        .take(r, "self")
        .and_then(|node| r.word(node, &path, &words))
        .unwrap_or_default();
    let disabled = f.boolean(r, "disabled").unwrap_or_default();
    let timeout = f
        .duration(
            r,
            "timeout",
            Duration::from_millis(10)..=Duration::from_secs(60),
        )
        .unwrap_or(DEFAULT_TIMEOUT);
    f.finish(r);
    Some(Route {
        slot,
        handler: when.or(named),
        binding,
        policy,
        fallback,
        attach,
        self_policy,
        disabled,
        timeout,
    })
}

fn handler(r: &mut Reading, f: &mut Fields<'_>) -> Option<NamedHandler> {
    let remote = f.text(r, "remote");
    let name = f.text(r, "name");
    let rust = f.text(r, "rust");
    match (remote, name, rust) {
        (Some(remote), Some(name), None) => Some(NamedHandler::Remote { remote, name }),
        (None, None, Some(rust)) => Some(NamedHandler::Rust { rust }),
        (Some(_), None, None) => {
            r.error(
                &f.sub("name"),
                f.at,
                "required",
                "is required beside `remote`".to_owned(),
            );
            None
        }
        _ => {
            let message = "is `{ remote: URL, name: NAME }` or `{ rust: NAME }`".to_owned();
            r.error(&f.path, f.at, "required", message);
            None
        }
    }
}
