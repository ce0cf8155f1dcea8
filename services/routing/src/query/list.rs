//! Listing events, page by page (rule r19).
//!
//! Scope by scope, each in acceptance order. The token holds a position for each scope, so pages fit
//! together exactly while others publish: an event is in exactly one page, and what was accepted
//! before the last page is in one. A page may be short, even empty, when a filter takes little of
//! much; only an empty token says that the end is reached.

use weir_kernel::{ScopeId, TenantId};
use weir_pg::Db;

use super::event::{EventRecord, read_all};
use super::position::Vector;
use super::scan::{Bounds, MAX_BYTES, heads, walk};
use super::token::Writer;
use super::{Error, Seal};

pub use super::scan::Filter;

/// Most events of a page.
pub const MAX_PAGE: usize = 1_000;

/// A page wanted.
#[derive(Debug, Clone)]
pub struct ListEvents {
    /// Tenant.
    pub tenant: TenantId,
    /// One scope; all when `None`.
    pub scope: Option<ScopeId>,
    /// Which events.
    pub filter: Filter,
    /// At most this many, 1 to [`MAX_PAGE`].
    pub page_size: usize,
    /// Adds payloads.
    pub with_data: bool,
    /// Where the last page ended; the start when empty.
    pub page_token: String,
}

/// A page.
#[derive(Debug)]
pub struct Page {
    /// The events.
    pub events: Vec<EventRecord>,
    /// Where the next page starts; empty at the end.
    pub next_page_token: String,
}

impl ListEvents {
    /// Reads the page.
    ///
    /// # Errors
    /// PAGE_TOKEN_INVALID; the database's.
    pub async fn run(&self, db: &Db) -> Result<Page, Error> {
        let seal = self.seal();
        let from = match self.page_token.as_str() {
            "" => Vector::default(),
            token => seal.open(token, Vector::read)?,
        };
        let mut tx = db.snapshot().await?;
        let heads = heads(&mut tx, self.tenant, self.scope).await?;
        let bounds = Bounds {
            count: self.page_size.clamp(1, MAX_PAGE),
            with_data: self.with_data,
        };
        let mut walked = walk(&mut tx, self.tenant, &heads, from, &self.filter, bounds).await?;
        let uids: Vec<_> = walked.picked.iter().map(|p| p.uid).collect();
        let mut events = read_all(&mut tx, self.tenant, &uids, self.with_data).await?;
        drop(tx);
        // Refusals and keys have no part in the walk's estimate. What does not fit is put back.
        let fitting = fitting(&events);
        events.truncate(fitting);
        for left in walked.picked.drain(fitting..).rev() {
            walked.after.set(left.scope, left.before);
        }
        let more = heads
            .iter()
            .any(|(scope, head)| walked.after.get(*scope).seq < head.seq);
        let next_page_token = if more {
            let mut body = Writer::default();
            walked.after.write(&mut body);
            seal.close(&body)
        } else {
            String::new()
        };
        Ok(Page {
            events,
            next_page_token,
        })
    }

    fn seal(&self) -> Seal {
        let Filter {
            kind,
            disposition,
            work,
            unrouted,
        } = &self.filter;
        let scope = self.scope.map(|s| s.to_string()).unwrap_or_default();
        let work = work.map(|w| w.to_string()).unwrap_or_default();
        let parts = [
            scope.as_str(),
            kind.as_deref().unwrap_or_default(),
            disposition.map_or("", |d| d.as_str()),
            work.as_str(),
            if *unrouted { "unrouted" } else { "" },
        ];
        Seal::new("list_events", "page_token", self.tenant, &parts)
    }
}

/// Returns how many events fit into one answer, at least one.
pub(super) fn fitting(events: &[EventRecord]) -> usize {
    let mut bytes = 0;
    let fit = events
        .iter()
        .take_while(|event| {
            bytes += event.size();
            bytes <= MAX_BYTES
        })
        .count();
    fit.max(1).min(events.len())
}
