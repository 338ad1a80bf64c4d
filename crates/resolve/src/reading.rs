//! Reading a recording ahead of whoever takes its records.

use crossbeam_channel::{Receiver, Sender, bounded};
use prof_perfdata::{Batch, Error, Reader, TimeOrder};
use std::cell::RefCell;
use std::thread;

/// Batches read ahead.
const AHEAD: usize = 4;

/// Batches of records.
pub(crate) enum Batches<'a> {
    /// As another thread reads them.
    Ahead {
        full: Receiver<Batch>,
        empty: Sender<Batch>,
    },
    /// Read when they are asked for, where no thread can be started.
    Here(RefCell<Here<'a>>),
}

/// A reading that goes on from batch to batch.
pub(crate) struct Here<'a> {
    records: &'a mut TimeOrder,
    spare: Batch,
    result: Result<(), Error>,
}

impl Batches<'_> {
    /// Lets the memory of a batch be used again.
    pub(crate) fn give_back(&self, batch: Batch) {
        match self {
            // The reader may have ended.
            Self::Ahead { empty, .. } => _ = empty.try_send(batch),
            Self::Here(here) => here.borrow_mut().spare = batch,
        }
    }
}

impl Here<'_> {
    fn next(&mut self) -> Option<Batch> {
        let mut batch = std::mem::take(&mut self.spare);
        self.result = self.records.fill(&mut batch);
        (self.result.is_ok() && !batch.is_empty()).then_some(batch)
    }
}

impl Iterator for &Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        match self {
            Batches::Ahead { full, .. } => full.recv().ok(),
            Batches::Here(here) => here.borrow_mut().next(),
        }
    }
}

/// Calls `work` with the records of `reader` in time order, which a thread of
/// its own reads, if there can be one, until it returns.
pub(crate) fn in_time_order<R>(
    reader: Reader,
    work: impl FnOnce(&Batches<'_>) -> R,
) -> (TimeOrder, Result<R, Error>) {
    let (full, receive_full) = bounded(AHEAD);
    let (empty, receive_empty) = bounded::<Batch>(AHEAD + 1);
    let mut records = TimeOrder::new(reader);
    let read = thread::scope(|scope| {
        let records = &mut records;
        let (give, given) = bounded::<&mut TimeOrder>(1);
        let reading =
            thread::Builder::new()
                .name("read".to_owned())
                .spawn_scoped(scope, move || {
                    let Ok(records) = given.recv() else {
                        return Ok(());
                    };
                    loop {
                        let mut batch = receive_empty.try_recv().unwrap_or_default();
                        records.fill(&mut batch)?;
                        if batch.is_empty() || full.send(batch).is_err() {
                            return Ok(());
                        }
                    }
                });
        let Ok(reading) = reading else {
            let batches = Batches::Here(RefCell::new(Here {
                records,
                spare: Batch::default(),
                result: Ok(()),
            }));
            let made = work(&batches);
            return match batches {
                Batches::Here(here) => here.into_inner().result.map(|()| made),
                Batches::Ahead { .. } => Ok(made),
            };
        };
        // The thread waits for it.
        let _ = give.send(records);
        let batches = Batches::Ahead {
            full: receive_full,
            empty,
        };
        let made = work(&batches);
        drop(batches);
        match reading.join() {
            Ok(read) => read.map(|()| made),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    (records, read)
}
