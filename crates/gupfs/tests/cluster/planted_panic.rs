//! Plants a panic in a running process, like a debugger.
//!
//! Unsafe: ptrace(2) has no safe binding. All of it is in `Traced`, which follows ptrace(2) and proc(5).
#![cfg(target_arch = "x86_64")]

use crate::running::TIMEOUT;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// What `None.unwrap()` calls. Its only argument, in the first register, is where it was called: a `core::panic::Location`.
const PANICS: &str = "4core6option13unwrap_failed";

/// `orig_rax` of a thread that is not in a system call.
const NO_SYSTEM_CALL: u64 = u64::MAX;

/// System calls of the allocator, and of stdout and stderr. Nothing that panics is inside of those, holding their locks, which
/// the panic hook needs. A thread that is in no system call may hold them, too.
const NEVER_PANICS: [libc::c_long; 8] = [
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The location in the message of the planted panic.
const PLACE: &[u8] = b"planted by a test";

/// The address of the function in the tested binary.
pub struct Program {
    path: std::path::PathBuf,
    function: u64,
}

impl Program {
    pub fn read() -> Program {
        let path = fs::canonicalize(env!("CARGO_BIN_EXE_gupfs")).unwrap();
        let elf = fs::read(&path).unwrap();
        let function = find_symbol(&elf, PANICS).expect("a program with symbols");
        Program { path, function }
    }

    /// The load address of the program in this process.
    fn base(&self, pid: u32) -> u64 {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let path = self.path.to_str().unwrap();
        let line = maps.lines().find(|line| line.ends_with(path)).unwrap();
        let (from, _) = line.split_once('-').unwrap();
        u64::from_str_radix(from, 16).unwrap()
    }
}

/// Threads of a process: number and name.
pub fn threads(pid: u32) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let entry = entry.unwrap();
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else {
            continue; // it has ended
        };
        let number = entry.file_name().to_str().unwrap().parse().unwrap();
        found.push((number, name.trim_end().to_string()));
    }
    found.sort();
    found
}

/// Makes a thread panic.
pub fn plant(program: &Program, pid: u32, thread: i32) {
    let function = program.base(pid) + program.function;
    let (traced, mut registers) = Traced::stop_in_system_call(thread);
    // Below the red zone of the thread's function (128 bytes), and space for the data.
    let text = (registers.rsp - 1024) & !15;
    let location = text + 64;
    let memory = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .unwrap();
    memory.write_all_at(PLACE, text).unwrap();
    // `core::panic::Location`: pointer and length of the file's name, line, column.
    let mut bytes = Vec::new();
    bytes.extend(text.to_le_bytes());
    bytes.extend((PLACE.len() as u64).to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    memory.write_all_at(&bytes, location).unwrap();
    // The function's return address: zero, which ends a backtrace (RUST_BACKTRACE=1). The address at which the thread stopped
    // would not do: the unwinder would take what lies on the stack here for the frame of that place, and follow it anywhere.
    let stack = text - 1024 - 8;
    memory.write_all_at(&0u64.to_le_bytes(), stack).unwrap();
    registers.rsp = stack;
    registers.rip = function;
    registers.rdi = location;
    registers.orig_rax = NO_SYSTEM_CALL; // the one that was interrupted is not begun again
    traced.set_registers(&registers);
    drop(traced);
}

/// A thread that is stopped and traced until this is dropped.
struct Traced(i32);

impl Traced {
    /// Stops the thread while it is in a system call other than those of `NEVER_PANICS`.
    fn stop_in_system_call(thread: i32) -> (Traced, libc::user_regs_struct) {
        let begun = Instant::now();
        loop {
            let traced = Traced::stop(thread);
            let registers = traced.registers();
            if registers.orig_rax != NO_SYSTEM_CALL
                && !NEVER_PANICS.contains(&registers.orig_rax.cast_signed())
            {
                return (traced, registers);
            }
            drop(traced);
            assert!(
                begun.elapsed() < TIMEOUT,
                "thread {thread} makes no system call"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop(thread: i32) -> Traced {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: these requests access no memory of this process.
        unsafe {
            assert_eq!(
                libc::ptrace(libc::PTRACE_SEIZE, thread, null, null),
                0,
                "seize"
            );
            assert_eq!(
                libc::ptrace(libc::PTRACE_INTERRUPT, thread, null, null),
                0,
                "interrupt"
            );
            let mut status = 0;
            let waited = libc::waitpid(thread, &raw mut status, libc::__WALL);
            assert!(waited == thread && libc::WIFSTOPPED(status), "{status:x}");
        }
        Traced(thread)
    }

    fn registers(&self) -> libc::user_regs_struct {
        // SAFETY: the structure is plain numbers, and the kernel fills exactly it.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let null = std::ptr::null_mut::<libc::c_void>();
            let got = libc::ptrace(libc::PTRACE_GETREGS, self.0, null, &raw mut registers);
            assert_eq!(got, 0, "registers");
            registers
        }
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the kernel reads exactly this structure.
        let set = unsafe {
            libc::ptrace(
                libc::PTRACE_SETREGS,
                self.0,
                null,
                std::ptr::from_ref(registers),
            )
        };
        assert_eq!(set, 0, "registers are set");
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: it accesses no memory of this process.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, null, null) };
    }
}

/// The address of the function whose mangled name holds `name`, from the symbol table of a 64-bit ELF file.
fn find_symbol(elf: &[u8], name: &str) -> Option<u64> {
    let number = |at: usize, len: usize| {
        let bytes = &elf[at..at + len];
        bytes
            .iter()
            .rev()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let sections = number(0x28, 8) as usize;
    let (size, count) = (number(0x3a, 2) as usize, number(0x3c, 2) as usize);
    let section = |index: usize| sections + index * size;
    // SHT_SYMTAB is 2; its link is the table of names.
    let table = (0..count).map(section).find(|at| number(at + 4, 4) == 2)?;
    let names = section(number(table + 0x28, 4) as usize);
    let (from, len) = (
        number(table + 0x18, 8) as usize,
        number(table + 0x20, 8) as usize,
    );
    let text = number(names + 0x18, 8) as usize;
    (from..from + len).step_by(24).find_map(|symbol| {
        let begin = text + number(symbol, 4) as usize;
        let end = begin + elf[begin..].iter().position(|byte| *byte == 0)?;
        let is_it = std::str::from_utf8(&elf[begin..end]).is_ok_and(|it| it.contains(name));
        (is_it && number(symbol + 8, 8) != 0).then(|| number(symbol + 8, 8))
    })
}
