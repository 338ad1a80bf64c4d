//! What is done while records are read: symbol tables and names.

use crate::dso_files::DsoFiles;
use crate::early_names::{EarlyAnswers, EarlyPart};
use crate::recorded::RecordedKernel;
use prof_live::MappedDso;
use prof_symbolize::Detail;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A piece of work on the files of one dso.
pub(crate) enum Job {
    /// Reads what look-ups need of them.
    Prepare {
        dso: Box<MappedDso>,
        kernel: RecordedKernel,
    },
    /// Looks addresses up.
    LookUp(EarlyPart),
}

/// Work in the order in which it came up, for any thread that has time.
pub(crate) struct Ahead<'a> {
    pub(crate) files: &'a DsoFiles<'a>,
    pub(crate) kernel: &'a RecordedKernel,
    pub(crate) detail: Detail,
    pub(crate) answers: EarlyAnswers,
    waiting: Mutex<VecDeque<Job>>,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(files: &'a DsoFiles<'a>, kernel: &'a RecordedKernel, detail: Detail) -> Self {
        Self {
            files,
            kernel,
            detail,
            answers: EarlyAnswers::default(),
            waiting: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, job: Job) {
        self.waiting().push_back(job);
    }

    /// Does what came first of what waits; `false` if nothing does.
    pub(crate) fn do_next(&self) -> bool {
        let job = self.waiting().pop_front();
        match job {
            Some(Job::Prepare { dso, kernel }) => {
                self.files.prepare(&dso, &kernel, self.detail);
            }
            Some(Job::LookUp(part)) => {
                self.answers
                    .look_up(part, self.files, self.kernel, self.detail);
            }
            None => return false,
        }
        true
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Job>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
