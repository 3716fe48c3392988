//! Programs with data that they check themselves work on one mount, then on the other: git, SQLite, PostgreSQL.

use crate::running::can_mount;
use crate::test_cluster::{TestCluster, text};
use gupfs_skips::{Need, skip};
use std::fs::{self, Permissions};
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many times each program moves between the mounts.
fn rounds() -> usize {
    let set = std::env::var("GUPFS_CLUSTER_MOVES");
    set.map_or(1, |set| set.parse().unwrap())
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        skip(Need::Program, format!("{program} is not installed"));
    }
    is_there
}

/// What it printed; it succeeds.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn git(repository: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository).args(args);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "Test");
        git.env(format!("GIT_{role}_EMAIL"), "test@localhost");
    }
    output(&mut git)
}

/// Changes some files, commits, and returns the commit.
fn commit(repository: &Path, round: usize) -> String {
    for number in 0..30 {
        let dir = repository.join(format!("dir{}", number % 5));
        fs::create_dir_all(&dir).unwrap();
        let text = format!("round {}, file {number}\n", round / (1 + number % 3));
        fs::write(
            dir.join(format!("file{number}")),
            text.repeat(1 + number * 40),
        )
        .unwrap();
    }
    git(repository, &["add", "-A"]);
    git(
        repository,
        &["commit", "-q", "-m", &format!("Round {round}")],
    );
    git(repository, &["rev-parse", "HEAD"])
}

#[test]
fn a_git_repository_moves_between_mounts() {
    if !can_mount() || !has("git") {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let mounts = cluster.mount_points();
    git(&mounts[0], &["init", "-q", "-b", "main", "origin"]);
    let mut last = commit(&mounts[0].join("origin"), 0);
    for round in 1..=2 * rounds() {
        let (here, there) = (&mounts[round % 2], &mounts[1 - round % 2]);
        // What the other mount has committed is here, and whole.
        let origin = here.join("origin");
        assert_eq!(git(&origin, &["rev-parse", "HEAD"]), last);
        git(&origin, &["fsck", "--strict", "--full"]);
        assert_eq!(git(&origin, &["status", "--porcelain"]), "");
        let log = git(&origin, &["log", "--oneline"]);
        assert_eq!(log.lines().count(), round);
        last = commit(&origin, round);
        let clone = format!("clone{round}");
        git(here, &["clone", "-q", "--no-local", "origin", &clone]);
        git(&origin, &["gc", "-q", "--prune=now"]);
        assert_eq!(git(&there.join(&clone), &["rev-parse", "HEAD"]), last);
        git(&there.join(&clone), &["fsck", "--strict", "--full"]);
        assert_eq!(git(&there.join(&clone), &["status", "--porcelain"]), "");
        fs::remove_dir_all(there.join(&clone)).unwrap();
    }
    cluster.stop();
}

fn sqlite(database: &Path, statements: &str) -> String {
    let mut sqlite = Command::new("sqlite3");
    sqlite.args(["-batch", "-cmd", ".timeout 60000"]);
    // Longer than an argument may be.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(statements.as_bytes()).unwrap();
    file.rewind().unwrap();
    output(sqlite.arg(database).stdin(file))
}

const SUM: &str = "PRAGMA integrity_check; SELECT count(*), sum(length(text)) FROM t;";

#[test]
fn a_sqlite_database_moves_between_mounts() {
    if !can_mount() || !has("sqlite3") {
        return;
    }
    let cluster = TestCluster::new(2, 2);
    let mounts = cluster.mount_points();
    for mode in ["delete", "wal"] {
        let name = format!("{mode}.db");
        let make = format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(number INTEGER PRIMARY KEY, text);"
        );
        assert_eq!(sqlite(&mounts[0].join(&name), &make).trim(), mode);
        let (mut count, mut length) = (0, 0);
        for round in 0..4 * rounds() {
            let database = mounts[round % 2].join(&name);
            let mut insert = String::from("BEGIN;");
            for number in 0..200 {
                let text = "x".repeat(1 + (round * 200 + number) % 900);
                insert += &format!("INSERT INTO t(text) VALUES('{text}');");
                (count, length) = (count + 1, length + text.len());
            }
            sqlite(
                &database,
                &(insert + "COMMIT; CREATE INDEX IF NOT EXISTS i ON t(text);"),
            );
            let there = mounts[1 - round % 2].join(&name);
            assert_eq!(
                sqlite(&there, SUM),
                format!("ok\n{count}|{length}\n"),
                "{mode}"
            );
        }
    }
    // Both at once: SQLite excludes each other by locks of ranges of the database.
    std::thread::scope(|scope| {
        for (number, mount) in mounts.iter().enumerate() {
            let database = mount.join("delete.db");
            scope.spawn(move || {
                for insert in 0..10 * rounds() {
                    let text = format!("of mount {number}, {insert}");
                    sqlite(&database, &format!("INSERT INTO t(text) VALUES('{text}');"));
                }
            });
        }
    });
    for mount in &mounts {
        let count = "PRAGMA integrity_check; SELECT count(*) FROM t WHERE text LIKE 'of mount%';";
        let counted = sqlite(&mount.join("delete.db"), count);
        assert_eq!(counted, format!("ok\n{}\n", 20 * rounds()));
    }
    cluster.stop();
}

/// The programs of PostgreSQL 15, as the user that Debian makes for them: they refuse to be root.
struct Postgres {
    programs: PathBuf,
    sockets: tempfile::TempDir,
}

impl Postgres {
    fn find() -> Option<Postgres> {
        let programs = PathBuf::from("/usr/lib/postgresql/15/bin");
        if !programs.join("pgbench").exists() {
            skip(Need::Program, "PostgreSQL 15 is not installed");
            return None;
        }
        let sockets = tempfile::tempdir().unwrap();
        fs::set_permissions(sockets.path(), Permissions::from_mode(0o777)).unwrap();
        Some(Postgres { programs, sockets })
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            "--",
        ]);
        setpriv
            .arg(self.programs.join(program))
            .args(args)
            .current_dir("/");
        setpriv.env("PGHOST", self.sockets.path());
        setpriv.env("PGUSER", "postgres");
        setpriv
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        output(&mut self.command(program, args))
    }

    fn start(&self, data: PathBuf) -> Server<'_> {
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={}",
            self.sockets.path().display()
        );
        let log = text(&self.sockets.path().join("log"));
        // The server keeps its output, which must not be that of pg_ctl.
        let args = [
            "-D",
            &text(&data),
            "-o",
            &options,
            "-l",
            &log,
            "-w",
            "start",
        ];
        let server = Server {
            postgres: self,
            data: Some(data.clone()),
        };
        self.run("pg_ctl", &args);
        server
    }

    fn query(&self, statement: &str) -> String {
        self.run("psql", &["-q", "-A", "-t", "-c", statement, "postgres"])
    }
}

/// A running server, ended on drop, also when the test fails.
struct Server<'a> {
    postgres: &'a Postgres,
    data: Option<PathBuf>,
}

impl Server<'_> {
    fn stop(mut self) {
        let data = text(&self.data.take().unwrap());
        let args = ["-D", &data, "-m", "fast", "-w", "stop"];
        self.postgres.run("pg_ctl", &args);
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(data) = self.data.take() {
            let args = ["-D", &text(&data), "-m", "immediate", "-w", "stop"];
            let _ = self.postgres.command("pg_ctl", &args).output();
        }
    }
}

/// The balances that one transaction of pgbench changes are the same in sum.
const SUMS: &str = "SELECT (SELECT count(*) FROM pgbench_history), (SELECT sum(abalance) FROM pgbench_accounts) =
    (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";

#[test]
fn a_postgresql_database_moves_between_mounts() {
    // 25 s for one round.
    if !can_mount() || rounds() < 2 {
        return;
    }
    let Some(postgres) = Postgres::find() else {
        return;
    };
    let cluster = TestCluster::new(2, 2);
    fs::set_permissions(cluster.root(), Permissions::from_mode(0o755)).unwrap();
    let mounts = cluster.mount_points();
    for mount in &mounts {
        fs::set_permissions(mount, Permissions::from_mode(0o777)).unwrap();
    }
    let data = |mount: usize| mounts[mount].join("data");
    postgres.run(
        "initdb",
        &["-D", &text(&data(0)), "-A", "trust", "--data-checksums"],
    );
    let server = postgres.start(data(0));
    postgres.run("pgbench", &["-i", "-q", "postgres"]);
    server.stop();
    let mut transactions = 0;
    for round in 1..=2 * rounds() {
        let server = postgres.start(data(round % 2));
        assert_eq!(postgres.query(SUMS).trim(), format!("{transactions}|t|t"));
        postgres.run(
            "pg_amcheck",
            &["--install-missing", "--heapallindexed", "postgres"],
        );
        postgres.run("pgbench", &["-c", "4", "-t", "100", "-n", "postgres"]);
        transactions += 400;
        assert_eq!(postgres.query(SUMS).trim(), format!("{transactions}|t|t"));
        server.stop();
        // Each page has a checksum.
        postgres.run(
            "pg_checksums",
            &["--check", "-D", &text(&data(1 - round % 2))],
        );
    }
    cluster.stop();
}
