//! Which caches of the kernel mounts that share files may use, by the behaviours that were probed.
//!
//! A cache is used only if every behaviour that it depends on was observed. A kernel that lacks one loses the cache, not the mount.

use crate::behaviour::{KernelCache, ProbeOutcome, ProbeReport, RequirementLevel};

/// A cache, and what the probes say about the behaviours that it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSupport {
    pub cache: KernelCache,
    /// Number of behaviours that hold.
    pub holds: usize,
    /// Behaviours that the kernel lacks, each with what was observed instead.
    pub lacks: Vec<(String, String)>,
    /// Behaviours that could not be probed, each with the reason.
    pub untested: Vec<(String, String)>,
}

impl CacheSupport {
    /// Whether mounts that share files may use the cache on this kernel.
    pub fn is_usable(&self) -> bool {
        self.holds > 0 && self.lacks.is_empty() && self.untested.is_empty()
    }
}

/// What the reports say about each cache. Tolerated behaviours decide nothing: gupfs handles a kernel with and without them.
pub fn cache_support(reports: &[ProbeReport]) -> Vec<CacheSupport> {
    let support = |cache| {
        let mut support = CacheSupport {
            cache,
            holds: 0,
            lacks: Vec::new(),
            untested: Vec::new(),
        };
        let decides = |report: &&ProbeReport| {
            report.requirement != RequirementLevel::Tolerated && report.caches.contains(&cache)
        };
        for report in reports.iter().filter(decides) {
            let name = report.behaviour.clone();
            match &report.outcome {
                ProbeOutcome::Holds => support.holds += 1,
                ProbeOutcome::Differs(how) => support.lacks.push((name, how.clone())),
                ProbeOutcome::Untested(why) => support.untested.push((name, why.clone())),
            }
        }
        support
    };
    KernelCache::ALL.into_iter().map(support).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::{ProbeFailure, ProbeResult};
    use crate::probes::ALL;

    /// The caches that are usable if all behaviours hold but this one, which ends like this.
    fn usable(name: &str, result: &ProbeResult) -> Vec<KernelCache> {
        let report = |behaviour: &crate::KernelBehaviour| {
            let result = match behaviour.name == name {
                true => result.clone(),
                false => Ok(()),
            };
            ProbeReport::of(behaviour, result)
        };
        let reports: Vec<ProbeReport> = ALL.iter().map(report).collect();
        let support = cache_support(&reports).into_iter();
        support
            .filter(CacheSupport::is_usable)
            .map(|support| support.cache)
            .collect()
    }

    #[test]
    fn a_kernel_loses_exactly_the_caches_that_depend_on_a_behaviour_it_lacks() {
        let failures = [
            ProbeFailure::Differs("it does not".into()),
            ProbeFailure::Untested("no rights".into()),
        ];
        for failure in failures {
            for behaviour in ALL {
                let kept = |cache: &KernelCache| {
                    behaviour.requirement == RequirementLevel::Tolerated
                        || !behaviour.caches.contains(cache)
                };
                let expected: Vec<KernelCache> =
                    KernelCache::ALL.into_iter().filter(kept).collect();
                let found = usable(behaviour.name, &Err(failure.clone()));
                assert_eq!(found, expected, "{}", behaviour.name);
            }
        }
    }

    #[test]
    fn without_inc_epoch_only_names_are_not_cached() {
        let lacks = Err(ProbeFailure::Differs("no such notification".into()));
        let found = usable("inc_epoch_waits_for_no_lock_and_expires_all_names", &lacks);
        use KernelCache::*;
        assert_eq!(found, [Attributes, Pages, Mappings, Splice]);
    }

    #[test]
    fn what_was_not_probed_is_not_used() {
        for support in cache_support(&[]) {
            assert!(!support.is_usable(), "{}", support.cache);
        }
    }
}
