//! Which bytes of which file or device each thread of each process works on. Nothing here touches a file.

/// The files or devices: `-G`, `-P`, `-T`, or as many `-R` as there are devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Global,
    PerProcess,
    PerThread,
    Devices(usize),
}

/// How much: `-f` for each process, or `-F` for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    EachProcess(u64),
    AllProcesses(u64),
}

/// The regions that the flags ask for.
#[derive(Clone, Debug)]
pub struct Request {
    pub shape: Shape,
    pub processes: usize,
    pub threads: usize,
    pub amount: Amount,
    pub record: u64,
    /// `-O p`: all processes work on the same region.
    pub processes_overlap: bool,
    /// `-O t`: all threads of a process work on the same region.
    pub threads_overlap: bool,
    /// `-s`.
    pub start: u64,
    /// Records and offsets are multiples of this: the device's block, or 1.
    pub block: u64,
}

/// The request, adjusted to devices and whole records.
#[derive(Clone, Debug)]
pub struct Layout {
    request: Request,
    /// Records of each thread.
    pub records: u64,
}

/// A file of the run, or the number of a device.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize,
)]
pub enum TargetFile {
    Global,
    Process(usize),
    Thread(usize, usize),
    Device(usize),
}

/// Where a thread works: `records` records from `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region {
    pub place: TargetFile,
    pub offset: u64,
}

impl Layout {
    /// Adjusts the request: equally many threads for each device, records and start at multiples of the device's block, and as
    /// many records as come closest to the amount.
    pub fn new(mut request: Request) -> Layout {
        request.record = request.record.next_multiple_of(request.block);
        request.start = request.start.next_multiple_of(request.block);
        if let Shape::Devices(devices) = request.shape {
            request.threads = request.threads.next_multiple_of(devices);
        }
        let parts = request.parts() as u128 * u128::from(request.record);
        let (bytes, parts) = match request.amount {
            Amount::EachProcess(bytes) => (bytes, parts),
            Amount::AllProcesses(bytes) => (bytes, parts * request.processes as u128),
        };
        // The nearest whole number; a thread without a record would measure nothing.
        let nearest = (u128::from(bytes) * 2 + parts) / (parts * 2);
        let records = nearest.clamp(1, u128::from(u64::MAX)) as u64;
        Layout { request, records }
    }

    pub fn processes(&self) -> usize {
        self.request.processes
    }

    pub fn threads(&self) -> usize {
        self.request.threads
    }

    pub fn record(&self) -> u64 {
        self.request.record
    }

    pub fn start(&self) -> u64 {
        self.request.start
    }

    /// Bytes of one thread's region.
    pub fn region_bytes(&self) -> u64 {
        self.records.saturating_mul(self.record())
    }

    /// The adjusted file size of a process: what its threads' distinct regions hold.
    pub fn process_bytes(&self) -> u64 {
        self.region_bytes()
            .saturating_mul(self.request.parts() as u64)
    }

    /// Bytes that all files together will hold.
    pub fn total_bytes(&self) -> u64 {
        let distinct = if self.request.processes_overlap {
            1
        } else {
            self.processes() as u64
        };
        self.process_bytes().saturating_mul(distinct)
    }

    /// The region of a thread of a process.
    pub fn region(&self, rank: usize, thread: usize) -> Region {
        let request = &self.request;
        let (place, process, part) = match request.shape {
            Shape::Global => (TargetFile::Global, rank, thread),
            Shape::PerProcess => (TargetFile::Process(rank), 0, thread),
            Shape::PerThread => (TargetFile::Thread(rank, thread), 0, 0),
            Shape::Devices(devices) => {
                (TargetFile::Device(thread % devices), rank, thread / devices)
            }
        };
        let process = if request.processes_overlap {
            0
        } else {
            process
        };
        let part = if request.threads_overlap { 0 } else { part };
        let regions = process * request.parts_of_one_file() + part;
        Region {
            place,
            offset: request.start + regions as u64 * self.region_bytes(),
        }
    }

    /// The process whose regions a process works on after `turns` rotations (`-r`).
    pub fn rotated(&self, rank: usize, turns: usize) -> usize {
        let processes = self.processes();
        (rank + processes - turns % processes) % processes
    }

    /// Where the last region of a place ends.
    pub fn end_of(&self, place: TargetFile) -> u64 {
        let all = (0..self.processes())
            .flat_map(|rank| (0..self.threads()).map(move |thread| self.region(rank, thread)));
        all.filter(|region| region.place == place)
            .map(|region| region.offset.saturating_add(self.region_bytes()))
            .max()
            .unwrap_or(0)
    }

    /// Every file or device of the run.
    pub fn places(&self) -> Vec<TargetFile> {
        let mut places: Vec<TargetFile> = (0..self.processes())
            .flat_map(|rank| (0..self.threads()).map(move |thread| self.region(rank, thread).place))
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

impl Request {
    /// Distinct regions of a process in one file or device.
    fn parts_of_one_file(&self) -> usize {
        match self.shape {
            _ if self.threads_overlap => 1,
            Shape::Devices(devices) => self.threads / devices,
            Shape::Global | Shape::PerProcess | Shape::PerThread => self.threads,
        }
    }

    /// Distinct regions of a process.
    fn parts(&self) -> usize {
        match self.shape {
            Shape::Devices(devices) => self.parts_of_one_file() * devices,
            _ => self.parts_of_one_file(),
        }
    }
}

#[cfg(test)]
mod examples {
    use super::*;
    use expect_test::{Expect, expect};

    const MIB: u64 = 1 << 20;

    fn request(shape: Shape, processes: usize, threads: usize, amount: Amount) -> Request {
        Request {
            shape,
            processes,
            threads,
            amount,
            record: 64 << 10,
            processes_overlap: false,
            threads_overlap: false,
            start: 0,
            block: 1,
        }
    }

    /// Regions of one line a process, in KiB.
    fn check(request: Request, expected: Expect) {
        let layout = Layout::new(request);
        let mut text = format!("{} records\n", layout.records);
        for rank in 0..layout.processes() {
            text += &format!("process {rank}:");
            for thread in 0..layout.threads() {
                let region = layout.region(rank, thread);
                text += &format!(" {:?} {}", region.place, region.offset >> 10);
            }
            text += "\n";
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn example_1_four_processes_divide_one_file() {
        let mut example = request(Shape::Global, 4, 2, Amount::EachProcess(1 << 30));
        example.record = 256 << 10;
        assert_eq!(Layout::new(example.clone()).total_bytes(), 4 << 30);
        check(
            example,
            expect![[r#"
                2048 records
                process 0: Global 0 Global 524288
                process 1: Global 1048576 Global 1572864
                process 2: Global 2097152 Global 2621440
                process 3: Global 3145728 Global 3670016
            "#]],
        );
    }

    #[test]
    fn example_2_two_files_change_hands_after_a_test() {
        let example = request(Shape::PerProcess, 2, 4, Amount::AllProcesses(512 * MIB));
        let layout = Layout::new(example.clone());
        assert_eq!(layout.region_bytes(), 64 * MIB);
        assert_eq!(layout.end_of(TargetFile::Process(0)), 256 * MIB);
        assert_eq!([layout.rotated(0, 1), layout.rotated(1, 1)], [1, 0]);
        check(
            example,
            expect![[r#"
                1024 records
                process 0: Process(0) 0 Process(0) 65536 Process(0) 131072 Process(0) 196608
                process 1: Process(1) 0 Process(1) 65536 Process(1) 131072 Process(1) 196608
            "#]],
        );
    }

    #[test]
    fn example_3_threads_are_dealt_to_the_devices() {
        check(
            request(Shape::Devices(2), 3, 2, Amount::AllProcesses(512 * MIB)),
            expect![[r#"
                1365 records
                process 0: Device(0) 0 Device(1) 0
                process 1: Device(0) 87360 Device(1) 87360
                process 2: Device(0) 174720 Device(1) 174720
            "#]],
        );
    }

    #[test]
    fn figure_a_2_threads_that_overlap_do_the_same_work() {
        let mut figure = request(Shape::Global, 2, 2, Amount::EachProcess(MIB));
        figure.threads_overlap = true;
        check(
            figure.clone(),
            expect![[r#"
                16 records
                process 0: Global 0 Global 0
                process 1: Global 1024 Global 1024
            "#]],
        );
        figure.processes_overlap = true;
        figure.start = 8 * MIB;
        assert_eq!(Layout::new(figure.clone()).total_bytes(), MIB);
        check(
            figure,
            expect![[r#"
                16 records
                process 0: Global 8192 Global 8192
                process 1: Global 8192 Global 8192
            "#]],
        );
    }

    #[test]
    fn processes_overlap_while_their_threads_do_not() {
        let mut wanted = request(Shape::Global, 2, 2, Amount::EachProcess(MIB));
        wanted.processes_overlap = true;
        check(
            wanted,
            expect![[r#"
                8 records
                process 0: Global 0 Global 512
                process 1: Global 0 Global 512
            "#]],
        );
    }

    #[test]
    fn a_device_adjusts_records_threads_and_start() {
        let mut wanted = request(Shape::Devices(2), 1, 3, Amount::EachProcess(MIB));
        (wanted.record, wanted.start, wanted.block) = (1000, 1, 512);
        let layout = Layout::new(wanted);
        assert_eq!(
            (layout.record(), layout.start(), layout.threads()),
            (1024, 512, 4)
        );
        assert_eq!(layout.records, 256);
    }

    #[test]
    fn rotation_comes_back_after_as_many_turns_as_processes() {
        let layout = Layout::new(request(Shape::Global, 3, 1, Amount::EachProcess(1)));
        let turns: Vec<usize> = (0..4).map(|turns| layout.rotated(0, turns)).collect();
        assert_eq!(turns, [0, 2, 1, 0]);
    }

    #[test]
    fn a_tiny_or_huge_amount_is_still_a_whole_number_of_records() {
        let tiny = Layout::new(request(Shape::Global, 1, 4, Amount::EachProcess(1)));
        assert_eq!(tiny.records, 1);
        let mut wanted = request(Shape::PerThread, 1, 1, Amount::EachProcess(u64::MAX));
        wanted.record = 1;
        assert_eq!(Layout::new(wanted).records, u64::MAX);
    }
}
