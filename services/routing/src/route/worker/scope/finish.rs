//! The second half of a scope's worker: committing what was evaluated, and setting aside what cannot be.

use std::sync::Arc;

use super::{Evaluation, Worker};
use crate::Error;
use crate::generation::Generation;
use crate::route::commit::{Commit, CommitGroups, SetAside, announce};
use crate::route::evaluate::{Evaluated, Fate};
use crate::route::worker::LEFT_POLLS;

impl Worker<'_> {
    /// Takes finished evaluations: commits them, those of one generation together, and sets aside what cannot be
    /// evaluated, so that it harms no neighbour.
    pub(super) async fn finish(
        &mut self,
        generation: &Arc<Generation>,
        ready: Vec<Evaluation>,
    ) -> Result<(), Error> {
        let mut groups: Vec<Evaluated> = Vec::with_capacity(ready.len());
        for evaluation in ready {
            match evaluation {
                Ok((id, Ok(evaluated))) => {
                    self.rows.remove(&id);
                    groups.extend(self.with_ties_kept(evaluated));
                }
                Ok((id, Err(error))) => {
                    let seqs = self.rows.remove(&id).unwrap_or_default();
                    self.aside(generation, &seqs, &error).await?;
                }
                Err(panic) => {
                    let seqs = self.rows.remove(&panic.id()).unwrap_or_default();
                    self.aside(generation, &seqs, &panic).await?;
                }
            }
        }
        // Of two that attach one key the one that was accepted first goes ahead.
        groups.sort_by_key(|g| (g.generation.number, g.rows.first().map(|r| r.seq)));
        for batch in groups.chunk_by(|a, b| a.generation.number == b.generation.number) {
            self.commit(batch).await?;
        }
        Ok(())
    }

    /// A tie holds only while the event that wants the key attaches it (rule r08): else the group is evaluated
    /// again without it.
    fn with_ties_kept(&mut self, evaluated: Evaluated) -> Option<Evaluated> {
        if evaluated.unmet.is_empty() {
            return Some(evaluated);
        }
        for (seq, key) in &evaluated.unmet {
            if let Some(keys) = self.joins.get_mut(seq) {
                keys.remove(key);
            }
        }
        let seqs: Vec<i64> = evaluated.rows.iter().map(|r| r.seq).collect();
        *self.losses.entry(seqs[0]).or_default() += 1;
        self.done(&seqs, false);
        None
    }

    async fn commit(&mut self, batch: &[Evaluated]) -> Result<(), Error> {
        let generation = Arc::clone(&batch[0].generation);
        let whole = CommitGroups {
            generation: &generation,
            scope: self.scope,
            groups: batch,
            claim: Some(self.claim.in_commit(&self.busy)),
        };
        match self.router.context.db.run(&whole).await {
            Ok(results) => {
                let all = results.iter().all(|r| *r == Commit::Done);
                for (group, result) in batch.iter().zip(results) {
                    self.settle_group(&generation, group, result).await?;
                }
                if all && self.busy.is_empty() {
                    self.claim.is_gone();
                }
            }
            // One of them may be at fault: each for itself.
            Err(Error::Db(weir_pg::Error::Query(_)) | Error::Work(_) | Error::Ledger(_))
                if batch.len() > 1 =>
            {
                for group in batch {
                    self.commit_alone(&generation, group).await?;
                }
            }
            Err(error) if batch.len() == 1 && is_of_the_group(&error) => {
                let seqs: Vec<i64> = batch[0].rows.iter().map(|r| r.seq).collect();
                self.aside(&generation, &seqs, &error).await?;
            }
            Err(error) => return Err(error),
        }
        self.router.routed.notify_waiters();
        Ok(())
    }

    async fn commit_alone(
        &mut self,
        generation: &Arc<Generation>,
        group: &Evaluated,
    ) -> Result<(), Error> {
        let groups = std::slice::from_ref(group);
        let command = CommitGroups {
            generation,
            scope: self.scope,
            groups,
            claim: Some(self.claim.in_commit(&self.busy)),
        };
        match self.router.context.db.run(&command).await {
            Ok(mut results) => {
                let result = results.pop().unwrap_or(Commit::Stale);
                self.settle_group(generation, group, result).await
            }
            Err(error) if is_of_the_group(&error) => {
                let seqs: Vec<i64> = group.rows.iter().map(|r| r.seq).collect();
                self.aside(generation, &seqs, &error).await
            }
            Err(error) => Err(error),
        }
    }

    async fn settle_group(
        &mut self,
        generation: &Arc<Generation>,
        group: &Evaluated,
        result: Commit,
    ) -> Result<(), Error> {
        if result == Commit::Done {
            announce(group);
            for (row, fate) in group.rows.iter().zip(&group.fates) {
                if matches!(fate, Fate::Left) {
                    let time = self.router.poll * LEFT_POLLS;
                    self.router
                        .left
                        .leave(self.tenant, self.scope, row.seq, time);
                }
            }
        }
        let seqs: Vec<i64> = group.rows.iter().map(|r| r.seq).collect();
        self.settle(generation, &seqs, result).await
    }

    pub(super) async fn settle(
        &mut self,
        generation: &Arc<Generation>,
        seqs: &[i64],
        result: Commit,
    ) -> Result<(), Error> {
        self.done(seqs, result == Commit::Done);
        match result {
            Commit::Done => {}
            Commit::Stale => {
                self.router
                    .generations
                    .refresh(&generation.tenant_name)
                    .await?;
            }
            Commit::Lost(ties) => {
                metrics::counter!("weir_routing_groups_lost_total").increment(1);
                *self.losses.entry(seqs[0]).or_default() += 1;
                for (seq, key) in ties {
                    self.joins.entry(seq).or_default().insert(key);
                }
            }
        }
        Ok(())
    }

    /// Counts a failure on rows whose group cannot be evaluated or written, and backs off.
    async fn aside(
        &mut self,
        generation: &Arc<Generation>,
        seqs: &[i64],
        error: &(dyn std::error::Error + Sync),
    ) -> Result<(), Error> {
        tracing::error!(error = %error, "a group of events cannot be decided; it backs off");
        let command = SetAside {
            generation,
            scope: self.scope,
            seqs,
        };
        self.router.context.db.run(&command).await?;
        self.done(seqs, false);
        Ok(())
    }
}

/// Says whether trying the same group alone would fail again, rather than the database being away.
fn is_of_the_group(error: &Error) -> bool {
    matches!(
        error,
        Error::Db(weir_pg::Error::Query(_))
            | Error::Work(weir_work::Error::Db(weir_pg::Error::Query(_)))
            | Error::Work(weir_work::Error::Inconsistent { .. })
            | Error::Corrupt(_)
            | Error::Stored(_)
    )
}
