//! Root's rights, which `--user` takes for opening only: given up by all threads
//! of the process once nothing needs them.
//!
//! What needs them: opening the events, their rings, the program and the file;
//! and what of the kernel only root may read (where it is mapped), which the
//! first records tell. What comes later, the memory and files of the program, its
//! user may read too. A recording of the whole machine reads those of everybody,
//! so it keeps them.

use crate::options::{Options, Target};
use prof_sys::Identity;
use prof_sys::process::effective_user;
use std::path::{Path, PathBuf};

/// What is left to give up.
#[derive(Debug)]
pub(crate) struct Rights {
    /// Who the process becomes; `None` when it is done, or will not be.
    user: Option<Identity>,
}

impl Rights {
    /// Of a recording whose files are `file` and others beside it, if it makes
    /// files. `notices` gets a line where rights stay though that was not asked
    /// for.
    pub(crate) fn of(
        options: &Options,
        file: Option<&Path>,
        notices: &mut dyn FnMut(&str),
    ) -> Self {
        let is_other = |user: &&Identity| effective_user() == 0 && user.uid != 0;
        let user = options.user.as_ref().filter(is_other);
        let user = user.filter(|_| options.target != Target::System);
        let kept = Self { user: None };
        let Some(user) = user else {
            return kept;
        };
        let folder = file.map(folder_of);
        // At the end names are added, and there may be other files.
        match folder.filter(|folder| !user.may_write_in(folder)) {
            None => Self {
                user: Some(user.clone()),
            },
            Some(folder) => {
                notices(&format!(
                    "the recorder stays root: {} may not write in {}\n  try: -o a file where \
                     that user may",
                    user.name.display(),
                    folder.display()
                ));
                kept
            }
        }
    }

    /// Gives them up, once.
    pub(crate) fn give_up(&mut self, notices: &mut dyn FnMut(&str)) {
        let Some(user) = self.user.take() else {
            return;
        };
        if let Err(error) = user.become_for_good() {
            notices(&format!("the recorder stays root: {error}"));
        }
    }
}

fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}
