//! `gupfs df`: space of each OST and in total.

use crate::amount::{show_count, show_size};
use crate::control::{ControlRequest, ControlTarget, OstSpace};
use crate::exit::{CliResult, Exit};
use clap::Args;
use std::path::PathBuf;

/// Show the space of each OST and of all together
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs df
  gupfs df /mnt/gupfs --json

Exit codes: 0 shown · 1 the serving process did not answer · 2 not a gupfs store or mount · 3 no process serves it")]
pub struct Df {
    /// The store's directory or its mount point [default: the only gupfs mount of this machine]
    path: Option<PathBuf>,
    /// As one JSON object, in bytes
    #[arg(long)]
    json: bool,
}

impl Df {
    pub fn run(self) -> CliResult<Exit> {
        let target = ControlTarget::find(self.path.as_deref())?;
        let osts: Vec<OstSpace> = target.request(&ControlRequest::Df)?;
        let all = total(&osts);
        if self.json {
            println!("{}", serde_json::json!({ "osts": osts, "total": all }));
        } else {
            print!("{}", table(&osts, &all));
        }
        Ok(Exit::Fine)
    }
}

/// OSTs on the same file system share its space: it counts once.
fn total(osts: &[OstSpace]) -> OstSpace {
    let mut seen = Vec::new();
    let mut all = OstSpace {
        ost: osts.len() as u16,
        down: None,
        total: 0,
        free: 0,
        available: 0,
        objects: 0,
        device: String::new(),
    };
    for space in osts.iter().filter(|space| space.down.is_none()) {
        all.objects += space.objects;
        if !seen.contains(&&space.device) {
            seen.push(&space.device);
            all.total += space.total;
            all.free += space.free;
            all.available += space.available;
        }
    }
    all
}

fn table(osts: &[OstSpace], all: &OstSpace) -> String {
    let row =
        |name: &str, total: &str, used: &str, available: &str, percent: &str, objects: &str| {
            format!("{name:<8} {total:>10} {used:>10} {available:>10} {percent:>5} {objects:>12}\n")
        };
    let numbers = |name: &str, space: &OstSpace| {
        let used = space.total - space.free.min(space.total);
        let percent = (used * 100)
            .checked_div(used + space.available)
            .unwrap_or(0);
        row(
            name,
            &show_size(space.total),
            &show_size(used),
            &show_size(space.available),
            &format!("{percent} %"),
            &show_count(space.objects),
        )
    };
    let mut text = row("OST", "size", "used", "available", "use", "objects");
    for space in osts {
        let name = format!("ost{}", space.ost);
        match &space.down {
            None => text += &numbers(&name, space),
            Some(why) => text += &format!("{name:<8} down: {why}\n"),
        }
    }
    text += &numbers("all", all);
    let shared = osts.iter().enumerate().any(|(index, space)| {
        osts[..index]
            .iter()
            .any(|other| other.device == space.device)
    });
    if shared {
        text += "OSTs on the same file system share its space; 'all' counts it once.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn space(ost: u16, device: u64, down: Option<&str>) -> OstSpace {
        OstSpace {
            ost,
            down: down.map(Into::into),
            total: 100 << 30,
            free: 40 << 30,
            available: 39 << 30,
            objects: 1234,
            device: device.to_string(),
        }
    }

    #[test]
    fn osts_on_one_file_system_are_counted_once_in_all() {
        let osts = [
            space(0, 1, None),
            space(1, 1, None),
            space(2, 2, None),
            space(3, 0, Some("its disk is not mounted")),
        ];
        expect![[r#"
            OST            size       used  available   use      objects
            ost0        100 GiB   60.0 GiB   39.0 GiB  60 %        1,234
            ost1        100 GiB   60.0 GiB   39.0 GiB  60 %        1,234
            ost2        100 GiB   60.0 GiB   39.0 GiB  60 %        1,234
            ost3     down: its disk is not mounted
            all         200 GiB    120 GiB   78.0 GiB  60 %        3,702
            OSTs on the same file system share its space; 'all' counts it once.
        "#]]
        .assert_eq(&table(&osts, &total(&osts)));
    }
}
