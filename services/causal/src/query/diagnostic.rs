//! Refusals of the causal limits, as an operator reads them.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;
use weir_kernel::{EventUid, TenantId};

use super::token::{self, Position};
use crate::Error;

/// Most items of one page.
const MOST: i32 = 1_000;
/// Items of a page whose size was not asked for.
const DEFAULT: i32 = 100;

/// Refusals of one root, minute and cause (rule c05).
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct DiagnosticView {
    pub(crate) root_uid: Uuid,
    pub(crate) minute: DateTime<Utc>,
    pub(crate) code: i16,
    pub(crate) refused: i64,
    pub(crate) limit_value: i32,
    pub(crate) parent_uid: Uuid,
    pub(crate) depth: i32,
    #[sqlx(rename = "type")]
    pub(crate) kind: String,
}

/// Lists a page, newest minute first, of one root or of all. A missing parent stands as its own root, so
/// that `root` need not be an event. Returns the next page's token, empty at the end.
///
/// # Errors
/// The page's size or token is none.
pub(crate) async fn list_diagnostics(
    conn: &mut PgConnection,
    tenant: TenantId,
    root: Option<EventUid>,
    size: i32,
    given: &str,
) -> Result<(Vec<DiagnosticView>, String), Error> {
    let size = match size {
        0 => DEFAULT,
        1..=MOST => size,
        _ => {
            return Err(Error::field(
                "page_size",
                format!("is {size}, not 1 to {MOST}"),
            ));
        }
    };
    let after = match given {
        "" => None,
        given => Some(token::open(tenant, root, given)?),
    };
    let query = match root {
        None => sqlx::query_as(include_str!("sql/list_diagnostics.sql")),
        Some(_) => sqlx::query_as(include_str!("sql/list_diagnostics_of_root.sql")),
    };
    let mut rows: Vec<DiagnosticView> = query
        .bind(tenant.0)
        .bind(after.map(|p| p.minute))
        .bind(after.map(|p| p.code))
        // One more than the page, to see whether there is a next one.
        .bind(i64::from(size) + 1)
        .bind(root.map(|root| root.0).or_else(|| after.map(|p| p.root)))
        .fetch_all(conn)
        .await?;
    let page = usize::try_from(size).unwrap_or(usize::MAX);
    if rows.len() <= page {
        return Ok((rows, String::new()));
    }
    rows.truncate(page);
    let last = rows.last().map(|row| Position {
        minute: row.minute,
        root: row.root_uid,
        code: row.code,
    });
    let next = last
        .map(|last| token::close(tenant, root, last))
        .unwrap_or_default();
    Ok((rows, next))
}
