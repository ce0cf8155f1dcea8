//! What producers and operators do with events.

use std::collections::BTreeSet;

use super::{Run, refused, said};
use crate::model::check::{Difference, same};
use crate::model::config::SCOPES;
use crate::model::foresee::{agree, compare, foresee};
use crate::model::plan::{Datum, Draft, key};
use crate::model::service::Item;
use crate::model::world::{Event, EventNo, Pending, Standing, WorkNo};
use crate::support::event;

impl Run<'_> {
    /// Makes an event of a scope, for the service and for the model; the model's is `None` when a source rule refuses it
    /// (rule a07).
    fn draft(&mut self, scope: usize, draft: &Draft) -> (Item, Option<Event>) {
        let mut fields: Vec<String> = Vec::new();
        fields.extend(draft.n.map(|n| format!("\"n\":{n}")));
        fields.extend(draft.k.map(|k| match k {
            Datum::Text(k) => format!("\"k\":\"{k}\""),
            Datum::Number(k) => format!("\"k\":{k}"),
        }));
        let here = |w: &WorkNo| self.world.works[*w].scope == scope;
        let works: Vec<WorkNo> = (0..self.world.works.len()).filter(here).collect();
        let target = draft
            .target
            .filter(|_| !works.is_empty())
            .map(|t| works[usize::from(t) % works.len()]);
        let keys: BTreeSet<String> = draft.keys.iter().map(|k| key(*k)).collect();
        let id = format!("e{}", self.published);
        self.published += 1;
        let item = Item {
            event: event(&id, draft.kind.word(), &format!("{{{}}}", fields.join(","))),
            keys: keys.iter().cloned().collect(),
            target: target.map(|t| self.names.works[t].clone()),
        };
        let source = self.world.effective(scope).source;
        let source = source.filter(|s| s.kind.is_none_or(|k| k == draft.kind));
        let model = match source.map_or(Ok(None), |s| s.key.key(draft.k)) {
            Ok(derived) => Some(Event {
                scope,
                draft: draft.clone(),
                keys: keys.into_iter().chain(derived).collect(),
                target,
                copy_of: None,
                standing: Standing::Pending(Pending::new()),
            }),
            Err(_) => None,
        };
        (item, model)
    }

    pub(super) async fn publish(&mut self, scope: usize, draft: &Draft) -> Result<(), Difference> {
        let before = self.world.clone();
        let (item, model) = self.draft(scope, draft);
        let refusal = model.is_none().then_some("KEY_RULE_FAILED");
        let traced = refused(
            "TraceEvent",
            self.service.trace(SCOPES[scope], &item).await,
            refusal,
        )?;
        let answer = self.service.publish(SCOPES[scope], item).await;
        let uid = refused("Publish", answer, refusal)?;
        let (Some(trace), Some(uid), Some(model)) = (traced, uid, model) else {
            return Ok(());
        };
        compare(
            &trace,
            &foresee(&self.world, &model),
            &self.names,
            &model.keys,
        )?;
        // What stands aside as a conflict is in nobody's way.
        let aside = |e: &EventNo| self.world.events[*e].stands_aside();
        let alone = self.world.pending(scope).iter().all(aside);
        self.accept(model, uid.clone());
        self.settle(before).await?;
        if alone {
            let done = self.service.standing(&uid).await;
            let effect = trace.effect.as_ref().ok_or("the trace has no effect")?;
            agree(effect, &done.map_err(said("GetRoute"))?)?;
            self.tally.triples += 1;
        }
        Ok(())
    }

    fn accept(&mut self, event: Event, uid: String) {
        self.world.accept(event);
        self.names.events.push(uid);
    }

    pub(super) async fn batch(&mut self, scope: usize, drafts: &[Draft]) -> Result<(), Difference> {
        let before = self.world.clone();
        let (mut items, mut models) = (Vec::new(), Vec::new());
        for draft in drafts {
            let (item, model) = self.draft(scope, draft);
            items.push(item);
            models.extend(model);
        }
        let refusal = (models.len() < items.len()).then_some("KEY_RULE_FAILED");
        let answer = self.service.publish_all(SCOPES[scope], items).await;
        let uids = refused("PublishBatch", answer, refusal)?;
        for (model, uid) in models.into_iter().zip(uids.unwrap_or_default()) {
            self.accept(model, uid);
        }
        self.settle(before).await
    }

    /// An event, an undecided one if there is one.
    fn event(&self, pick: u8) -> Option<EventNo> {
        let undecided: Vec<EventNo> = (0..SCOPES.len())
            .flat_map(|s| self.world.pending(s))
            .collect();
        match undecided.as_slice() {
            [] => usize::from(pick).checked_rem(self.world.events.len()),
            undecided => Some(undecided[usize::from(pick) % undecided.len()]),
        }
    }

    pub(super) async fn skip(&mut self, pick: u8) -> Result<(), Difference> {
        let Some(event) = self.event(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.skip(&self.names.events[event]).await;
        let routed = self.world.events[event].record().is_some();
        if refused("SkipEvent", answer, routed.then_some("ALREADY_ROUTED"))?.is_some() {
            self.world.skip(event);
        }
        self.settle(before).await
    }

    pub(super) async fn reroute(&mut self, pick: u8) -> Result<(), Difference> {
        let Some(event) = self.event(pick) else {
            return Ok(());
        };
        let before = self.world.clone();
        let answer = self.service.reroute(&self.names.events[event]).await;
        let model = self.world.reroute(event);
        let tried = refused("RerouteEvent", answer, model.as_ref().err().copied())?;
        match (tried, model) {
            (Some(uid), Ok(Some(_))) => self.names.events.push(uid),
            (Some(uid), Ok(None)) => {
                same("RerouteEvent: event", &uid, &self.names.events[event])?;
            }
            _ => {}
        }
        self.settle(before).await
    }

    /// Routing a decided event again changes nothing and answers the record (rule r16).
    pub(super) async fn route_again(&mut self, pick: u8) -> Result<(), Difference> {
        let decided = |e: &EventNo| self.world.events[*e].record().is_some();
        let decided: Vec<EventNo> = (0..self.world.events.len()).filter(decided).collect();
        let Some(at) = usize::from(pick).checked_rem(decided.len()) else {
            return Ok(());
        };
        let uid = &self.names.events[decided[at]];
        let stored = self.service.standing(uid).await;
        let stored = stored.map_err(said("GetRoute"))?.record;
        let again = self.service.route(uid).await.record;
        same("RouteEvent: record", &again, &stored)?;
        self.settle(self.world.clone()).await
    }
}
