//! Databases on a private or a test server: created when missing, made as a template once per
//! schema, and copied from it, one fresh database per test.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use uuid::Uuid;

use super::error::Error;
use super::place::digest;

const EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)";
const LOCK: &str = "SELECT pg_catalog.pg_advisory_lock($1)";
const WITH_COMMENTS: &str = "SELECT datname::text AS name, pg_catalog.shobj_description(oid, 'pg_database') AS comment \
     FROM pg_catalog.pg_database WHERE NOT datistemplate";

/// What a template's comment begins with; the time of its last use follows, in Unix seconds.
const COMMENT: &str = "weir template, last used ";
/// How the name of a template ends while it is being built.
const DRAFT: &str = "_draft";
/// What a test's database is called: this, and a UUIDv7, which tells its age.
const TEST_PREFIX: &str = "t_";
/// When a test's database that nobody dropped, and an old schema's template, have had their time.
const LEFTOVER: Duration = Duration::from_secs(3600);
/// How often a template's last use is written down.
const COMMENT_STEP: Duration = Duration::from_secs(600);

/// A database of one test, copied from a template.
///
/// [`TestDatabase::close`] drops it. So does dropping the value, as well as it can: it waits for
/// the server on a thread of its own and reports failures to the log only. A database that stays,
/// because the process was killed, is removed by a later [`ensure_template`].
#[derive(Debug)]
pub struct TestDatabase {
    admin_url: String,
    name: String,
    open: bool,
}

impl TestDatabase {
    /// Creates a database with the content of `template`. May be called by many at a time.
    ///
    /// # Errors
    /// [`Error::Name`] when the template's name is not a plain one, [`Error::Sql`] otherwise, for
    /// instance when there is no such template or somebody is connected to it.
    pub async fn create(admin_url: &str, template: &str) -> Result<TestDatabase, Error> {
        check_name(template)?;
        let name = format!("{TEST_PREFIX}{}", Uuid::now_v7().simple());
        let mut admin = connect(admin_url).await?;
        run(
            &mut admin,
            "create a test database",
            format!(r#"CREATE DATABASE "{name}" TEMPLATE "{template}""#),
        )
        .await?;
        // From here on the value owns the database, whatever becomes of the connection.
        let database = TestDatabase {
            admin_url: admin_url.to_owned(),
            name,
            open: true,
        };
        let _ = admin.close().await;
        Ok(database)
    }

    /// The database's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database's address.
    #[must_use]
    pub fn url(&self) -> String {
        database_url(&self.admin_url, &self.name)
    }

    /// Drops the database, and ends whatever session is connected to it.
    ///
    /// # Errors
    /// [`Error::Sql`]; it is then tried once more as by dropping the value.
    pub async fn close(mut self) -> Result<(), Error> {
        drop_database(&self.admin_url, &self.name).await?;
        self.open = false;
        Ok(())
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let (admin_url, name) = (self.admin_url.clone(), self.name.clone());
        // Its own thread and runtime: a value may be dropped inside a runtime, which cannot wait,
        // and while that runtime ends.
        let dropping = std::thread::Builder::new()
            .name("drop-database".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| error.to_string())?;
                runtime
                    .block_on(drop_database(&admin_url, &name))
                    .map_err(|error| error.to_string())
            });
        let outcome = dropping
            .map_err(|error| error.to_string())
            .map(std::thread::JoinHandle::join);
        match outcome {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) | Err(error) => {
                tracing::warn!(database = self.name, %error, "a test database stays")
            }
            Ok(Err(_)) => tracing::warn!(database = self.name, "a test database stays"),
        }
    }
}

/// Makes the template database of a schema unless it is there, and returns its name, which is
/// `family` and the beginning of the hash of `fingerprint` (the migrations: all that decides the
/// content). `build` gets the address of an empty database and must have closed its connections
/// when it returns. Many processes may call this at a time: one builds, the others wait. A build
/// that fails or is killed leaves nothing that passes for a template.
///
/// On the way it removes the family's templates that nobody has used for an hour and the databases
/// of tests that are older than that and not in use.
///
/// # Errors
/// [`Error::Name`] when `family` is no plain name of at most 40 bytes, [`Error::Template`] when
/// `build` fails, [`Error::Sql`] otherwise.
pub async fn ensure_template<B, E>(
    admin_url: &str,
    family: &str,
    fingerprint: &[u8],
    build: B,
) -> Result<String, Error>
where
    B: AsyncFnOnce(String) -> Result<(), E>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    check_name(family)?;
    if family.len() > 40 {
        return Err(Error::Name {
            name: family.to_owned(),
        });
    }
    let name = format!("{family}_{}", &digest(&[fingerprint])[..16]);
    let mut admin = connect(admin_url).await?;
    // Held until the connection ends, whichever way this function is left.
    let key = i64::from_str_radix(&digest(&[b"weir template", family.as_bytes()])[..15], 16)
        .expect("60 bits fit");
    sqlx::query(LOCK)
        .bind(key)
        .execute(&mut admin)
        .await
        .map_err(Error::sql("lock the template database"))?;

    let others = databases(&mut admin).await?;
    match others.iter().find(|(other, _)| *other == name) {
        Some((_, comment)) => {
            if last_used(comment.as_deref()).is_none_or(|at| age(at) > COMMENT_STEP) {
                comment_use(&mut admin, &name).await?;
            }
        }
        None => {
            let draft = format!("{name}{DRAFT}");
            run(
                &mut admin,
                "drop a draft template",
                format!(r#"DROP DATABASE IF EXISTS "{draft}" WITH (FORCE)"#),
            )
            .await?;
            run(
                &mut admin,
                "create a template",
                format!(r#"CREATE DATABASE "{draft}""#),
            )
            .await?;
            build(database_url(admin_url, &draft))
                .await
                .map_err(|error| Error::Template {
                    name: name.clone(),
                    source: error.into(),
                })?;
            // A database can be copied only while nobody is connected to it, so nobody may be.
            run(
                &mut admin,
                "close the template",
                format!(r#"ALTER DATABASE "{draft}" ALLOW_CONNECTIONS false"#),
            )
            .await?;
            comment_use(&mut admin, &draft).await?;
            run(
                &mut admin,
                "name the template",
                format!(r#"ALTER DATABASE "{draft}" RENAME TO "{name}""#),
            )
            .await?;
        }
    }
    for (other, comment) in others.iter().filter(|(other, _)| *other != name) {
        if is_leftover(other, comment.as_deref(), family) {
            // Not by force: whoever still uses it goes first. The next caller tries again.
            if let Err(error) = run(
                &mut admin,
                "drop a leftover",
                format!(r#"DROP DATABASE IF EXISTS "{other}""#),
            )
            .await
            {
                tracing::debug!(database = other, %error, "a leftover database stays");
            }
        }
    }
    let _ = admin.close().await;
    Ok(name)
}

/// The address of another database on the server of `url`.
#[must_use]
pub fn database_url(url: &str, database: &str) -> String {
    let (address, query) = url
        .split_once('?')
        .map_or((url, None), |(address, query)| (address, Some(query)));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let end = address[authority..]
        .find('/')
        .map_or(address.len(), |at| authority + at);
    let mut other = format!("{}/{database}", &address[..end]);
    // A `dbname` in the query would win over the path.
    let kept: Vec<&str> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|pair| !pair.starts_with("dbname="))
        .collect();
    if !kept.is_empty() {
        other.push('?');
        other.push_str(&kept.join("&"));
    }
    other
}

pub(super) async fn create_if_missing(admin_url: &str, name: &str) -> Result<bool, Error> {
    check_name(name)?;
    let mut admin = connect(admin_url).await?;
    let exists = async |admin: &mut PgConnection| -> Result<bool, Error> {
        sqlx::query_scalar(EXISTS)
            .bind(name)
            .fetch_one(admin)
            .await
            .map_err(Error::sql("look for a database"))
    };
    let mut created = false;
    if !exists(&mut admin).await? {
        match run(
            &mut admin,
            "create a database",
            format!(r#"CREATE DATABASE "{name}""#),
        )
        .await
        {
            Ok(()) => created = true,
            // Somebody else was faster: PostgreSQL says so in more than one way.
            Err(_) if exists(&mut admin).await? => {}
            Err(error) => return Err(error),
        }
    }
    let _ = admin.close().await;
    Ok(created)
}

async fn drop_database(admin_url: &str, name: &str) -> Result<(), Error> {
    let mut admin = connect(admin_url).await?;
    run(
        &mut admin,
        "drop a test database",
        format!(r#"DROP DATABASE IF EXISTS "{name}" WITH (FORCE)"#),
    )
    .await?;
    let _ = admin.close().await;
    Ok(())
}

async fn connect(url: &str) -> Result<PgConnection, Error> {
    PgConnection::connect(url)
        .await
        .map_err(Error::sql("connect to the database server"))
}

/// Runs a statement that cannot take parameters. Every name in it went through [`check_name`] or
/// was made here.
async fn run(
    admin: &mut PgConnection,
    action: &'static str,
    statement: String,
) -> Result<(), Error> {
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(admin)
        .await
        .map_err(Error::sql(action))?;
    Ok(())
}

async fn databases(admin: &mut PgConnection) -> Result<Vec<(String, Option<String>)>, Error> {
    let rows = sqlx::query(WITH_COMMENTS)
        .fetch_all(admin)
        .await
        .map_err(Error::sql("list the databases"))?;
    rows.iter()
        .map(|row| Ok((row.try_get("name")?, row.try_get("comment")?)))
        .collect::<Result<_, sqlx::Error>>()
        .map_err(Error::sql("list the databases"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the age of leftovers, no time of the domain"
)]
async fn comment_use(admin: &mut PgConnection, name: &str) -> Result<(), Error> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    run(
        admin,
        "note a template's use",
        format!(r#"COMMENT ON DATABASE "{name}" IS '{COMMENT}{now}'"#),
    )
    .await
}

fn last_used(comment: Option<&str>) -> Option<u64> {
    comment?.strip_prefix(COMMENT)?.parse().ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the age of leftovers, no time of the domain"
)]
fn age(unix_seconds: u64) -> Duration {
    UNIX_EPOCH
        .checked_add(Duration::from_secs(unix_seconds))
        .and_then(|at| SystemTime::now().duration_since(at).ok())
        .unwrap_or_default()
}

/// Whether a database is a test's, or a template of this family, and has had its time.
fn is_leftover(name: &str, comment: Option<&str>, family: &str) -> bool {
    let born = if let Some(id) = name.strip_prefix(TEST_PREFIX).filter(|id| id.len() == 32) {
        Uuid::try_parse(id)
            .ok()
            .filter(|id| id.get_version_num() == 7)
            .and_then(|id| Some(id.get_timestamp()?.to_unix().0))
    } else if let Some(rest) = name
        .strip_prefix(family)
        .filter(|rest| rest.starts_with('_'))
    {
        if rest.ends_with(DRAFT) && comment.is_none() {
            // Drafts are made under the lock that the caller holds, so nobody is at work on it.
            return true;
        }
        last_used(comment)
    } else {
        None
    };
    born.is_some_and(|at| age(at) > LEFTOVER)
}

/// Plain names only, so that a name in a statement can never be more than a name.
fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=63).contains(&name.len()) && name.bytes().all(plain) {
        Ok(())
    } else {
        Err(Error::Name {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::{NoContext, Timestamp, Uuid};

    use super::{check_name, database_url, is_leftover};

    #[test]
    fn only_the_database_of_an_address_changes() {
        assert_eq!(
            database_url("postgres://u:p@h:1/old?host=/tmp/x&dbname=y", "new"),
            "postgres://u:p@h:1/new?host=/tmp/x"
        );
        assert_eq!(database_url("postgres://h", "new"), "postgres://h/new");
        assert_eq!(
            database_url("postgres://h/?sslmode=disable", "new"),
            "postgres://h/new?sslmode=disable"
        );
    }

    #[test]
    fn only_plain_names_are_taken() {
        assert!(check_name("weir_1").is_ok());
        for bad in ["", "a\"b", "A", "a b", "é", &"x".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_old_databases_of_tests_and_of_the_family_are_leftovers() {
        let old = format!(
            "t_{}",
            Uuid::new_v7(Timestamp::from_unix(NoContext, 1_700_000_000, 0)).simple()
        );
        assert!(is_leftover(&old, None, "weir"));
        assert!(!is_leftover(
            &format!("t_{}", Uuid::now_v7().simple()),
            None,
            "weir"
        ));
        assert!(!is_leftover("t_table", None, "weir"));
        let comment = Some("weir template, last used 1700000000");
        assert!(is_leftover("weir_00", comment, "weir"));
        assert!(!is_leftover("other_00", comment, "weir"));
        assert!(!is_leftover("weir_00", None, "weir"));
        assert!(is_leftover("weir_00_draft", None, "weir"));
    }
}
