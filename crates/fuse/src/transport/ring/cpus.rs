//! The CPUs of this host: the kernel has a queue for each.

use std::io;

/// Number of possible CPUs of this host.
pub(crate) fn possible_cpus() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count_cpus(&list)
        .ok_or_else(|| io::Error::other(format!("cannot read the list of possible CPUs {list:?}")))
}

/// Number of CPUs in a list such as `0-3,8`.
pub(crate) fn count_cpus(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0usize, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
        count.checked_add(last.checked_sub(first)?)?.checked_add(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted_or_refused() {
        for (list, count) in [("0", 1), ("0-1\n", 2), ("0-3,8,10-11", 7)] {
            assert_eq!(count_cpus(list), Some(count), "{list}");
        }
        let all = format!("0-{}", usize::MAX);
        for list in ["", "-", "3-0", "x", "0-1,", &all] {
            assert_eq!(count_cpus(list), None, "{list}");
        }
    }
}
