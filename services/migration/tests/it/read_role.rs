//! The role under which traces read (rule r40): it belongs to the server and not to the database that is migrated.
//!
//! The real migrations, with a role of the test's own: the real one is there already and is everybody's.

use std::str::FromStr as _;

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::task::JoinSet;
use weir_migration::Runner;
use weir_testkit::{TestDb, migrations_folder};

use crate::folder::{Folder, down, up};

/// A name that no other test has given.
async fn unique(db: &TestDb, what: &str) -> String {
    let name = "SELECT 'weir_test_' || $1 || '_' || translate(gen_random_uuid()::text, '-', '')";
    sqlx::query_scalar(name)
        .bind(what)
        .fetch_one(db.pool())
        .await
        .expect("the test server answers")
}

/// The migrations with another role, and the version before the one that makes it.
fn migrations(role: &str) -> (Folder, i64) {
    let (mut folder, mut versions, mut maker) = (Folder::new(), Vec::new(), None);
    for entry in std::fs::read_dir(migrations_folder()).expect("the migrations are there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a file").to_string_lossy();
        let text = std::fs::read_to_string(&path).expect("text");
        let version: i64 = name
            .split('_')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("NNNN_name");
        versions.push(version);
        if text.contains("weir_reader") {
            maker = Some(version);
        }
        folder = folder.file(&name, &text.replace("weir_reader", role));
    }
    let maker = maker.expect("a migration makes the role");
    let before = versions.into_iter().filter(|v| *v < maker).max();
    (folder, before.expect("the schema is older"))
}

async fn run(db: &TestDb, statement: String) {
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(db.pool())
        .await
        .expect("the test's user is a superuser");
}

async fn says(db: &TestDb, question: &str, role: &str) -> bool {
    sqlx::query_scalar::<_, Option<bool>>(AssertSqlSafe(question.to_owned()))
        .bind(role)
        .fetch_one(db.pool())
        .await
        .expect("the catalogue can be read")
        .unwrap_or_default()
}

const THERE: &str = "SELECT to_regrole($1) IS NOT NULL";
const READS: &str = "SELECT has_schema_privilege($1, 'weir', 'USAGE') AND has_table_privilege($1, 'weir.event', 'SELECT')";
/// Says whether anything of this database still refers to the role.
const REFERS: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_shdepend d JOIN pg_catalog.pg_database b ON b.oid = d.dbid \
     WHERE b.datname = current_database() AND d.refobjid = to_regrole($1))";

#[tokio::test]
async fn r40_the_read_role_is_made_once_however_many_databases_are_migrated_at_once() {
    let role = unique(&TestDb::empty().await, "role").await;
    let (folder, before) = migrations(&role);
    let migrator = Migrator::new(folder.path())
        .await
        .expect("the folder holds migrations");
    let mut databases = Vec::new();
    let mut migrating = JoinSet::new();
    for _ in 0..6 {
        let db = TestDb::empty().await;
        let runner = Runner::new(db.url(), &migrator, "test").expect("the kit made this address");
        up(&runner, Some(before)).await.expect("the schema is made");
        databases.push((db, runner.clone()));
        migrating.spawn(async move { up(&runner, None).await });
    }
    for migrated in migrating.join_all().await {
        migrated.expect("it does not matter who was first");
    }
    for (db, runner) in &databases {
        assert!(says(db, READS, &role).await);
        down(runner, before).await.expect("the step is taken back");
        assert!(says(db, THERE, &role).await, "other databases have it too");
        assert!(!says(db, REFERS, &role).await, "nothing is left here");
        up(runner, None).await.expect("and once more");
        assert!(says(db, READS, &role).await);
        down(runner, before).await.expect("the step is taken back");
    }
    // PostgreSQL refuses this while any database refers to the role.
    run(&databases[0].0, format!("DROP ROLE {role}")).await;
}

/// A plain user of the server who owns a database.
struct Owner {
    name: String,
    options: PgConnectOptions,
    url: String,
}

impl Owner {
    async fn of(db: &TestDb, attributes: &str) -> Self {
        let name = unique(db, "owner").await;
        run(
            db,
            format!("CREATE ROLE {name} LOGIN PASSWORD '{name}' {attributes}"),
        )
        .await;
        let database: String = sqlx::query_scalar("SELECT current_database()::text")
            .fetch_one(db.pool())
            .await
            .expect("the test server answers");
        run(
            db,
            format!("GRANT CREATE ON DATABASE \"{database}\" TO {name}; GRANT CREATE ON SCHEMA public TO {name}"),
        )
        .await;
        let (_, rest) = db.url().split_once("://").expect("an address");
        let (_, place) = rest.split_once('@').expect("with a user");
        let url = format!("postgres://{name}:{name}@{place}");
        Self {
            options: PgConnectOptions::from_str(&url).expect("an address"),
            name,
            url,
        }
    }

    /// Says whether it can take the role on and read.
    async fn reads_as(&self, role: &str) -> bool {
        let mut session = PgConnection::connect_with(&self.options)
            .await
            .expect("the test server answers");
        let statement = format!("SET ROLE {role}; SELECT count(*) FROM weir.event");
        let read = sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut session)
            .await;
        session.close().await.expect("it is open");
        read.is_ok()
    }

    async fn gone(self, db: &TestDb) {
        let name = self.name;
        run(
            db,
            format!(
                "REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name}; DROP ROLE {name}"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn r40_a_user_who_may_create_roles_becomes_a_member() {
    let db = TestDb::empty().await;
    let owner = Owner::of(&db, "CREATEROLE").await;
    let role = unique(&db, "role").await;
    let (folder, before) = migrations(&role);
    let migrator = Migrator::new(folder.path())
        .await
        .expect("the folder holds migrations");
    let runner = Runner::new(&owner.url, &migrator, "test").expect("an address");
    up(&runner, None).await.expect("all steps apply");
    assert!(owner.reads_as(&role).await);
    // A membership that is there already harms nothing.
    down(&runner, before).await.expect("the step is taken back");
    assert!(!owner.reads_as(&role).await);
    up(&runner, None).await.expect("once more");
    assert!(owner.reads_as(&role).await);
    down(&runner, before).await.expect("the step is taken back");
    run(&db, format!("DROP ROLE {role}")).await;
    owner.gone(&db).await;
}

#[tokio::test]
async fn r40_where_roles_cannot_be_created_the_migration_goes_on_and_an_administrator_can_later() {
    let db = TestDb::empty().await;
    let owner = Owner::of(&db, "").await;
    let role = unique(&db, "role").await;
    let (folder, before) = migrations(&role);
    let migrator = Migrator::new(folder.path())
        .await
        .expect("the folder holds migrations");
    let runner = Runner::new(&owner.url, &migrator, "test").expect("an address");
    up(&runner, None).await.expect("all steps apply");
    assert!(!says(&db, THERE, &role).await);
    down(&runner, before).await.expect("nothing to take back");
    up(&runner, None).await.expect("as before");

    // What docs/OPERATIONS.md tells an administrator to do, and the owner of the schema after that.
    run(
        &db,
        format!("CREATE ROLE {role} NOLOGIN; GRANT {role} TO {}", owner.name),
    )
    .await;
    let mut session = PgConnection::connect_with(&owner.options)
        .await
        .expect("the test server answers");
    let grants = format!(
        "GRANT USAGE ON SCHEMA weir TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA weir TO {role}; \
         ALTER DEFAULT PRIVILEGES IN SCHEMA weir GRANT SELECT ON TABLES TO {role}"
    );
    sqlx::raw_sql(AssertSqlSafe(grants))
        .execute(&mut session)
        .await
        .expect("the tables are the owner's");
    session.close().await.expect("it is open");
    assert!(owner.reads_as(&role).await);
    // The role is there, but not this user's to grant: that is no reason to fail either.
    down(&runner, before).await.expect("the step is taken back");
    assert!(!says(&db, REFERS, &role).await);
    up(&runner, None).await.expect("the step applies");
    assert!(owner.reads_as(&role).await);
    down(&runner, before).await.expect("the step is taken back");
    run(&db, format!("DROP ROLE {role}")).await;
    owner.gone(&db).await;
}
