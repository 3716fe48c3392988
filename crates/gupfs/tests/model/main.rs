//! Random system calls on a real mount and on a simple model; a difference is shrunk until it reads like a
//! shell session.

// A test of the real program on the real clock.
#![allow(clippy::disallowed_methods)]

mod model;
mod op;
mod program;
mod real;

use model::Model;
use op::Op;
use program::Program;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRng, TestRunner};
use real::Real;
use std::cell::{Cell, RefCell};

/// One run of operations on both; the first difference.
fn compare(ops: &[Op], dir: &std::path::Path, restart: &dyn Fn()) -> Result<(), String> {
    let mut model = Model::default();
    let mut real = Real::new(dir);
    for (number, op) in ops.iter().enumerate() {
        if *op == Op::Restart {
            // Open files end with the program; everything else survives it.
            model.close_all();
            real.close_all();
            restart();
            continue;
        }
        let expected = model.apply(op);
        let found = real.apply(op);
        if expected != found {
            let session: Vec<String> = ops[..=number]
                .iter()
                .map(|op| format!("  {op:?}"))
                .collect();
            return Err(format!(
                "{}\n  model: {expected:?}\n  mount: {found:?}",
                session.join("\n")
            ));
        }
    }
    Ok(())
}

fn run(cases: u32, ops: impl Strategy<Value = Op>, length: usize) {
    let scratch = tempfile::Builder::new()
        .prefix("gupfs-model-")
        .tempdir()
        .expect("a temporary directory");
    let (store, mount) = (scratch.path().join("store"), scratch.path().join("mount"));
    std::fs::create_dir(&mount).expect("a mount point");
    let program = RefCell::new(Some(Program::start(&store, &mount)));
    let restart = || {
        // The dead mount must be removed before the next mount.
        drop(program.borrow_mut().take());
        *program.borrow_mut() = Some(Program::start(&store, &mount));
    };
    let case = Cell::new(0u64);
    let config = Config {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..Config::default()
    };
    // The same cases each time, so that runs are comparable; others with GUPFS_RANDOM.
    let mut runner = match std::env::var_os("GUPFS_RANDOM") {
        Some(_) => TestRunner::new(config),
        None => {
            let rng = TestRng::deterministic_rng(config.rng_algorithm);
            TestRunner::new_with_rng(config, rng)
        }
    };
    let outcome = runner.run(&proptest::collection::vec(ops, 1..length), |ops| {
        case.set(case.get() + 1);
        let dir = mount.join(format!("case-{}", case.get()));
        std::fs::create_dir(&dir).expect("a fresh directory");
        compare(&ops, &dir, &restart).map_err(TestCaseError::fail)
    });
    if let Err(TestError::Fail(reason, _)) = &outcome {
        panic!("{reason}");
    }
    outcome.expect("the runner runs");
}

#[test]
fn a_mount_does_what_the_model_does() {
    let cases = std::env::var("GUPFS_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(300);
    run(cases, op::any(), 80);
}

/// SIGKILL and a restart now and then: no acknowledged change is lost.
#[test]
fn a_mount_does_what_the_model_does_across_kills() {
    run(
        12,
        prop_oneof![40 => op::any(), 1 => Just(Op::Restart)],
        200,
    );
}
