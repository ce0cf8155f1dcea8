//! The newest generation of each tenant, kept in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sqlx::Row as _;
use weir_kernel::TenantId;
use weir_pg::Db;

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

    fn learn(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }
}

impl Generations {
    /// Makes an empty cache over a database.
    #[must_use]
    pub fn new(db: Db) -> Self {
        Self(Arc::new(Inner {
            db,
            slots: RwLock::default(),
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
        if let Some(known) = slot.known().filter(|known| known.number >= number) {
            // What was read before may arrive late: numbers only rise, so the higher one is newer.
            let known = Known { asked, ..known };
            let answer = known.answer();
            slot.learn(known);
            return answer;
        }
        let state = match load::load(&self.0.db, slot.tenant, &slot.name, number).await {
            Ok(generation) => State::Usable(Arc::new(generation)),
            Err(Error::Unusable { problem, .. }) => {
                tracing::error!(
                    tenant.id = slot.tenant.0,
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
        slot.learn(known.clone());
        known.answer()
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
