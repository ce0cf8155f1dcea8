//! Comparing what the service shows with a state of the model.

use std::collections::{BTreeMap, BTreeSet};

use weir_proto::types::v1::{self as types, Disposition, PendingState, RouteRecord, WorkState};

use super::config::SCOPES;
use super::plan;
use super::service::{Service, Undecided};
use super::world::{EventNo, Mark, Pending, Reason, Record, Work, WorkNo, World};

/// What differs, in words.
pub(crate) type Difference = String;

/// What the service calls things.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// By number.
    pub(crate) events: Vec<String>,
    /// By number.
    pub(crate) works: Vec<String>,
}

impl Names {
    fn work(&self, work: Option<WorkNo>) -> &str {
        work.map_or("", |w| self.works[w].as_str())
    }
}

/// Fails when two things differ.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    service: &T,
    model: &T,
) -> Result<(), Difference> {
    if service == model {
        return Ok(());
    }
    Err(format!("{what}: service {service:?}, model {model:?}"))
}

/// The name of a slot.
pub(crate) fn slot(slot: Option<u8>) -> String {
    slot.map(|s| format!("r{s}")).unwrap_or_default()
}

/// A policy as the service has it.
pub(crate) const fn policy(policy: Option<plan::Policy>) -> types::Policy {
    match policy {
        None => types::Policy::Unspecified,
        Some(plan::Policy::Queue) => types::Policy::Queue,
        Some(plan::Policy::Inject) => types::Policy::Inject,
        Some(plan::Policy::Interrupt) => types::Policy::Interrupt,
        Some(plan::Policy::Drop) => types::Policy::Drop,
    }
}

/// Says whether a reason is what a rule says, as far as one says it.
pub(crate) fn reason(what: &str, service: &str, model: Reason) -> Result<(), Difference> {
    let as_said = match model {
        Reason::Handler => !service.starts_with("fallback") && !service.is_empty(),
        Reason::Fallback => service.starts_with("fallback: "),
        Reason::Word(word) => service == word,
    };
    if as_said {
        return Ok(());
    }
    Err(format!(
        "{what}: reason: service {service:?}, model {model:?}"
    ))
}

/// Compares the undecided events, but for names of Works that are not known yet.
pub(crate) fn undecided(
    model: &World,
    names: &Names,
    rows: &[Undecided],
) -> Result<(), Difference> {
    let expected: BTreeMap<&str, &Pending> = model
        .events
        .iter()
        .zip(&names.events)
        .filter_map(|(e, uid)| Some((uid.as_str(), e.pending()?)))
        .collect();
    let numbers = |uids: Vec<&str>| -> BTreeSet<Option<EventNo>> {
        let number = |uid: &str| names.events.iter().position(|e| e == uid);
        uids.into_iter().map(number).collect()
    };
    same(
        "undecided events",
        &numbers(rows.iter().map(|r| r.uid.as_str()).collect()),
        &numbers(expected.keys().copied().collect()),
    )?;
    for row in rows {
        let pending = expected[row.uid.as_str()];
        let what = format!("event {:?}", numbers(vec![&row.uid]).first());
        same(
            &format!("{what}: failures"),
            &i32::from(row.failures),
            &pending.failures,
        )?;
        let state = match &pending.mark {
            Mark::None => PendingState::Due,
            Mark::Backoff => PendingState::Backoff,
            Mark::Deferred(_) => PendingState::Deferred,
            Mark::Conflict(_) => PendingState::Conflict,
        };
        same(
            &format!("{what}: pending state"),
            &PendingState::try_from(i32::from(row.state)).unwrap_or_default(),
            &state,
        )?;
        if !pending.due {
            same(
                &format!("{what}: generation that tried it"),
                &row.tried_generation,
                &model.generation,
            )?;
        }
        if let Mark::Deferred(hold) = &pending.mark {
            let held = (row.hold_work.as_deref(), row.hold_attempt);
            let model = (Some(names.work(Some(hold.work))), Some(hold.attempt));
            same(&format!("{what}: waits for"), &held, &model)?;
        }
    }
    Ok(())
}

/// Compares everything with a state of the model that came from `before`, and returns the names.
pub(crate) async fn everything(
    service: &Service<'_>,
    before: &World,
    model: &World,
    mut names: Names,
    rows: &[Undecided],
) -> Result<Names, Difference> {
    let mut records: BTreeMap<EventNo, RouteRecord> = BTreeMap::new();
    for (number, event) in model.events.iter().enumerate() {
        let was = before.events.get(number).and_then(|e| e.record());
        if was.is_none() && event.record().is_some() {
            let answer = service.standing(&names.events[number]).await;
            let record = answer.map_err(|e| format!("GetRoute: {e}"))?.record;
            records.insert(
                number,
                record.ok_or_else(|| format!("event {number} has no record"))?,
            );
        }
    }
    for (number, work) in model.works.iter().enumerate().skip(names.works.len()) {
        let first = work.inputs[0].event;
        let uid = records.get(&first).map(|r| r.work.clone());
        let uid = uid.ok_or_else(|| format!("work {number}: event {first} was decided before"))?;
        if uid.is_empty() || names.works.contains(&uid) {
            return Err(format!(
                "event {first} starts a new work in the model, service: `{uid}`"
            ));
        }
        names.works.push(uid);
    }
    for (number, seen) in &records {
        let event = &model.events[*number];
        let record = event.record().expect("only decided ones were read");
        let what = format!("event {number}");
        same(
            &format!("{what}: scope"),
            &seen.scope.as_str(),
            &SCOPES[event.scope],
        )?;
        compare_record(&what, seen, record, &names)?;
    }
    for row in rows {
        conflict(model, &names, row)?;
    }
    if model.works != before.works {
        works(service, Some(before), model, &names).await?;
    }
    Ok(names)
}

fn conflict(model: &World, names: &Names, row: &Undecided) -> Result<(), Difference> {
    let Some(number) = names.events.iter().position(|e| *e == row.uid) else {
        return Ok(());
    };
    let Some(Mark::Conflict(works)) = model.events[number].pending().map(|p| &p.mark) else {
        return Ok(());
    };
    let service: BTreeSet<&str> = row.conflict_works.iter().map(String::as_str).collect();
    let works: BTreeSet<&str> = works.iter().map(|w| names.work(Some(*w))).collect();
    same(
        &format!("event {number}: conflicting works"),
        &service,
        &works,
    )
}

/// Compares a route record (rules r12, r13).
fn compare_record(
    what: &str,
    seen: &RouteRecord,
    model: &Record,
    names: &Names,
) -> Result<(), Difference> {
    same(
        &format!("{what}: disposition ({} {})", seen.reason, seen.error),
        &seen.disposition(),
        &model.disposition,
    )?;
    same(
        &format!("{what}: work"),
        &seen.work.as_str(),
        &names.work(model.work),
    )?;
    same(&format!("{what}: route"), &seen.route, &slot(model.slot))?;
    if let Some(binding) = model.binding {
        same(
            &format!("{what}: binding"),
            &seen.binding,
            &format!("b{binding}"),
        )?;
    }
    same(
        &format!("{what}: policy"),
        &seen.policy(),
        &policy(model.policy),
    )?;
    same(
        &format!("{what}: generation"),
        &seen.generation,
        &model.generation,
    )?;
    same(
        &format!("{what}: attempts"),
        &seen.attempts,
        &model.attempts,
    )?;
    reason(what, &seen.reason, model.reason)?;
    let failed = model.disposition == Disposition::Failed;
    same(
        &format!("{what}: has an error"),
        &!seen.error.is_empty(),
        &failed,
    )?;
    let refusals: Vec<String> = seen.refusals.iter().map(|r| r.route.clone()).collect();
    let declined: Vec<String> = model.refusals.iter().map(|r| slot(Some(r.0))).collect();
    same(&format!("{what}: refusals"), &refusals, &declined)?;
    for (seen, (_, field)) in seen.refusals.iter().zip(&model.refusals) {
        missing(what, &seen.reason, *field)?;
    }
    Ok(())
}

/// A missing field is named; no other reason looks like one.
pub(crate) fn missing(
    what: &str,
    service: &str,
    field: Option<&'static str>,
) -> Result<(), Difference> {
    let seen = service.strip_prefix("no such field ");
    same(&format!("{what}: missing field"), &seen, &field)
}

/// Compares all Works, and the inputs of those that are not as they were before.
pub(crate) async fn works(
    service: &Service<'_>,
    before: Option<&World>,
    model: &World,
    names: &Names,
) -> Result<(), Difference> {
    let seen = service
        .works()
        .await
        .map_err(|e| format!("ListWorks: {e}"))?;
    same("number of works", &seen.len(), &model.works.len())?;
    for (number, work) in model.works.iter().enumerate() {
        let uid = &names.works[number];
        let seen = seen
            .iter()
            .find(|w| w.work == *uid)
            .ok_or_else(|| format!("work {number} is not listed"))?;
        compare_work(&format!("work {number}"), seen, work)?;
        if before.and_then(|b| b.works.get(number)) != Some(work) {
            inputs(service, number, work, names).await?;
        }
    }
    Ok(())
}

fn compare_work(what: &str, seen: &types::Work, model: &Work) -> Result<(), Difference> {
    same(
        &format!("{what}: scope"),
        &seen.scope.as_str(),
        &SCOPES[model.scope],
    )?;
    same(&format!("{what}: state"), &seen.state(), &model.state)?;
    let keys: Vec<&str> = seen.keys.iter().map(String::as_str).collect();
    let owned: Vec<&str> = model.keys.iter().map(String::as_str).collect();
    same(&format!("{what}: keys"), &keys, &owned)?;
    same(
        &format!("{what}: attempts"),
        &seen.attempts,
        &model.attempts,
    )?;
    if !model.is_terminal() {
        same(&format!("{what}: tries"), &seen.tries, &model.tries)?;
        let open = i64::try_from(model.open_inputs()).expect("few");
        same(&format!("{what}: open inputs"), &seen.open_inputs, &open)?;
    }
    same(
        &format!("{what}: held for a reason"),
        &(seen.held_reason == "attempts_exhausted"),
        &(model.state == WorkState::Held),
    )
}

/// Compares a Work's inputs, in queue order.
async fn inputs(
    service: &Service<'_>,
    number: WorkNo,
    work: &Work,
    names: &Names,
) -> Result<(), Difference> {
    let seen = service.inputs(&names.works[number]).await;
    let seen = seen.map_err(|e| format!("ListInputs: {e}"))?;
    let seen: Vec<_> = seen
        .iter()
        .map(|i| {
            let event = names.events.iter().position(|e| *e == i.event);
            (event, i.state(), i.binding.clone())
        })
        .collect();
    let model: Vec<_> = work
        .inputs
        .iter()
        .map(|i| (Some(i.event), i.state, format!("b{}", i.binding)))
        .collect();
    same(&format!("work {number}: inputs"), &seen, &model)
}
