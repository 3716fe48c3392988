//! `conform DIR`: try a directory against POSIX and say what differs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use gupfs_conform::{Exception, Filter, checks, run};

/// Tries a directory against POSIX and the Linux manual, one check a behaviour.
///
/// Run it as root, or everything that concerns other users is skipped. The directory must exist and be writable; it is
/// left as it was. Exit status: 0 everything passed, 1 something failed, 2 it could not run.
#[derive(Parser)]
#[command(name = "conform", version)]
struct Arguments {
    /// The directory to try.
    #[arg(required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// Run only checks whose name contains this text; may be given more than once.
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// List the checks with what they promise, and run none.
    #[arg(long)]
    list: bool,
    /// A check that may not be skipped: NAME, which may end in `*`. May be given more than once.
    #[arg(long, value_name = "NAME")]
    require: Vec<String>,
    /// A failure that is known and why: NAME=REASON; NAME may end in `*`. May be given more than once.
    #[arg(long, value_name = "NAME=REASON", value_parser = parse_exception)]
    except: Vec<Exception>,
}

fn parse_exception(text: &str) -> Result<Exception, String> {
    match text.split_once('=') {
        Some((check, reason)) if !check.is_empty() && !reason.is_empty() => {
            Ok(Exception::new(check, reason))
        }
        _ => Err("an exception reads NAME=REASON".into()),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = Filter {
        only: arguments.filter,
        required: arguments.require,
        exceptions: arguments.except,
    };
    if arguments.list {
        list(&filter, arguments.json);
        return ExitCode::SUCCESS;
    }
    let Some(directory) = arguments.directory else {
        unreachable!("the argument parser asks for a directory");
    };
    match run(&directory, &filter) {
        Err(cannot) => {
            eprintln!("conform: {cannot}");
            ExitCode::from(2)
        }
        Ok(report) => {
            if arguments.json {
                println!("{:#}", report.to_json());
            } else {
                print!("{report}");
            }
            ExitCode::from(u8::from(!report.is_clean()))
        }
    }
}

fn list(filter: &Filter, json: bool) {
    let admitted: Vec<_> = checks::all()
        .into_iter()
        .filter(|check| filter.admits(&check.name))
        .collect();
    if json {
        let list: Vec<_> = admitted
            .iter()
            .map(|check| serde_json::json!({ "name": check.name, "promise": check.promise }))
            .collect();
        println!("{:#}", serde_json::Value::from(list));
        return;
    }
    for check in &admitted {
        println!("{}\n    {}", check.name, check.promise);
    }
    println!("{} checks", admitted.len());
}
