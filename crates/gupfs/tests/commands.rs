//! Commands that need no mount: help, version, completions, manual pages, doctor, configuration.

mod running;

use expect_test::expect;
use running::gupfs;
use std::process::Output;

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn help_lists_the_commands() {
    expect![[r#"
        A parallel file system for research centres: one name space, its bytes striped over many targets

        Usage: gupfs <COMMAND>

        Commands:
          up           Start all servers on this machine and mount the file system; an empty directory
                       becomes a new store
          mds          Serve the metadata of a file system to other hosts; an empty directory becomes a new
                       store
          oss          Serve the object storage targets (OSTs) of this host
          ost          Make targets for a cluster, empty and remove them, declare that one is lost, or
                       accept an older copy of one
          key          Make, list and revoke keys of hosts that mount
          mount        Mount a file system that servers on other hosts (or this one) serve
          tls          Make and renew certificates for a site without a CA
          stop         Unmount and stop a running gupfs; all data is kept
          status       Show the state of servers and mounts: operations, waiting calls, damage
          df           Show the space of each OST and of all together
          top          Show what the servers do, and for which jobs, users and hosts
          sync         Write all changes so far to the disks, so that they survive a power loss
          layout       Show or set how files are laid out over the OSTs
          check        Look for inconsistencies in a stopped store, and repair what can be repaired without
                       losing anything
          rebalance    Even out the used space of the OSTs, for instance after some were added, while the
                       cluster serves
          resync       Show how far mirrored files are brought up to date, limit the rate of that, or pause
                       it
          scrub        Verify all data on all targets, and repair damage from copies, while the cluster
                       serves
          config       Check a configuration file
          doctor       Check this machine and its kernel, or etcd: print what is missing and how to get it
          bench        Measure file systems side by side, and what a FUSE request costs on this machine
          verify       Find out whether several mounts of one file system agree: random operations on all,
                       judged against POSIX
          completions  Print completions for a shell
          man          Print the manual page, or write one page for each command into a directory
          version      Show the version of the program and of the formats it knows

        Options:
          -h, --help     Print help
          -V, --version  Print version

        Example:
          gupfs up /srv/gupfs --mount /mnt/gupfs

        A command's own help: gupfs COMMAND --help. Manual pages: gupfs man.
    "#]].assert_eq(&printed(&gupfs(["--help"])));
}

#[test]
fn help_of_up_lists_all_options() {
    expect![[r#"
        Start all servers on this machine and mount the file system; an empty directory becomes a new store

        Usage: gupfs up [OPTIONS] <DIR>

        Arguments:
          <DIR>  The store's directory; made if it does not exist

        Options:
              --mount <MNT>                 Where the file system appears: an empty directory
              --osts <N>                    Number of object storage targets; a larger number than the store
                                            has adds targets [default: as many as the store has, 4 in a new
                                            one]
              --config <FILE>               Configuration file; flags take precedence
              --listen-metrics <ADDR:PORT>  Serve metrics for Prometheus at http://ADDR:PORT/metrics
              --listen <ADDR:PORT>          Also serve other hosts at this address; at other addresses than
                                            127.0.0.1 they need a key (DIR/cluster.key, `gupfs key client`)
              --tls <DIR>                   Speak TLS alone: a directory with ca.pem, and cert.pem and
                                            key.pem, which servers need [default: no TLS]
              --tls-name <NAME>             The name that certificates of servers carry [default: that in
                                            DIR/name, or of the host that is asked]
              --log <FORMAT>                How logs are written [default: text] [possible values: text,
                                            json]
              --log-level <FILTER>          What is logged: error, warn, info, debug, trace, or by part
                                            [default: info]
              --allow-other <BOOL>          Whether other users may use the mount, true or false [default:
                                            true for root]
              --transport <WAY>             How requests come from the kernel: over io_uring if the machine
                                            has it switched on (auto), through /dev/fuse (device), or over
                                            io_uring, switched on if need be (io-uring) [default: auto]
              --read-only                   Mount read-only
          -o, --options <OPTIONS>           Options as mount(8) has them, separated by commas: ro, rw,
                                            noatime, relatime, strictatime, diratime, nodiratime, suid,
                                            nosuid, dev, nodev, exec, noexec, allow_other
              --accept-loss                 Start although data or metadata that was acknowledged as durable
                                            is lost; the log names each loss
              --json                        Print events (ready, stopping, stopped) as JSON objects, one a
                                            line
          -h, --help                        Print help

        Examples:
          gupfs up /srv/gupfs --mount /mnt/gupfs
          gupfs up /srv/gupfs --mount /mnt/gupfs --osts 4 --listen-metrics 127.0.0.1:9187
          gupfs up /srv/gupfs --config /etc/gupfs.toml

        It stays in the foreground. Ctrl-C, SIGTERM or `gupfs stop` unmount and stop it; a second signal
        does so even while programs use the mount. Each disk of its own for an OST: mount it at DIR/ost0,
        DIR/ost1, … before the first start.

        Exit codes: 0 stopped as asked · 1 it could not start, or failed · 2 wrong arguments, configuration
        or mount point
    "#]].assert_eq(&printed(&gupfs(["up", "--help"])));
}

#[test]
fn help_of_check_lists_findings_and_exit_codes() {
    expect![[r#"
        Look for inconsistencies in a stopped store, and repair what can be repaired without losing anything

        Usage: gupfs check [OPTIONS] <DIR>

        Arguments:
          <DIR>  The store's directory

        Options:
              --ost <DIR>  An OST outside the store's directory, or a directory that contains OSTs; may be
                           repeated
              --data       Also read all bytes and compare them with their checksums
              --repair     Repair the problems whose repair loses no data
              --salvage    Rebuild the metadata from the readable part of it, and print what is lost
              --json       As one JSON object
          -h, --help       Print help

        Examples:
          gupfs check /srv/gupfs
          gupfs check /srv/gupfs --data
          gupfs check /srv/gupfs --repair --json
          gupfs check /srv/mds --ost /srv/disks --ost /mnt/other-host/disks
          gupfs check /srv/gupfs --salvage

        It finds: objects without inode, missing objects of an inode, objects on a wrong OST, directory
        entries without inode, inodes without entry (--repair names them in the root directory), wrong
        counts, unreadable records, leftovers of interrupted operations; with --data also bytes that do not
        match their checksum. OSTs of a cluster whose directories are not named with --ost are not checked;
        the number of objects that must be on them is printed.

        --salvage is for metadata that does not open, or has problems that --repair leaves: it keeps the
        readable part of log and index, rebuilds files from their objects, names inodes without a name in
        /lost+found, and prints each loss. The damaged log and index are kept in DIR/mds/salvaged-DATE.

        Exit codes: 0 no problems · 1 problems were found · 2 the store could not be checked: in use, or not
        a store · 4 problems were found and all are repaired; after --salvage: the readable metadata is in
        place and consistent
    "#]].assert_eq(&printed(&gupfs(["check", "--help"])));
}

#[test]
fn programs_of_the_suite_start_their_processes_under_bench() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().to_str().unwrap();
    let mptio = ["-f", "1M", "-b", "64K", "-t", "1", "-d", work];
    let report = printed(&gupfs(
        [&["bench", "mptio", "--np", "2"][..], &mptio].concat(),
    ));
    assert!(report.contains("NODE DETAILS"), "{report}");
    let metabench = [
        "bench",
        "metabench",
        "--np",
        "3",
        "-C",
        "-c",
        "20",
        "-k",
        "-w",
        work,
    ];
    assert!(printed(&gupfs(metabench)).contains("Create-C"));
    let refused = gupfs(["bench", "mptio", "-b", "64Q", "-t", "1"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        gupfs(["bench", "run", "no-such-plan"]).status.code(),
        Some(2)
    );
}

#[test]
fn the_version_is_printed_as_text_and_json() {
    assert!(printed(&gupfs(["version"])).starts_with("gupfs 0."));
    let json: serde_json::Value =
        serde_json::from_str(&printed(&gupfs(["version", "--json"]))).unwrap();
    assert_eq!(json["store_format"], 1);
    assert!(printed(&gupfs(["--version"])).starts_with("gupfs 0."));
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let text = printed(&gupfs(["completions", shell]));
        assert!(text.contains("gupfs") && text.contains("layout"), "{shell}");
        assert!(
            !text.contains("guardian"),
            "{shell} completes what is hidden"
        );
    }
    assert_eq!(gupfs(["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let output = gupfs(["man".as_ref(), "--dir".as_ref(), dir.path().as_os_str()]);
    assert_eq!(output.status.code(), Some(0));
    let mut pages: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    expect![[r#"
        gupfs-bench-aging.1
        gupfs-bench-apps.1
        gupfs-bench-baseline.1
        gupfs-bench-bonnie.1
        gupfs-bench-daq.1
        gupfs-bench-door.1
        gupfs-bench-interleave.1
        gupfs-bench-lab.1
        gupfs-bench-matrix.1
        gupfs-bench-mdmark.1
        gupfs-bench-metabench.1
        gupfs-bench-mptio.1
        gupfs-bench-pileup.1
        gupfs-bench-pioraw.1
        gupfs-bench-plans.1
        gupfs-bench-reliability.1
        gupfs-bench-report.1
        gupfs-bench-run.1
        gupfs-bench-streams.1
        gupfs-bench-tiotest.1
        gupfs-bench.1
        gupfs-check.1
        gupfs-completions.1
        gupfs-config-check.1
        gupfs-config.1
        gupfs-df.1
        gupfs-doctor.1
        gupfs-key-client.1
        gupfs-key-list.1
        gupfs-key-revoke.1
        gupfs-key.1
        gupfs-layout-convert.1
        gupfs-layout-get.1
        gupfs-layout-set.1
        gupfs-layout.1
        gupfs-man.1
        gupfs-mds-force.1
        gupfs-mds-list.1
        gupfs-mds-move.1
        gupfs-mds-remove.1
        gupfs-mds.1
        gupfs-mount.1
        gupfs-oss.1
        gupfs-ost-accept-loss.1
        gupfs-ost-add.1
        gupfs-ost-drain.1
        gupfs-ost-lost.1
        gupfs-ost-remove.1
        gupfs-ost.1
        gupfs-rebalance.1
        gupfs-resync.1
        gupfs-scrub.1
        gupfs-status.1
        gupfs-stop.1
        gupfs-sync.1
        gupfs-tls-init.1
        gupfs-tls.1
        gupfs-top.1
        gupfs-up.1
        gupfs-verify.1
        gupfs-version.1
        gupfs.1"#]]
    .assert_eq(&pages.join("\n"));
    let page = std::fs::read_to_string(dir.path().join("gupfs-up.1")).unwrap();
    assert!(page.contains("Exit codes"), "{page}");
}

#[test]
fn doctor_reports_on_this_host() {
    let dir = tempfile::tempdir().unwrap();
    let output = gupfs(["doctor".as_ref(), dir.path().as_os_str(), "--json".as_ref()]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let about: Vec<&str> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["about"].as_str().unwrap())
        .collect();
    // More only where a rule of the kernel is otherwise or could not be tried.
    assert_eq!(
        about[..9],
        [
            "kernel",
            "/dev/fuse",
            "mounting",
            "memory",
            "open files",
            "io_uring",
            "requests",
            "space",
            "kernel rules"
        ]
    );
    if std::path::Path::new("/dev/fuse").exists() {
        let facts = json["facts"].as_array().unwrap();
        assert_eq!(facts.len(), gupfs_contract::ALL.len());
        // One finding a cache, and whether this kernel supports it.
        let caches = about.iter().filter(|about| **about == "cache");
        assert_eq!(caches.count(), gupfs_contract::KernelCache::ALL.len());
    } else {
        gupfs_skips::skip(
            gupfs_skips::Need::Fuse,
            "there is no /dev/fuse on this host",
        );
    }
    assert_eq!(
        output.status.code(),
        Some(if json["healthy"] == true { 0 } else { 1 })
    );
}

#[test]
fn the_example_configuration_can_be_used() {
    let example =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gupfs.example.toml");
    let output = gupfs(["config".as_ref(), "check".as_ref(), example.as_os_str()]);
    assert!(printed(&output).ends_with("can be used.\n"));
}

#[test]
fn a_path_that_is_neither_store_nor_mount_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["status", "df", "stop"] {
        let output = gupfs([command.as_ref(), dir.path().as_os_str()]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains("is neither a gupfs store"), "{printed}");
    }
    let output = gupfs(["check".as_ref(), dir.path().as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    let output = gupfs(["layout".as_ref(), "get".as_ref(), dir.path().as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
}
