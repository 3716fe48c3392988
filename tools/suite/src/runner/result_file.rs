//! The file that results are written to, a line as each run ends.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::error::{SuiteError, SuiteResult};
use crate::plan::Plan;
use crate::results::{self, Header, Line, Results};

pub struct ResultFile {
    pub path: PathBuf,
    file: File,
    /// All that is in it.
    pub results: Results,
}

impl ResultFile {
    pub fn create(path: &Path) -> SuiteResult<ResultFile> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => SuiteError::usage(format!(
                "{} exists: give --resume to go on with it, or another --out",
                path.display()
            )),
            _ => SuiteError::failed(format!("cannot make {}: {error}", path.display())),
        })?;
        Ok(ResultFile {
            path: path.to_path_buf(),
            file,
            results: Results::default(),
        })
    }

    /// Goes on behind what is there.
    pub fn resume(
        path: &Path,
        plan: &Plan,
        machine: &crate::results::Machine,
    ) -> SuiteResult<ResultFile> {
        let results = Results::read(path)?;
        if let Some(header) = results.headers.last() {
            if header.plan != *plan {
                return Err(SuiteError::usage(format!(
                    "{} was begun with another plan, targets or values: give the same, or another --out",
                    path.display()
                )));
            }
            if header.machine != *machine {
                return Err(SuiteError::usage(format!(
                    "{} was begun on another machine or kernel ({}, {}): its figures and new ones do not belong together; give \
                     another --out, and --compare",
                    path.display(),
                    header.machine.host,
                    header.machine.kernel
                )));
            }
        }
        Ok(ResultFile {
            path: path.to_path_buf(),
            file: results.go_on(path)?,
            results,
        })
    }

    pub fn begin(&mut self, header: Header) -> SuiteResult<()> {
        self.add(Line::Plan(Box::new(header)))
    }

    pub fn add(&mut self, line: Line) -> SuiteResult<()> {
        results::write(&mut self.file, &self.path, &line.show())?;
        self.results.add(line);
        Ok(())
    }
}
