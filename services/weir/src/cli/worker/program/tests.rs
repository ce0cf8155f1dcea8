use super::*;

fn exit(code: i32) -> ExitStatus {
    ExitStatus::from_raw(code << 8)
}

#[test]
fn exit_codes_decide() {
    assert_eq!(outcome(exit(0), false), Outcome::complete("exit status 0"));
    assert_eq!(outcome(exit(3), false), Outcome::retry("exit status 3"));
    assert_eq!(outcome(exit(65), false), Outcome::give_up("exit status 65"));
    assert_eq!(
        outcome(ExitStatus::from_raw(9), false),
        Outcome::retry("killed by signal 9")
    );
}

#[test]
fn dying_of_an_asked_interrupt_is_no_failure() {
    assert_eq!(
        outcome(ExitStatus::from_raw(SIGINT), true),
        Outcome::Release
    );
    assert_eq!(outcome(exit(130), true), Outcome::Release);
    assert_eq!(outcome(exit(0), true), Outcome::complete("exit status 0"));
    assert_eq!(
        outcome(ExitStatus::from_raw(SIGINT), false),
        Outcome::retry("killed by signal 2")
    );
}

#[test]
fn a_program_is_looked_for_where_the_system_would() {
    assert!(exists(OsStr::new("/bin/sh"), None));
    assert!(exists(OsStr::new("sh"), Some(OsStr::new("/no/where:/bin"))));
    assert!(!exists(OsStr::new("sh"), Some(OsStr::new("/no/where"))));
    assert!(Program::new(vec!["no-such-program".into()], false, "", "").is_err());
}

/// Programs that really run, under a worker against a scripted service.
mod runs {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;
    use tonic::Code;
    use tonic_types::StatusExt as _;
    use weir_client::executor::{Ending, Report, Settings, Worker};
    use weir_client::proto::lifecycle::v1::{Capability, RenewResponse};
    use weir_client::testing::{Call, FakeExecutorService, event, work};

    /// Runs a shell script on one Work and returns how its attempt ended.
    async fn run(
        service: &FakeExecutorService,
        script: &str,
        inject: bool,
        claimed: ClaimedWork,
    ) -> Report {
        let command = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
        let program =
            Program::new(command, inject, "http://weir", "demo").expect("a shell is there");
        let mut settings = Settings::new("command", "triage");
        settings.capabilities = vec![Capability::Inject, Capability::Interrupt];
        settings.max_works = Some(1);
        let (sender, mut reports) = mpsc::unbounded_channel();
        settings.observer = Some(Arc::new(move |report: &Report| {
            let _ = sender.send(report.clone());
        }));
        service.offer(claimed);
        let worker = Worker::new(service.client(), settings);
        worker
            .run(program, CancellationToken::new())
            .await
            .expect("not refused");
        reports.recv().await.expect("the attempt ended")
    }

    fn refused(reason: &str) -> tonic::Status {
        let mut details = tonic_types::ErrorDetails::new();
        details.set_error_info(reason, "weir", std::collections::HashMap::new());
        tonic::Status::with_error_details(Code::Aborted, "refused", details)
    }

    #[tokio::test]
    async fn inputs_come_as_lines_and_standard_input_closes() {
        let mut service = FakeExecutorService::start().await;
        let script = r#"test "$(cat)" = '{"uid":"e1"}
{"uid":"e2"}' && test "$WEIR_WORK/$WEIR_ATTEMPT/$WEIR_EPOCH/$WEIR_SCOPE/$WEIR_URL/$WEIR_TENANT" = w/1/7/github/http://weir/demo"#;
        let report = run(&service, script, false, work("w", 60_000, &["e1", "e2"])).await;
        assert_eq!(
            (report.ending, report.detail.as_str()),
            (Ending::Completed, "")
        );
        service
            .call(|call| *call == Call::Complete("exit status 0".to_owned()))
            .await;
    }

    #[tokio::test]
    async fn a_program_need_not_read_and_may_print_a_lot() {
        let service = FakeExecutorService::start().await;
        let many: Vec<String> = (0..20_000).map(|n| format!("event-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let report = run(
            &service,
            "exec <&-; exit 3",
            false,
            work("w", 60_000, &many),
        )
        .await;
        assert_eq!(
            (report.ending, report.detail.as_str()),
            (Ending::FailedRetryable, "exit status 3")
        );
        let report = run(
            &service,
            "cat; cat /dev/null",
            false,
            work("w", 60_000, &many),
        )
        .await;
        assert_eq!(report.ending, Ending::Completed);
    }

    #[tokio::test]
    async fn exit_65_fails_for_good() {
        let service = FakeExecutorService::start().await;
        let report = run(&service, "exit 65", false, work("w", 60_000, &[])).await;
        assert_eq!(report.ending, Ending::FailedPermanent);
    }

    #[tokio::test]
    async fn injected_events_arrive_as_lines_and_an_ack_line_acknowledges() {
        let mut service = FakeExecutorService::start().await;
        service.renew_with(RenewResponse {
            injects: vec![event("e2")],
            ..RenewResponse::default()
        });
        let script = r#"read first; read second; echo not json; echo '{"ack":"e2"}'; test "$second" = '{"uid":"e2"}'"#;
        let report = run(&service, script, true, work("w", 600, &["e1"])).await;
        assert_eq!(report.ending, Ending::Completed);
        service
            .call(|call| *call == Call::Acknowledge(vec!["e2".to_owned()]))
            .await;
    }

    #[tokio::test]
    async fn an_interrupt_is_a_sigint_to_the_group() {
        let service = FakeExecutorService::start().await;
        let interrupt = || RenewResponse {
            interrupts: vec![event("stop")],
            ..RenewResponse::default()
        };
        service.renew_with(interrupt());
        // A shell that handles it ends as it likes; the program it waits for dies of it.
        let report = run(
            &service,
            "trap 'exit 0' INT; tail -f /dev/null & wait",
            false,
            work("w", 600, &[]),
        )
        .await;
        assert_eq!(report.ending, Ending::Completed);
        service.renew_with(interrupt());
        let report = run(
            &service,
            "exec tail -f /dev/null",
            false,
            work("w", 600, &[]),
        )
        .await;
        assert_eq!(
            report.ending,
            Ending::Released,
            "it died of what it was asked to"
        );
    }

    #[tokio::test]
    async fn l02_a_lost_lease_kills_the_whole_group() {
        let service = FakeExecutorService::start().await;
        service.refuse("renew", refused("LEASE_LOST"));
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("alive");
        let made = std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .expect("mkfifo runs");
        assert!(made.success());
        // The grandchild holds the pipe open for as long as it lives, and ignores what it can.
        let script = format!(
            "trap '' INT TERM; exec 3>'{}'; (exec tail -f /dev/null) & wait",
            fifo.display()
        );
        let reading = tokio::task::spawn_blocking(move || std::fs::read(fifo));
        let report = run(&service, &script, false, work("w", 6_000, &[])).await;
        assert_eq!(report.ending, Ending::LeaseLost);
        reading
            .await
            .expect("no panic")
            .expect("the pipe ends when its last holder is killed");
    }

    #[tokio::test]
    async fn what_a_program_leaves_behind_is_killed() {
        let service = FakeExecutorService::start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("alive");
        let made = std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .expect("mkfifo runs");
        assert!(made.success());
        let script = format!(
            "exec 3>'{}'; (exec tail -f /dev/null) & exit 0",
            fifo.display()
        );
        let reading = tokio::task::spawn_blocking(move || std::fs::read(fifo));
        let report = run(&service, &script, false, work("w", 60_000, &[])).await;
        assert_eq!(report.ending, Ending::Completed);
        reading
            .await
            .expect("no panic")
            .expect("the pipe ends when its last holder is killed");
    }
}
