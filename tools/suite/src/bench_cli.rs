//! The suite as commands of one program.

use std::ffi::OsString;

use clap::Subcommand;

use crate::baseline::Baseline;
use crate::lab::Lab;
use crate::loads::Load;
use crate::mdmark::Mdmark;
use crate::metabench::Metabench;
use crate::mptio::Mptio;
use crate::pioraw::Pioraw;
use crate::plan::ListPlans;
use crate::report::ReportCommand;
use crate::runner::{Run, SelfCommand};
use crate::workload;

/// Commands of the suite. Their help has examples for `gupfs bench`.
#[derive(Subcommand, Clone, Debug)]
pub enum Bench {
    #[command(after_help = "Examples:
  gupfs bench run quick --target local=/var/tmp --target nfs=/mnt/nfs
  gupfs bench run seeds --target local=/var/tmp --out seeds.jsonl --only metadata
  gupfs bench run my-plan.toml --out new.jsonl --compare old.jsonl
  gupfs bench run my-plan.toml --out new.jsonl --resume

Results are written as each run ends. Ctrl-C or SIGTERM ends the running program, cleans up and keeps them. Caches are dropped \
between runs if this runs as root. docs/bench.md says what a plan may hold.

Exit codes: 0 all runs ended well · 1 some failed, or it was interrupted · 2 the plan or the arguments are wrong")]
    Run(Run),
    #[command(after_help = "Examples:
  gupfs bench report seeds.jsonl --out seeds.html
  gupfs bench report nfs.jsonl lustre.jsonl --out both.html --plots pictures
  gupfs bench report seeds.jsonl --ceiling local

The page holds all it needs, and no script: open it in any browser, or print it. docs/bench.md says how to read it.

Exit codes: 0 it was written · 1 it could not be written · 2 the results cannot be read, or the arguments are wrong")]
    Report(ReportCommand),
    #[command(after_help = "Examples:
  gupfs bench plans
  gupfs bench plans quick > my-plan.toml

Exit codes: 0 listed · 2 there is no such plan")]
    Plans(ListPlans),
    #[command(after_help = "Example:
  gupfs bench mptio --np 4 -G -f 64M -b 256K -t 2 -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Mptio(Mptio),
    #[command(after_help = "Example:
  gupfs bench metabench --np 4 -C -S -k -w /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Metabench(Metabench),
    #[command(after_help = "Example:
  gupfs bench pioraw --np 4 -f 256M -t 120 -b 4K,64K,1M -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Pioraw(Pioraw),
    #[command(after_help = "Examples:
  gupfs bench mdmark --scan /home --profile home.json
  gupfs bench mdmark --profile home.json --np 8 -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Mdmark(Mdmark),
    #[command(after_help = "Examples:
  gupfs bench baseline --disk /dev/sdb --fs /mnt/x
  gupfs bench baseline --disk oss1:/dev/sdb --disk oss2:/dev/sdb --client c1 --client c2 --server oss1 --server oss2 \\
      --fs c1:/mnt/x --fs c2:/mnt/x --target x --out x.jsonl
  gupfs bench baseline --serve 0.0.0.0:7010 --token-file token      (an agent, on node1)
  gupfs bench baseline --disk tcp://node1:7010/dev/sdb --client here --server tcp://node1:7010 --token-file token

Disks are written and read without caches, which destroys what is on a device unless --read-only is said. TCP streams flow \
between every client and every server. Workers on other hosts are started by --through or by agents.

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Baseline(Box<Baseline>),
    #[command(after_help = "Examples:
  gupfs bench lab --servers 2 --clients 2 --link 400mbit --plan gupfs.toml -- sh -c 'on c1 mptio -G -d $LAB_DIR/c1/mnt'
  gupfs bench lab --servers 1 --clients 1 --link 1gbit
  gupfs bench lab --clean

Commands of the plan run in the hosts, with $HOST, $ADDRESS, $NUMBER and $DIR (a new directory of the host); all know $LAB, \
$LAB_DIR, $SERVERS, $CLIENTS, and the address of each host as $S1, $C1, …. Hosts have networks of their own and share all else.

Exit codes: 0 the command ended well, or Ctrl-C ended a lab without one · 1 something failed · 2 the flags or the plan are wrong")]
    Lab(Lab),
    #[command(flatten)]
    Load(Load),
}

impl Bench {
    /// The exit code. `words` start the program as far as the command: the executable, and what stands before `run`. To be
    /// called before threads are started.
    pub fn run(self, words: Vec<OsString>) -> u8 {
        let self_command = SelfCommand {
            words,
            programs: workload::NAMES.map(String::from).to_vec(),
        };
        match self {
            Bench::Run(run) => exit_code_of("run", run.run(&self_command)),
            Bench::Report(make) => exit_code_of("report", make.run()),
            Bench::Plans(plans) => {
                plans.run();
                0
            }
            Bench::Mptio(mptio) => workload::run(&mptio),
            Bench::Metabench(metabench) => workload::run(&metabench),
            Bench::Pioraw(pioraw) => workload::run(&pioraw),
            Bench::Mdmark(mdmark) => workload::run(&mdmark),
            Bench::Baseline(baseline) => exit_code_of("baseline", baseline.run(&self_command)),
            Bench::Lab(lab) => exit_code_of("lab", lab.run(&self_command)),
            Bench::Load(load) => load.run(),
        }
    }
}

/// The exit code of a command. An error is printed.
fn exit_code_of(command: &str, ended: crate::error::SuiteResult<u8>) -> u8 {
    ended.unwrap_or_else(|error| {
        eprintln!("{command}: {error}");
        error.exit_code()
    })
}
