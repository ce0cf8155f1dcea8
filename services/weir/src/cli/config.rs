//! `weir config`: check, publish and read a tenant's configuration.

use clap::Subcommand;
use weir_proto::routing::v1::config_service_client::ConfigServiceClient;
use weir_proto::routing::v1::{
    GetConfigRequest, GetConfigStatusRequest, ListGenerationsRequest, PublishConfigRequest,
    ValidateConfigRequest,
};
use weir_proto::types::v1::Problem;

use super::error::Failure;
use super::session::Session;
use super::{format, input, output};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a document and store nothing
    Validate {
        /// YAML or JSON; - for standard input
        file: String,
    },
    /// Publish a document as the next generation
    Apply {
        /// YAML or JSON; - for standard input
        file: String,
        /// Publish only while this generation is current; 0 for a tenant's first. Without it, what
        /// is current now
        #[arg(long, value_name = "GENERATION")]
        expect: Option<i64>,
        /// Makes a repeat answer the first result
        #[arg(long, default_value = "", hide_default_value = true)]
        request_id: String,
    },
    /// Print a generation's document, as it was published
    Get {
        /// A generation; the current one when not given
        #[arg(long, default_value_t = 0, hide_default_value = true)]
        generation: i64,
    },
    /// Show which routing process runs which generation
    Status,
    /// List generations, newest first
    Generations {
        /// At most this many in a page, 1 to 1000
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=1000))]
        page_size: i32,
        /// Where the last page ended
        #[arg(long, default_value = "", hide_default_value = true)]
        page_token: String,
    },
}

pub(crate) async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Validate { file } => validate(session, &file).await,
        Command::Apply {
            file,
            expect,
            request_id,
        } => apply(session, &file, expect, request_id).await,
        Command::Get { generation } => get(session, generation).await,
        Command::Status => status(session).await,
        Command::Generations {
            page_size,
            page_token,
        } => generations(session, page_size, page_token).await,
    }
}

async fn validate(session: &Session, file: &str) -> Result<(), Failure> {
    let document = input::text_file(file)?;
    let request = session.request(ValidateConfigRequest { document });
    let answer = session
        .client()?
        .config()
        .validate_config(request)
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        for problem in &answer.problems {
            session.out.line(&finding(file, problem));
        }
    }
    if answer.valid {
        if !session.out.is_json() {
            session.out.line(&format!("{file}: valid"));
        }
        return Ok(());
    }
    let errors = answer
        .problems
        .iter()
        .filter(|problem| problem.severity == "error")
        .count();
    Err(Failure::failed(format!(
        "`{file}` has {errors} error{}",
        if errors == 1 { "" } else { "s" }
    )))
}

/// A finding, in the form that editors jump to.
fn finding(file: &str, problem: &Problem) -> String {
    let place = match (problem.line, problem.column) {
        (0, _) => file.to_owned(),
        (line, 0) => format!("{file}:{line}"),
        (line, column) => format!("{file}:{line}:{column}"),
    };
    let path = if problem.path.is_empty() {
        String::new()
    } else {
        format!("{}: ", problem.path)
    };
    let reason = if problem.reason.is_empty() {
        String::new()
    } else {
        format!(" [{}]", problem.reason)
    };
    format!(
        "{place}: {}: {path}{}{reason}",
        problem.severity, problem.message
    )
}

async fn apply(
    session: &Session,
    file: &str,
    expect: Option<i64>,
    request_id: String,
) -> Result<(), Failure> {
    let document = input::text_file(file)?;
    let mut config = session.client()?.config();
    let expected = match expect {
        Some(expected) => expected,
        // Whatever is current now: who publishes in between is not overwritten.
        None => current(session, &mut config).await?,
    };
    let request = session.request(PublishConfigRequest {
        document,
        expected_generation: Some(expected),
        request_id,
    });
    let answer = config.publish_config(request).await?.into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    for problem in &answer.problems {
        output::complain(&finding(file, problem));
    }
    let generation = answer.generation.unwrap_or_default();
    session.out.facts(&[
        ("generation", generation.generation.to_string()),
        ("digest", generation.digest),
        ("published", format::time(generation.created_at)),
        ("actor", generation.actor),
    ]);
    Ok(())
}

/// Returns the tenant's current generation, 0 before its first.
async fn current(
    session: &Session,
    config: &mut ConfigServiceClient<weir_client::Service>,
) -> Result<i64, Failure> {
    match config
        .get_config(session.request(GetConfigRequest { generation: 0 }))
        .await
    {
        Ok(answer) => Ok(answer
            .into_inner()
            .generation
            .unwrap_or_default()
            .generation),
        Err(status) if weir_client::Problem::from(&status).reason == "TENANT_NOT_FOUND" => Ok(0),
        Err(status) => Err(status.into()),
    }
}

async fn get(session: &Session, generation: i64) -> Result<(), Failure> {
    let request = session.request(GetConfigRequest { generation });
    let answer = session
        .client()?
        .config()
        .get_config(request)
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
    } else {
        session.out.line(answer.document.trim_end_matches('\n'));
    }
    Ok(())
}

async fn status(session: &Session) -> Result<(), Failure> {
    let request = session.request(GetConfigStatusRequest {});
    let answer = session
        .client()?
        .config()
        .get_config_status(request)
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    session
        .out
        .facts(&[("current generation", answer.generation.to_string())]);
    let rows = answer
        .replicas
        .into_iter()
        .map(|r| vec![r.replica, r.generation.to_string(), format::time(r.seen_at)])
        .collect();
    session.out.table(
        &["REPLICA", "GENERATION", "SEEN"],
        rows,
        "no routing process is alive",
    );
    Ok(())
}

async fn generations(session: &Session, page_size: i32, page_token: String) -> Result<(), Failure> {
    let request = session.request(ListGenerationsRequest {
        page_size,
        page_token,
    });
    let answer = session
        .client()?
        .config()
        .list_generations(request)
        .await?
        .into_inner();
    if session.out.is_json() {
        session.out.message(&answer);
        return Ok(());
    }
    let rows = answer
        .generations
        .into_iter()
        .map(|g| {
            vec![
                g.generation.to_string(),
                format::time(g.created_at),
                g.actor,
                g.digest,
            ]
        })
        .collect();
    session.out.table(
        &["GENERATION", "PUBLISHED", "ACTOR", "DIGEST"],
        rows,
        "no generations",
    );
    if !answer.next_page_token.is_empty() {
        output::complain(&format!(
            "there are more: --page-token {}",
            answer.next_page_token
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_has_a_place_that_editors_jump_to() {
        let mut problem = Problem {
            severity: "error".to_owned(),
            path: "scopes[0].routs".to_owned(),
            line: 3,
            column: 5,
            message: "unknown field `routs`".to_owned(),
            reason: "UNKNOWN_FIELD".to_owned(),
        };
        assert_eq!(
            finding("weir.yaml", &problem),
            "weir.yaml:3:5: error: scopes[0].routs: unknown field `routs` [UNKNOWN_FIELD]"
        );
        (problem.line, problem.column) = (0, 0);
        assert!(finding("weir.yaml", &problem).starts_with("weir.yaml: error: "));
    }
}
