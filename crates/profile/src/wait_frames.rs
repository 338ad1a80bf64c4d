//! What threads waited for, as frames.

use crate::{
    Dso, DsoId, DsoKind, FileOffset, Frame, FrameRange, Function, FunctionId, Location, LocationId,
    Profile, StackId, Svma, Wait,
};
use prof_abi::CpuMode;
use rustc_hash::FxHashMap;

impl Profile {
    /// Adds to the stack of each wait a frame for what was waited for
    /// (`blocked: futex`, `for a CPU: preempted`), in a dso of kind
    /// [`DsoKind::Waiting`] or [`DsoKind::Runnable`]. Rows and weights do not
    /// change, nor does a profile without waits.
    pub fn show_wait_states(&mut self) {
        let mut states = States::default();
        for row in 0..self.samples.len() {
            let wait = self.samples.wait_at(row).copied();
            let stack = self.samples.stacks().get(row).copied();
            if let Some((wait, stack)) = wait.zip(stack) {
                let stack = states.on_top(self, stack, &wait);
                self.samples.set_stack(row, stack);
            }
        }
    }

    /// Adds a location that stands for what was waited for, with this text as
    /// its name, in a dso of its own of kind [`DsoKind::Waiting`].
    pub fn add_wait_place(&mut self, words: &str) -> LocationId {
        let dso = self.add_state_dso(DsoKind::Waiting);
        self.add_state(words, dso)
    }

    /// Adds a place that is nothing but a state.
    fn add_state(&mut self, words: &str, dso: DsoId) -> LocationId {
        let function = FunctionId(self.functions.len() as u32);
        // Each has an address of its own, so that views by address keep them
        // apart.
        let address = u64::from(function.0);
        self.functions.push(Function {
            name: self.names.intern(words),
            dso,
            start: Svma(address),
            size: 0,
            mode: CpuMode::User,
            unnamed: None,
            defined_at: None,
        });
        let frames = FrameRange {
            start: self.frames.len() as u32,
            len: 1,
        };
        self.frames.push(Frame {
            function,
            file: None,
            line: 0,
            is_inline: false,
        });
        let location = LocationId(self.locations.len() as u32);
        self.locations.push(Location {
            mode: CpuMode::User,
            dso,
            address: Svma(address),
            file_offset: FileOffset(address),
            is_return: false,
            frames,
            branch: None,
        });
        location
    }

    fn add_state_dso(&mut self, kind: DsoKind) -> DsoId {
        let name = match kind {
            DsoKind::Runnable => "[for a CPU]",
            _ => "[waiting]",
        };
        let name = self.names.intern(name);
        self.dsos.push(Dso {
            kind,
            path: name,
            short_name: name,
            beside_address: name,
            build_id: None,
            symbols_from: None,
        });
        DsoId(self.dsos.len() as u32 - 1)
    }
}

/// States and stacks that were made.
#[derive(Default)]
struct States {
    /// By whether a CPU was all that was missing.
    dsos: [Option<DsoId>; 2],
    /// By words: its place.
    places: FxHashMap<String, LocationId>,
    /// By what it stands on and its place.
    stacks: FxHashMap<(StackId, LocationId), StackId>,
}

impl States {
    /// The stack with the wait's state called from it.
    fn on_top(&mut self, profile: &mut Profile, stack: StackId, wait: &Wait) -> StackId {
        let place = self.place(profile, wait);
        let tree = &mut profile.stacks;
        let new = self.stacks.entry((stack, place));
        *new.or_insert_with(|| match tree.is_frozen() {
            true => tree.append(stack, place),
            false => tree.push(stack, place),
        })
    }

    fn place(&mut self, profile: &mut Profile, wait: &Wait) -> LocationId {
        let words = wait.words();
        if let Some(&known) = self.places.get(&words) {
            return known;
        }
        let is_runnable = wait.state.is_runnable();
        let kind = match is_runnable {
            true => DsoKind::Runnable,
            false => DsoKind::Waiting,
        };
        let [blocked, runnable] = &mut self.dsos;
        let dso = if is_runnable { runnable } else { blocked };
        let dso = *dso.get_or_insert_with(|| profile.add_state_dso(kind));
        let place = profile.add_state(&words, dso);
        self.places.insert(words, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        DsoKind, Event, EventId, LocationId, Profile, Sample, StackId, TaskId, Wait, WaitKind,
        WaitState,
    };

    /// The words on top of a row's stack, the kind of their dso, and what they
    /// stand on.
    fn top(profile: &Profile, row: usize) -> Option<(&str, DsoKind, StackId)> {
        let stack = profile.samples.get(row)?.stack;
        let (below, place) = profile.stacks.get(stack)?;
        let frame = profile.frames_at(place).first()?;
        let function = profile.function(frame.function);
        let kind = profile.dso(function.dso).kind;
        Some((profile.name(function.name), kind, below))
    }

    #[test]
    fn states_stand_on_waits_and_weights_stay() {
        for is_frozen in [false, true] {
            let mut profile = Profile::default();
            profile.events.push(Event::default());
            for period in [5, 7, 11, 13] {
                profile.samples.push(Sample {
                    event: EventId(0),
                    time: period,
                    period,
                    task: TaskId(0),
                    stack: StackId::EMPTY,
                    cpu: None,
                    wait: None,
                });
            }
            let futex = Wait {
                state: WaitState::Blocked,
                kind: WaitKind::Futex,
                ..Wait::default()
            };
            profile.samples.set_wait(1, futex);
            let open = Wait {
                is_open: true,
                ..futex
            };
            profile.samples.set_wait(2, open);
            let preempted = Wait {
                state: WaitState::Preempted,
                kind: WaitKind::Cpu,
                ..Wait::default()
            };
            profile.samples.set_wait(3, preempted);
            if is_frozen {
                profile.stacks.freeze();
            }
            profile.show_wait_states();
            let futex = ("blocked: futex", DsoKind::Waiting, StackId::EMPTY);
            let preempted = ("for a CPU: preempted", DsoKind::Runnable, StackId::EMPTY);
            let tops: Vec<_> = (0..4).map(|row| top(&profile, row)).collect();
            assert_eq!(tops, [None, Some(futex), Some(futex), Some(preempted)]);
            // Equal ones are one.
            assert_eq!((profile.stacks.len(), profile.locations.len()), (3, 2));
            let periods: Vec<u64> = profile.samples.iter().map(|it| it.period).collect();
            assert_eq!(periods, [5, 7, 11, 13]);
            let place = profile.stacks.get(StackId(2)).map(|(_, place)| place);
            assert_eq!(place, Some(LocationId(1)));
        }
    }
}
