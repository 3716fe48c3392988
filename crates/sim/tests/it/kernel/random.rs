//! The caches of the model are invisible to the programs of the only client: a kernel that caches for an hour, drops dentries and gets
//! notifications gives the same results as one that asks the server each time.

use super::tree_server::TreeServer;
use gupfs_fuse::{Errno, FileSystem, MountConfig, NodeId};
use gupfs_sim::cluster::GupfsKernel;
use gupfs_sim::kernel::{Directory, File, Kernel, RenameFlags};
use libc::{O_APPEND, O_CREAT, O_EXCL, O_RDWR, O_TRUNC};
use std::sync::Arc;
use std::time::Duration;

const PATHS: [&str; 12] = [
    "a", "b", "d", "e", "d/a", "d/b", "d/e", "e/a", "d/e/a", "link", "link/a", "d/../a",
];

/// Files that a program holds open.
const HELD_MAX: usize = 4;

/// A generator of numbers (xorshift).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn path(&mut self) -> &'static [u8] {
        PATHS[self.below(PATHS.len())].as_bytes()
    }
}

/// What a program does.
#[derive(Clone, Copy, Debug)]
struct Step {
    call: usize,
    path: &'static [u8],
    other: &'static [u8],
    number: usize,
}

struct Program<F> {
    kernel: Arc<Kernel<F>>,
    root: Directory<F>,
    held: Vec<File<F>>,
}

impl<F: FileSystem> Program<F> {
    fn new(kernel: Arc<Kernel<F>>) -> Program<F> {
        let root = kernel.root();
        Program {
            kernel,
            root,
            held: Vec::new(),
        }
    }

    /// The result as text.
    async fn run(&mut self, step: Step) -> Result<String, Errno> {
        let Step {
            call,
            path,
            other,
            number,
        } = step;
        let root = &self.root;
        match call {
            0 => root.mkdir(path, 0o777).await?,
            1 => root.rmdir(path).await?,
            2 => root.unlink(path).await?,
            3 => root.rename(path, other).await?,
            4 => {
                let exchange = RenameFlags::Exchange;
                root.rename_with(path, other, exchange).await?;
            }
            5 => root.link(path, other).await?,
            6 => root.symlink(b"d", path).await?,
            7 => root.truncate(path, number as u64).await?,
            8 => root.chmod(path, 0o700 + number as u32 % 8).await?,
            9 => {
                let flags = [O_RDWR, O_CREAT | O_RDWR, O_CREAT | O_EXCL | O_RDWR];
                let more = [0, O_APPEND, O_TRUNC];
                let flags = flags[number % 3] | more[number / 3 % 3];
                self.held.push(root.open(path, flags, 0o666).await?);
                if self.held.len() > HELD_MAX {
                    self.held.remove(0).close().await?;
                }
            }
            10 => return self.list(path).await,
            11..=14 => return self.stat(path).await,
            _ => return self.use_file(call, number).await,
        }
        Ok("done".into())
    }

    async fn list(&self, path: &[u8]) -> Result<String, Errno> {
        let names = self.root.list(path).await?.into_iter();
        let mut names: Vec<_> = names.map(|listed| (listed.name, listed.kind)).collect();
        names.sort();
        Ok(format!("{names:?}"))
    }

    async fn stat(&self, path: &[u8]) -> Result<String, Errno> {
        let attr = self.root.stat(path).await?;
        let (mode, links, mtime) = (attr.mode, attr.nlink, attr.mtime.seconds);
        // The size of a directory is the server's choice.
        let size = if mode & 0o040_000 == 0 { attr.size } else { 0 };
        Ok(format!("{size} {mode:o} {links} at {mtime}"))
    }

    async fn use_file(&self, call: usize, number: usize) -> Result<String, Errno> {
        let Some(file) = self.held.get(number % HELD_MAX) else {
            return Ok("no file".into());
        };
        let (at, byte) = ((number * 777) as u64, number as u8);
        match call {
            15 | 16 => {
                file.write(at, &vec![byte; 1 + number * 50]).await?;
                Ok("written".into())
            }
            17 => {
                file.store(at % 4096, byte).await?;
                file.msync().await?;
                Ok("stored".into())
            }
            18 => Ok(format!("{:?}", file.load(at % 4096).await)),
            19 => Ok(format!("{:?}", file.send(at, 10).await)),
            20 => Ok(format!("{:?}", file.stat().await.map(|attr| attr.nlink))),
            _ => Ok(format!("{:?}", file.read(at, 5000).await)),
        }
    }

    /// What the server and the host do to the kernel's caches.
    async fn disturb(&self, kind: usize, path: &[u8], node: u64) {
        match kind {
            0 => self.kernel.shrink().await,
            1 => self.kernel.inc_epoch().await.unwrap(),
            // The kernel may not have it.
            2 => drop(self.kernel.inval_entry(NodeId::ROOT, path).await),
            3 => drop(self.kernel.inval_entry(NodeId(node), b"a").await),
            4 => drop(self.kernel.inval_inode(NodeId(node), 0).await),
            _ => {}
        }
    }

    /// Ends the program; then the kernel forgets everything.
    async fn end(mut self) {
        for file in self.held.drain(..) {
            file.close().await.unwrap();
        }
        // RELEASE is sent in the background.
        tokio::time::sleep(Duration::from_secs(10)).await;
        self.kernel.shrink().await;
        assert_eq!(self.kernel.dentries(), 0);
    }
}

/// A server, and a kernel that has mounted it.
fn tree(ttl: Duration) -> (Arc<TreeServer>, Program<TreeServer>) {
    let server = Arc::new(TreeServer::new(ttl));
    let kernel = Kernel::mount(server.clone(), MountConfig::FLAGS, None);
    (server, Program::new(kernel))
}

/// Kinds of calls.
const CALLS: usize = 24;

/// `done`: how many calls of each kind have succeeded.
async fn compare(seed: u64, done: &mut [usize; CALLS]) {
    let mut numbers = Numbers::new(seed);
    let (caching_server, mut caching) = tree(Duration::from_secs(3600));
    let (asking_server, mut asking) = tree(Duration::ZERO);
    if seed.is_multiple_of(3) {
        caching.kernel.set_dentries_max(3);
    }
    for number in 0..400 {
        let step = Step {
            call: numbers.below(CALLS),
            path: numbers.path(),
            other: numbers.path(),
            number: numbers.below(40),
        };
        let found = caching.run(step).await;
        let expected = asking.run(step).await;
        assert_eq!(found, expected, "seed {seed}, step {number}: {step:?}");
        done[step.call] += usize::from(found.is_ok());
        let changes = (caching_server.changes(), asking_server.changes());
        assert_eq!(
            changes.0, changes.1,
            "seed {seed}, step {number}: {step:?}, {found:?}"
        );
        let (kind, path) = (numbers.below(15), numbers.path());
        let node = numbers.below(10) as u64 + 1;
        caching.disturb(kind, path, node).await;
    }
    caching.end().await;
    asking.end().await;
    for server in [caching_server, asking_server] {
        assert_eq!(server.lookups(), []);
    }
}

/// Programs of two hosts in turn: above gupfs they get the results that they get above one tree in memory.
pub async fn compare_cluster(seed: u64, kernels: [Arc<GupfsKernel>; 2]) {
    let mut numbers = Numbers::new(seed);
    let mut found = kernels.map(Program::new);
    let server = Arc::new(TreeServer::new(Duration::ZERO));
    let kernel = || Kernel::mount(server.clone(), MountConfig::FLAGS, None);
    let mut expected = [Program::new(kernel()), Program::new(kernel())];
    for number in 0..150 {
        let host = numbers.below(2);
        let step = Step {
            call: numbers.below(CALLS),
            path: numbers.path(),
            other: numbers.path(),
            number: numbers.below(40),
        };
        // Pages of mappings and of splice are not revalidated; the two servers' clocks differ.
        if matches!(step.call, 17..=19) {
            continue;
        }
        let without_time = |result: Result<String, Errno>| {
            result.map(|text| text.split(" at ").next().unwrap_or_default().to_owned())
        };
        let result = without_time(found[host].run(step).await);
        let wanted = without_time(expected[host].run(step).await);
        assert_eq!(
            result, wanted,
            "seed {seed}, host {host}, step {number}: {step:?}"
        );
    }
    for program in found {
        program.end().await;
    }
    for program in expected {
        program.end().await;
    }
}

#[test]
fn a_kernel_that_caches_gives_the_results_of_one_that_does_not() {
    let mut done = [0; CALLS];
    for seed in 0..100 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(compare(seed, &mut done));
    }
    assert!(done.iter().all(|done| *done > 20), "{done:?}");
}
