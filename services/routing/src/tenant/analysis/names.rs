//! Names in expressions that compile, and mean nothing where they stand (rules r50, a07). A name
//! that CEL does not know at all is an error and refuses the document.

use super::super::{
    model::{Document, Handler, Scope},
    programs::Programs,
};
use super::findings::{Findings, Text};

/// Warns of fields that nothing has, and of `work` in key rules.
pub(super) fn check(document: &Document, programs: &mut Programs, findings: &mut Findings<'_>) {
    for (at, scope) in document.scopes.iter().enumerate() {
        self::scope(scope, &format!("scopes[{at}]"), programs, findings);
    }
}

fn scope(scope: &Scope, path: &str, programs: &mut Programs, findings: &mut Findings<'_>) {
    let name = &scope.name;
    for (binding, settings) in &scope.bindings {
        for (at, per) in settings.concurrency.per.iter().enumerate() {
            let path = format!("{path}.bindings.{binding}.concurrency.per[{at}].key");
            let of = format!("binding `{binding}` of scope `{name}`");
            undeclared(&per.key, path, &of, programs, findings);
        }
    }
    for (at, source) in scope.sources.iter().enumerate() {
        for (rule, keys) in source.keys.iter().enumerate() {
            let path = format!("{path}.sources[{at}].keys[{rule}]");
            let of = format!("source `{}` of scope `{name}`", source.name);
            if let Some(when) = &keys.when {
                workless(when, format!("{path}.when"), &of, programs, findings);
            }
            workless(&keys.key, format!("{path}.key"), &of, programs, findings);
        }
    }
    for (at, route) in scope.routes.iter().enumerate() {
        if route.disabled {
            continue;
        }
        let path = format!("{path}.routes[{at}]");
        let of = format!("slot `{}` of scope `{name}`", route.slot);
        if let Some(Handler::Cel(when)) = &route.handler {
            undeclared(when, format!("{path}.when"), &of, programs, findings);
        }
        for (key, attach) in route.attach.iter().enumerate() {
            let path = format!("{path}.attach[{key}]");
            undeclared(attach, path, &of, programs, findings);
        }
    }
}

/// An expression that is evaluated when the event is accepted: no Work is known yet.
fn workless(
    source: &str,
    path: String,
    of: &str,
    programs: &mut Programs,
    findings: &mut Findings<'_>,
) {
    let Ok(program) = programs.get(source) else {
        return;
    };
    if program.reads_work() {
        let before = format!(
            "{of}: key rules see no `work`, it is empty for every event, so no key comes of it"
        );
        findings.add(Text::new(path, "work_unavailable", before));
    } else {
        undeclared(source, path, of, programs, findings);
    }
}

fn undeclared(
    source: &str,
    path: String,
    of: &str,
    programs: &mut Programs,
    findings: &mut Findings<'_>,
) {
    let Ok(program) = programs.get(source) else {
        return;
    };
    let fields = program.undeclared();
    if fields.is_empty() {
        return;
    }
    let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    let before = format!("{of}: there is never a {}", fields.join(", "));
    findings.add(Text::new(path, "field_unknown", before));
}
