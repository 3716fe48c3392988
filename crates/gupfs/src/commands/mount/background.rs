//! `gupfs mount --background`: starts the mount as another process, and returns when the file system is mounted.
//!
//! The other process reports to this one as a service does to its service manager (sd_notify(3)).

use crate::commands::own_executable;
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use gupfs_platform::{BootTime, Platform};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A start that takes longer says what it waits for.
const QUIET: Duration = Duration::from_secs(2);
/// How often the process is looked at while it reports nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of one report at most.
const REPORT_MAX: usize = 4096;

/// What the process has reported.
#[derive(Default)]
struct Reports {
    is_ready: bool,
    /// What it is doing, in a sentence.
    status: Option<String>,
}

/// The command line of this process, without `--background`.
///
/// # Errors
/// If the executable cannot be found.
pub fn same_command() -> CliResult<Vec<OsString>> {
    let mut line = vec![own_executable::path()?];
    line.extend(
        std::env::args_os()
            .skip(1)
            .filter(|arg| arg != "--background"),
    );
    Ok(line)
}

/// Executes this command line in the background until it is ready. What it prints goes to a log.
///
/// # Errors
/// If the log or the process cannot be started, or the process ends before it is ready: with what it has printed.
pub fn run(command_line: &[OsString], point: &Path) -> CliResult<Exit> {
    let clock = Platform::real().clock;
    let began = clock.boot();
    let (log_path, mut log) = open_log(point)?;
    let dir = tempfile::tempdir().or_cli_error(|| "cannot make a temporary directory".into())?;
    let socket_path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&socket_path)
        .and_then(|socket| {
            socket
                .set_read_timeout(Some(LOOK_INTERVAL))
                .map(|()| socket)
        })
        .or_cli_error(|| "cannot make a socket".into())?;
    let (out, err) = (log.try_clone(), log.try_clone());
    let outputs = out.and_then(|out| Ok((out, err?)));
    let (out, err) = outputs.or_cli_error(|| format!("cannot use '{}'", log_path.display()))?;
    let mut child = Command::new(&command_line[0])
        .args(&command_line[1..])
        .env("NOTIFY_SOCKET", &socket_path)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        // Ctrl-C in this terminal is not meant for it.
        .process_group(0)
        .spawn()
        .or_cli_error(|| "cannot start the process that serves the mount".into())?;
    let mut reports = Reports::default();
    let mut shown = None;
    loop {
        let ended = ended(&mut child)?;
        while let Some(report) = receive(&socket)? {
            reports.take(&report);
        }
        if reports.is_ready {
            let status = reports.status.as_deref().unwrap_or("mounted");
            println!(
                "gupfs: {status} (in the background, process {}; log: {})",
                child.id(),
                log_path.display()
            );
            return Ok(Exit::Fine);
        }
        if let Some(code) = ended {
            return Err(failure(&mut log, &log_path, code));
        }
        if reports.status != shown && waits_long(began, clock.boot()) {
            shown = reports.status.clone();
            eprintln!("gupfs: {}", shown.as_deref().unwrap_or_default());
        }
    }
}

fn waits_long(began: BootTime, now: BootTime) -> bool {
    now.since(began) >= QUIET
}

/// The exit code of the process, if it has ended.
fn ended(child: &mut Child) -> CliResult<Option<i32>> {
    let status = child.try_wait();
    let status =
        status.or_cli_error(|| "cannot wait for the process that serves the mount".into())?;
    Ok(status.map(|status| status.code().unwrap_or(Exit::Failed as i32)))
}

/// The next report; None if none came for a while.
fn receive(socket: &UnixDatagram) -> CliResult<Option<String>> {
    let mut bytes = [0; REPORT_MAX];
    match socket.recv(&mut bytes) {
        Ok(len) => Ok(Some(String::from_utf8_lossy(&bytes[..len]).into_owned())),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(CliError::new(
            "cannot read the socket of the process that serves the mount",
        )
        .because(&error)),
    }
}

impl Reports {
    fn take(&mut self, report: &str) {
        for line in report.lines() {
            match line.split_once('=') {
                Some(("READY", "1")) => self.is_ready = true,
                Some(("STATUS", status)) => self.status = Some(status.to_owned()),
                _ => {}
            }
        }
    }
}

/// A new log of mounts at this point, and its path. The one before has ".old" added to its name.
fn open_log(point: &Path) -> CliResult<(PathBuf, File)> {
    let dir = log_dir()?;
    let name = point.to_string_lossy().trim_matches('/').replace('/', "-");
    let path = dir.join(format!("mount-{name}.log"));
    let made = DirBuilder::new().recursive(true).mode(0o755).create(&dir);
    let opened = made.and_then(|()| {
        match std::fs::rename(&path, dir.join(format!("mount-{name}.log.old"))) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Not through a name that another user has made meanwhile.
        let mut options = OpenOptions::new();
        options.create_new(true).append(true).read(true).mode(0o640);
        options.open(&path)
    });
    let log = opened.or_cli_error(|| format!("cannot write the log '{}'", path.display()))?;
    Ok((path, log))
}

fn log_dir() -> CliResult<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/log/gupfs".into());
    }
    let own = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    // Not in /tmp, where other users can make any name first.
    let base = own.or_else(home).ok_or_else(|| {
        CliError::new("there is no directory for the log of a mount in the background")
            .todo("set HOME or XDG_STATE_HOME")
            .exit(Exit::Unusable)
    })?;
    Ok(base.join("gupfs"))
}

/// The process has ended: what it printed is the error.
fn failure(log: &mut File, path: &Path, code: i32) -> CliError {
    let mut printed = Vec::new();
    // The descriptor shares its position with those of the process: what it wrote ends there.
    let _ = log.seek(SeekFrom::Start(0));
    let _ = log.read_to_end(&mut printed);
    let printed = String::from_utf8_lossy(&printed);
    let exit = [Exit::Failed, Exit::Unusable, Exit::NotRunning];
    let exit = exit.into_iter().find(|exit| *exit as i32 == code);
    CliError::new(format!(
        "the mount did not start (exit code {code}): {}",
        printed.trim().trim_end_matches('.')
    ))
    .todo(format!("its log is '{}'", path.display()))
    .exit(exit.unwrap_or(Exit::Failed))
}
