//! The kernel's caches that mounts which share files may use on this kernel.

use super::Finding;
use gupfs_contract::{CacheSupport, KernelCache, ProbeReport, cache_support};

/// One finding a cache. A cache that cannot be used is a note: the mount works without it.
pub(super) fn findings(facts: &[ProbeReport]) -> Vec<Finding> {
    cache_support(facts).iter().map(finding).collect()
}

fn finding(support: &CacheSupport) -> Finding {
    let probed = support.holds + support.lacks.len() + support.untested.len();
    let mut found = format!(
        "kernel cache of {}: {} of {probed} behaviours hold",
        support.cache, support.holds
    );
    let lists = [
        ("this kernel lacks", &support.lacks),
        ("not probed", &support.untested),
    ];
    for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let each: Vec<String> = list
            .iter()
            .map(|(behaviour, why)| format!("{behaviour} ({why})"))
            .collect();
        found += &format!("; {what}: {}", each.join(", "));
    }
    let usable = support.is_usable();
    Finding {
        about: "cache",
        good: usable,
        needed: false,
        found,
        todo: (!usable).then(|| without(support.cache).into()),
    }
}

/// What mounts that share files do without the cache, and which kernel has it.
fn without(cache: KernelCache) -> &'static str {
    match cache {
        KernelCache::Names => {
            "gupfs mounts, and gives names of shared file systems no lifetime: each path costs requests; Linux 6.16 or newer has INC_EPOCH"
        }
        KernelCache::Attributes => {
            "gupfs mounts, and gives attributes of shared file systems no lifetime: each stat costs a request"
        }
        KernelCache::Pages => {
            "gupfs mounts, and opens files of shared file systems with direct I/O"
        }
        KernelCache::Mappings => {
            "gupfs mounts; mapped files of shared file systems may disagree between mounts"
        }
        KernelCache::Splice => {
            "gupfs mounts; sendfile and splice on shared file systems may return old bytes"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_contract::{ALL, ProbeFailure};

    fn reports(lacking: &str) -> Vec<ProbeReport> {
        let report = |behaviour: &gupfs_contract::KernelBehaviour| {
            let result = match behaviour.name == lacking {
                true => Err(ProbeFailure::Differs("no such notification".into())),
                false => Ok(()),
            };
            ProbeReport::of(behaviour, result)
        };
        ALL.iter().map(report).collect()
    }

    #[test]
    fn each_cache_is_named_with_the_behaviours_that_the_kernel_lacks() {
        let all = findings(&reports(""));
        assert_eq!(all.len(), KernelCache::ALL.len());
        assert!(all.iter().all(|finding| finding.good));
        let some = findings(&reports(
            "inc_epoch_waits_for_no_lock_and_expires_all_names",
        ));
        let names = &some[0];
        assert!(!names.good && !names.needed);
        assert!(
            names.found.starts_with("kernel cache of names: "),
            "{}",
            names.found
        );
        let lacks = "this kernel lacks: inc epoch waits for no lock and expires all names (no such notification)";
        assert!(names.found.ends_with(lacks), "{}", names.found);
        assert!(
            names
                .todo
                .as_ref()
                .is_some_and(|todo| todo.contains("no lifetime"))
        );
        assert!(some[1..].iter().all(|finding| finding.good));
    }
}
