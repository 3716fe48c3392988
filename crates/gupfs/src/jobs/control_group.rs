//! The job that a process's control groups tell.

/// The name of a scheduler's job, from the content of /proc/PID/cgroup: lines "number:controllers:path".
pub fn scheduler_job(groups: &str) -> Option<String> {
    find(groups, slurm).or_else(|| find(groups, pbs))
}

/// The name of a container or service. None for the groups of a login.
pub fn service(groups: &str) -> Option<String> {
    find(groups, container).or_else(|| find(groups, unit))
}

/// With the first version of control groups, the scheduler's may be one of several hierarchies.
fn find(groups: &str, rule: fn(&str) -> Option<String>) -> Option<String> {
    let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.find_map(rule)
}

/// ".../slurmstepd.scope/job_4711/step_0/user/task_0", ".../slurm/uid_1000/job_4711/step_batch": "slurm:4711".
fn slurm(path: &str) -> Option<String> {
    if !path.contains("slurm") {
        return None;
    }
    let job = path.split('/').find_map(|part| part.strip_prefix("job_"))?;
    (!job.is_empty()).then(|| format!("slurm:{job}"))
}

/// ".../pbs_jobs.service/jobid/4711.server", ".../pbspro.slice/pbspro-4711.server.slice", ".../pbs/4711.server": "pbs:4711.server".
fn pbs(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let follows = |name: &str| {
        let at = parts.iter().position(|part| *part == name)?;
        parts.get(at + 1).copied()
    };
    let slice = || {
        let part = parts.iter().find_map(|part| part.strip_prefix("pbspro-"))?;
        Some(part.strip_suffix(".slice").unwrap_or(part))
    };
    let job = follows("jobid").or_else(slice).or_else(|| follows("pbs"))?;
    (!job.is_empty()).then(|| format!("pbs:{job}"))
}

/// "docker-<64 digits>.scope", "libpod-<64 digits>.scope", ".../kubepods/.../cri-containerd-<64 digits>.scope": "docker:0123456789ab".
fn container(path: &str) -> Option<String> {
    path.split('/').rev().find_map(|part| {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        let (engine, id) = part.rsplit_once('-')?;
        let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| format!("{engine}:{}", &id[..12]))
    })
}

/// The innermost service or scope of systemd that is no login: "/system.slice/backup.service": "backup.service".
fn unit(path: &str) -> Option<String> {
    let is_of_login = |unit: &str| {
        unit == "init.scope" || unit.starts_with("session-") || unit.starts_with("user@")
    };
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    let unit = path.split('/').rev().find(is_unit)?;
    (!is_of_login(unit)).then(|| unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_containers_and_services_name_jobs() {
        let id = "0123456789abcdef".repeat(4);
        let docker = format!("0::/system.slice/docker-{id}.scope");
        let pod = format!("0::/kubepods.slice/kubepods-pod12.slice/cri-containerd-{id}.scope");
        let cases = [
            (
                "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
                Some("slurm:4711"),
            ),
            (
                "9:cpuset:/\n4:memory:/slurm/uid_1000/job_17/step_batch\n1:name=systemd:/system.slice/slurmd.service\n",
                Some("slurm:17"),
            ),
            (
                "0::/pbs_jobs.service/jobid/4711.head",
                Some("pbs:4711.head"),
            ),
            (
                "5:cpu:/pbspro.slice/pbspro-42.head.slice",
                Some("pbs:42.head"),
            ),
            (docker.as_str(), Some("docker:0123456789ab")),
            (pod.as_str(), Some("cri-containerd:0123456789ab")),
            ("0::/system.slice/backup.service", Some("backup.service")),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope",
                Some("run-7.scope"),
            ),
            ("0::/user.slice/user-1000.slice/session-3.scope", None),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/init.scope",
                None,
            ),
            ("0::/", None),
            ("", None),
            ("nonsense\n0:\n::::", None),
            (
                "0::/system.slice/slurmstepd.scope/job_/x",
                Some("slurmstepd.scope"),
            ),
        ];
        for (groups, job) in cases {
            let found = scheduler_job(groups).or_else(|| service(groups));
            assert_eq!(found.as_deref(), job, "{groups}");
        }
    }
}
