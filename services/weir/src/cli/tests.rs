use clap::{CommandFactory as _, Parser as _};

use super::Cli;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// The help is an interface: exit codes, names and defaults. A change is made on purpose, and the
/// golden file with it: `WEIR_BLESS=1 cargo test -p weir help`.
#[test]
fn the_help_is_what_it_was() {
    let mut command = Cli::command().term_width(100);
    let mut help = String::new();
    describe(&mut command, &mut help);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/help.txt");
    if super::environment::raw("WEIR_BLESS").is_some() {
        std::fs::write(golden, &help).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(golden).expect("the golden file is there");
    assert!(
        help == expected,
        "the help changed; if that is meant, bless it:\n{help}"
    );
}

fn describe(command: &mut clap::Command, help: &mut String) {
    command.build();
    walk(command, help);
}

fn walk(command: &mut clap::Command, help: &mut String) {
    let text = command.render_help().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    help.push_str(&format!(
        "$ {} --help\n{}\n\n",
        command.get_display_name().unwrap_or("weir"),
        lines.join("\n")
    ));
    for sub in command.get_subcommands_mut() {
        walk(sub, help);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = |line: &str| Cli::try_parse_from(line.split(' ')).expect_err(line);
    for line in [
        "weir events get",
        "weir events get 0199 --source s --id i",
        "weir events get --source s",
        "weir events skip 0199",
        "weir events list --unrouted --disposition queue",
        "weir events list --page-size 0",
        "weir events list --disposition nonsense",
        "weir work get --scope s",
        "weir worker --binding b",
        "weir replay f --hook demo/github",
        "weir trace --file f --type t",
        "weir events explain 0199",
        "weir doctor",
    ] {
        assert_eq!(refused(line).exit_code(), 2, "{line}");
    }
}

#[test]
fn what_the_documentation_shows_is_accepted() {
    for line in [
        "weir events publish --scope github --id 1 --type issues.opened --key issue/1 --key k --data {}",
        "weir events get --source demo --id 1 --json",
        "weir events skip 0199 --reason r",
        "weir events tail --scope github --count 3",
        "weir work get --scope github --key issue/1",
        "weir work create --scope github --binding triage --reason r",
        "weir trace --scope github --type issues.opened --data - --filter iss",
        "weir trace --file event.json",
        "weir trace --file event.json --candidate weir.yaml",
        "weir replay events.jsonl --hook demo/github/github --concurrency 4 --limit 10",
        "weir migrate down --target 0 --confirm --wait 5s",
        "weir worker --binding triage --max 3 --idle-exit 5s -- sh -c true",
        "weir worker --binding triage --inject --concurrency 4 -- cat",
        "weir --tenant other config apply weir.yaml --expect 3",
        "weir version",
    ] {
        if let Err(error) = Cli::try_parse_from(line.split(' ')) {
            panic!("{line}: {error}");
        }
    }
}
