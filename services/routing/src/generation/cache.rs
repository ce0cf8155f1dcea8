//! The newest generation of each tenant, kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sqlx::Row as _;
use tokio::sync::Notify;
use weir_kernel::TenantId;
use weir_pg::{Db, Tx};

use super::{Error, Generation, load};

/// How long a generation is believed to be the newest. A second late is harmless, as a commit
/// compares the number, and it bounds the questions to one a second and tenant.
const BELIEVED: Duration = Duration::from_secs(1);

/// The current generations of all tenants. Cheap to clone; clones share what they know.
#[derive(Debug, Clone)]
pub struct Generations(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: Db,
    /// Only tenants that exist, so that made-up names cost no memory.
    slots: RwLock<Slots>,
    /// Told when a number is learned.
    learned: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Slots {
    by_name: HashMap<String, Arc<Slot>>,
    by_id: HashMap<TenantId, Arc<Slot>>,
}

/// One tenant.
#[derive(Debug)]
struct Slot {
    tenant: TenantId,
    name: String,
    known: Mutex<Option<Known>>,
    /// Held while the database is asked, so that many callers ask once.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone)]
struct Known {
    number: i64,
    asked: Instant,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Usable(Arc<Generation>),
    /// It does not compile, and was logged.
    Unusable(Arc<str>),
}

impl Known {
    fn answer(&self) -> Result<Arc<Generation>, Error> {
        match &self.state {
            State::Usable(generation) => Ok(Arc::clone(generation)),
            State::Unusable(problem) => Err(Error::Unusable {
                generation: self.number,
                problem: problem.to_string(),
            }),
        }
    }
}

impl Slot {
    fn known(&self) -> Option<Known> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn believed(&self) -> Option<Known> {
        self.known()
            .filter(|known| known.asked.elapsed() < BELIEVED)
    }

    /// Keeps what was learnt, unless something newer is known already: numbers only rise.
    fn learn(&self, learnt: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|k| k.number <= learnt.number) {
            *known = Some(learnt);
        }
    }

    /// Answers when a generation, or a newer one, is known.
    fn at_least(&self, number: i64, asked: Instant) -> Option<Result<Arc<Generation>, Error>> {
        // What was read before may arrive late: numbers only rise, so the higher one is newer.
        let known = self.known().filter(|known| known.number >= number)?;
        let known = Known { asked, ..known };
        let answer = known.answer();
        self.learn(known);
        Some(answer)
    }

    fn loaded(
        &self,
        number: i64,
        asked: Instant,
        loaded: Result<Generation, Error>,
    ) -> Result<Arc<Generation>, Error> {
        let state = match loaded {
            Ok(generation) => State::Usable(Arc::new(generation)),
            Err(Error::Unusable { problem, .. }) => {
                tracing::error!(
                    tenant.id = self.tenant.0,
                    generation = number,
                    problem,
                    "the published configuration does not compile in this version"
                );
                State::Unusable(problem.into())
            }
            Err(error) => return Err(error),
        };
        let known = Known {
            number,
            asked,
            state,
        };
        self.learn(known.clone());
        known.answer()
    }
}

impl Generations {
    /// Makes an empty cache over a database.
    #[must_use]
    pub fn new(db: Db) -> Self {
        Self(Arc::new(Inner {
            db,
            slots: RwLock::default(),
            learned: Arc::default(),
        }))
    }

    /// Returns a tenant's generation, at most a second old.
    ///
    /// # Errors
    /// TENANT_NOT_FOUND before its first publication; `CONFIG_UNUSABLE`; the database's.
    pub async fn current(&self, tenant_name: &str) -> Result<Arc<Generation>, Error> {
        let slot = self
            .0
            .slots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_name
            .get(tenant_name)
            .cloned();
        match slot {
            Some(slot) => self.of(&slot).await,
            None => self.refresh(tenant_name).await,
        }
    }

    /// Returns a tenant's generation, at most a second old, by the tenant's number.
    ///
    /// # Errors
    /// As [`Generations::current`].
    pub async fn by_id(&self, tenant: TenantId) -> Result<Arc<Generation>, Error> {
        let slot = self
            .0
            .slots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_id
            .get(&tenant)
            .cloned();
        if let Some(slot) = slot {
            return self.of(&slot).await;
        }
        let mut conn = self.0.db.acquire().await?;
        let name: Option<String> =
            sqlx::query_scalar("SELECT name FROM weir.tenant WHERE tenant_id = $1")
                .bind(tenant.0)
                .fetch_optional(&mut *conn)
                .await?;
        drop(conn);
        match name {
            Some(name) => self.refresh(&name).await,
            None => Err(weir_ledger::Error::TenantNotFound(tenant.to_string()).into()),
        }
    }

    /// Returns a tenant's number, which never changes; also when its configuration is unusable.
    ///
    /// # Errors
    /// TENANT_NOT_FOUND before its first publication; the database's.
    pub async fn tenant(&self, name: &str) -> Result<TenantId, Error> {
        let slot = self
            .0
            .slots
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_name
            .get(name)
            .cloned();
        match slot {
            Some(slot) => Ok(slot.tenant),
            None => Ok(weir_ledger::tenant::resolve(&self.0.db, name).await?.0),
        }
    }

    /// Asks the database now, whatever was believed, and returns the newest generation.
    ///
    /// # Errors
    /// As [`Generations::current`].
    pub async fn refresh(&self, tenant_name: &str) -> Result<Arc<Generation>, Error> {
        let (tenant, number) = weir_ledger::tenant::resolve(&self.0.db, tenant_name).await?;
        if number == 0 {
            return Err(weir_ledger::Error::TenantNotFound(tenant_name.to_owned()).into());
        }
        let slot = self.slot(tenant, tenant_name);
        let _asking = slot.asking.lock().await;
        self.update(&slot, number).await
    }

    /// Returns a tenant's newest generation as a transaction sees it, or a newer one. What is not known yet is read in
    /// that transaction, and nothing outside of it. Callers do not wait for each other: whoever waits holds a
    /// connection that the other may need.
    ///
    /// # Errors
    /// As [`Generations::current`].
    pub async fn seen_by(
        &self,
        tx: &mut Tx<'_>,
        tenant_name: &str,
    ) -> Result<Arc<Generation>, Error> {
        let asked = Instant::now();
        let (tenant, number) = weir_ledger::tenant::resolve_on(tx.conn(), tenant_name).await?;
        if number == 0 {
            return Err(weir_ledger::Error::TenantNotFound(tenant_name.to_owned()).into());
        }
        let slot = self.slot(tenant, tenant_name);
        if let Some(answer) = slot.at_least(number, asked) {
            return answer;
        }
        let loaded = load::load_in(tx, tenant, tenant_name, number).await;
        let answer = slot.loaded(number, asked, loaded);
        self.0.learned.notify_one();
        answer
    }

    /// Returns every tenant that has published a configuration, in the order of their numbers.
    ///
    /// # Errors
    /// The database's.
    pub async fn tenants(&self) -> Result<Vec<TenantId>, Error> {
        let mut conn = self.0.db.acquire().await?;
        let rows = sqlx::query(
            "SELECT tenant_id FROM weir.tenant WHERE generation > 0 ORDER BY tenant_id",
        )
        .fetch_all(&mut *conn)
        .await?;
        rows.into_iter()
            .map(|row| Ok(TenantId(row.try_get(0)?)))
            .collect()
    }

    /// Returns what is loaded: tenant, number, and whether it can be used.
    #[must_use]
    pub fn loaded(&self) -> Vec<(TenantId, i64, bool)> {
        let slots = self.0.slots.read().unwrap_or_else(PoisonError::into_inner);
        let known = slots.by_id.iter().filter_map(|(tenant, slot)| {
            let known = slot.known()?;
            let usable = matches!(known.state, State::Usable(_));
            Some((*tenant, known.number, usable))
        });
        known.collect()
    }

    /// Returns the current generations that are loaded and can be used.
    #[must_use]
    pub fn usable(&self) -> Vec<Arc<Generation>> {
        let slots = self.0.slots.read().unwrap_or_else(PoisonError::into_inner);
        let known = slots.by_id.values().filter_map(|slot| slot.known());
        known.filter_map(|known| known.answer().ok()).collect()
    }

    /// Told, for one waiter, each time that a generation is loaded.
    #[must_use]
    pub fn learned(&self) -> &Arc<Notify> {
        &self.0.learned
    }

    async fn of(&self, slot: &Slot) -> Result<Arc<Generation>, Error> {
        if let Some(known) = slot.believed() {
            return known.answer();
        }
        let _asking = slot.asking.lock().await;
        if let Some(known) = slot.believed() {
            return known.answer();
        }
        let (_, number) = weir_ledger::tenant::resolve(&self.0.db, &slot.name).await?;
        self.update(slot, number).await
    }

    /// Makes sure that a generation, or a newer one, is known. The caller holds `asking`.
    async fn update(&self, slot: &Slot, number: i64) -> Result<Arc<Generation>, Error> {
        let asked = Instant::now();
        if let Some(answer) = slot.at_least(number, asked) {
            return answer;
        }
        let loaded = load::load(&self.0.db, slot.tenant, &slot.name, number).await;
        let answer = slot.loaded(number, asked, loaded);
        self.0.learned.notify_one();
        answer
    }

    fn slot(&self, tenant: TenantId, name: &str) -> Arc<Slot> {
        let mut slots = self.0.slots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.by_name.get(name) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(Slot {
            tenant,
            name: name.to_owned(),
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        });
        slots.by_name.insert(name.to_owned(), Arc::clone(&slot));
        slots.by_id.insert(tenant, Arc::clone(&slot));
        slot
    }
}
