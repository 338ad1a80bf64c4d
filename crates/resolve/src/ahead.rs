//! What is done while records are read: symbol tables and names.

use crate::early_names::{EarlyAnswers, EarlyPart};
use crate::module_files::ModuleFiles;
use crate::recorded::RecordedKernel;
use prof_live::Module;
use prof_symbolize::Detail;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A piece of work on the files of one module.
pub(crate) enum Job {
    /// Reads what look-ups need of them.
    Prepare {
        module: Box<Module>,
        kernel: RecordedKernel,
    },
    /// Looks addresses up.
    LookUp(EarlyPart),
}

/// Work in the order in which it came up, for any thread that has time.
pub(crate) struct Ahead<'a> {
    pub(crate) files: &'a ModuleFiles<'a>,
    pub(crate) kernel: &'a RecordedKernel,
    pub(crate) detail: Detail,
    pub(crate) answers: EarlyAnswers,
    waiting: Mutex<VecDeque<Job>>,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(
        files: &'a ModuleFiles<'a>,
        kernel: &'a RecordedKernel,
        detail: Detail,
    ) -> Self {
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
            Some(Job::Prepare { module, kernel }) => {
                self.files.prepare(&module, &kernel, self.detail);
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
