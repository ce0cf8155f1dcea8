//! Reads on a real database. Events are accepted through the ledger; decisions are written as rows.

mod lists;
mod records;
mod watching;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_kernel::envelope::Envelope;
use weir_kernel::{Disposition, EventUid, ScopeId, TenantId, WorkId};
use weir_ledger::{Cause, NewEvent, Outcome, append, lock_scope};
use weir_pg::{Command, Db, Tx};
use weir_testkit::TestDb;

use super::list::{Filter, ListEvents};
use super::watch::{Start, Watch};
use crate::command::publish_config::tests::publish;

const DOCUMENT: &str = "
scopes:
  - name: root
    routes: [ { slot: one, when: 'false', policy: drop }, { slot: two, when: 'false', policy: drop } ]
  - { name: a, parent: root }
  - { name: b, parent: root }
";

/// Accepts events, all in one commit.
struct Accept {
    tenant: TenantId,
    scope: ScopeId,
    events: Vec<Envelope>,
}

impl Command for Accept {
    const NAME: &'static str = "test.accept";
    type Output = Vec<EventUid>;
    type Error = weir_ledger::Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Vec<EventUid>, Self::Error> {
        let lock = lock_scope(tx, self.tenant, self.scope).await?;
        let events: Vec<NewEvent> = self
            .events
            .iter()
            .map(|envelope| NewEvent {
                content: envelope.content("x", &[], (None, 0)),
                envelope: envelope.clone(),
                keys: vec!["k/1".to_owned()],
                target_work: None,
                actor: "ann".to_owned(),
                cause: Cause::Root,
                routed: None,
            })
            .collect();
        let accepted = append(tx, &lock, &events).await?;
        let uids = accepted.into_iter().map(|outcome| match outcome {
            Outcome::Accepted(accepted) => accepted.uid,
            other => panic!("each identity is new: {other:?}"),
        });
        Ok(uids.collect())
    }
}

struct House {
    kit: TestDb,
    db: Db,
    tenant: TenantId,
}

impl House {
    async fn new() -> Self {
        let kit = TestDb::new().await;
        let db = kit.open("routing");
        publish(&db, "t", DOCUMENT, Some(0), "")
            .await
            .expect("it is valid");
        let (tenant, _) = weir_ledger::tenant::resolve(&db, "t")
            .await
            .expect("it was just published");
        Self { kit, db, tenant }
    }

    async fn scope(&self, name: &str) -> ScopeId {
        let mut tx = self.db.snapshot().await.expect("the server answers");
        super::scope(&mut tx, self.tenant, name)
            .await
            .expect("it is in the document")
    }

    async fn accept(&self, scope: &str, ids: &[&str]) -> Vec<EventUid> {
        let events = ids
            .iter()
            .map(|id| Envelope::json((*id).to_owned(), "s", "t", "{}".to_owned()));
        self.accept_envelopes(scope, events.collect()).await
    }

    async fn accept_envelopes(&self, scope: &str, events: Vec<Envelope>) -> Vec<EventUid> {
        let scope = self.scope(scope).await;
        self.db
            .run(&Accept {
                tenant: self.tenant,
                scope,
                events,
            })
            .await
            .expect("they are accepted")
    }

    async fn decide(&self, uid: EventUid, disposition: Disposition, work: Option<WorkId>) {
        sqlx::query(
            "WITH e AS (UPDATE weir.event SET disposition = $2, generation = 1, reason = 'r', work_id = $3 \
                         WHERE uid = $1 RETURNING scope_id, seq) \
             DELETE FROM weir.pending p USING e WHERE p.scope_id = e.scope_id AND p.seq = e.seq",
        )
        .bind(uid.0)
        .bind(disposition.code())
        .bind(work.map(|w| w.0))
        .execute(self.kit.pool())
        .await
        .expect("the event is there");
    }

    fn list(&self, page_size: usize) -> ListEvents {
        ListEvents {
            tenant: self.tenant,
            scope: None,
            filter: Filter::default(),
            page_size,
            with_data: false,
            page_token: String::new(),
        }
    }

    async fn watch(&self, start: Start<'_>) -> Watch {
        let (hint, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
        Watch::start(
            self.db.clone(),
            self.tenant,
            None,
            start,
            true,
            hint,
            shutdown,
        )
        .await
        .expect("it starts")
    }
}
