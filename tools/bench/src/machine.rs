//! What the figures were taken on.

use serde::Serialize;

#[derive(Serialize)]
pub struct Machine {
    pub cpus: usize,
    pub cpu: String,
    pub memory_kib: u64,
    pub kernel: String,
    pub date: String,
    pub command: Vec<String>,
}

pub fn describe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    Machine {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu: field(&read("/proc/cpuinfo"), "model name"),
        memory_kib: memory.trim_end_matches(" kB").parse().unwrap_or(0),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        date: date(),
        command: std::env::args()
            .map(|arg| arg.rsplit('/').next().unwrap_or_default().to_owned())
            .collect(),
    }
}

/// Today as YYYY-MM-DD, by the proleptic Gregorian calendar.
fn date() -> String {
    let days = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() / 86_400);
    let (mut year, mut left) = (1970, days);
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = if leap { 366 } else { 365 };
        if left < length {
            let february = if leap { 29 } else { 28 };
            let mut month = 1;
            for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
                if left < days {
                    break;
                }
                left -= days;
                month += 1;
            }
            return format!("{year}-{month:02}-{:02}", left + 1);
        }
        left -= length;
        year += 1;
    }
}
